// What only debug information says of types: bit-fields, and structs that are named before they are defined.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rtrace/decode/call_decoder.h"

namespace rtrace::decode::compiled_types_test {
namespace {

constexpr uint64_t kStruct = 0x10000;
constexpr uint64_t kStack = 0x7ffc00000ff8;

BufferMemory tracee() {
  BufferMemory memory;
  memory.add_value({kStack}, std::array<uint64_t, 2>{0x401000, 0});
  // low:3 = 5, middle:5 = -3, wide:40 = 0x123456789a, then an int 7
  memory.add_value({kStruct}, std::array<uint64_t, 2>{0x123456789aULL << 8 | 0xe8 | 5, 7});
  return memory;
}

proto::Member bits(proto::TypeRef type, uint64_t offset, uint8_t first, uint8_t size) {
  proto::Member member{"", std::move(type), offset};
  member.bit_offset = first;
  member.bit_size = size;
  return member;
}

proto::TypeRef structure() {
  std::vector<proto::Member> members = {bits(proto::make_integer(4, false), 0, 0, 3),
                                        bits(proto::make_integer(4, true), 0, 3, 5),
                                        bits(proto::make_integer(8, false), 0, 8, 40),
                                        {"", proto::make_integer(4, true), 8}};
  return proto::make_structure(std::move(members), 16, 8);
}

std::string first_argument(const proto::TypeRef& type, const Memory& memory, const CallDecoder& decoder) {
  arch::Regs regs;
  regs.raw.rsp = kStack;
  regs.raw.rdi = kStruct;
  auto arguments = decoder.enter(regs, memory).arguments;
  return arguments.size() == 1 ? to_text(arguments[0].value) : type->name;
}

CallDecoder decoder_of(const proto::TypeRef& type) {
  auto prototype = std::make_shared<proto::Prototype>();
  prototype->returns = proto::make_void();
  prototype->params = {{"", type}};
  prototype->first_at_return = 1;
  return CallDecoder(prototype, {});
}

TEST(CompiledTypes, BitFieldsShowTheirBitsWithTheirSign) {
  proto::TypeRef type = proto::make_pointer(structure());
  EXPECT_EQ(first_argument(type, tracee(), decoder_of(type)), "{ 5, -3, 78187493530, 7 }");
}

TEST(CompiledTypes, BitFieldsMayEndInTheNinthByteAndHave128Bits) {
  BufferMemory memory;
  memory.add_value({kStack}, std::array<uint64_t, 2>{0x401000, 0});
  // first:3 = 5, packed:62 = 2^61 + 6, then a field of 5 bits of an __int128 = -3
  memory.add_value({kStruct}, std::array<uint64_t, 2>{(uint64_t{6} << 3) | 5, (0x1dU << 1) | 1});
  proto::TypeRef type = proto::make_pointer(proto::make_structure(
      {bits(proto::make_integer(8, false), 0, 0, 3), bits(proto::make_integer(8, false), 0, 3, 62),
       bits(proto::make_integer(16, true), 8, 1, 5)},
      16, 8));
  EXPECT_EQ(first_argument(type, memory, decoder_of(type)), "{ 5, 2305843009213693958, -3 }");
}

TEST(CompiledTypes, BitFieldsBehindTheReadablePartAreUnreadable) {
  proto::TypeRef type =
      proto::make_pointer(proto::make_structure({bits(proto::make_integer(8, false), 12, 0, 40)}, 24, 8));
  EXPECT_EQ(first_argument(type, tracee(), decoder_of(type)), "{ ? }");
}

TEST(CompiledTypes, AStructBehindANameIsCapturedWithTheCall) {
  auto name = proto::make_named("point");
  proto::TypeRef defined = structure();
  name->target = defined;
  proto::TypeRef type = proto::make_pointer(name);
  CallDecoder decoder = decoder_of(type);
  EXPECT_EQ(decoder.at_entry().deep, 0);
  ASSERT_EQ(decoder.at_entry().count, 1);
  EXPECT_EQ(decoder.at_entry().captures[0].bound, 16u);
  EXPECT_EQ(first_argument(type, tracee(), decoder), "{ 5, -3, 78187493530, 7 }");
}

TEST(CompiledTypes, AStructThatIsNotDefinedYetIsReadWhileTheThreadIsStopped) {
  auto name = proto::make_named("point");
  EXPECT_NE(decoder_of(proto::make_pointer(name)).at_entry().deep, 0);
}

TEST(CompiledTypes, SmallLongDoublesHaveSixDecimals) {
  Value value;
  value.kind = Value::Kind::floating;
  value.size = 16;
  value.number = 9.8e-45L;
  EXPECT_EQ(to_text(value), "0.000000");
  value.size = 4;
  EXPECT_EQ(to_text(value), "0.000000");
}

}  // namespace
}  // namespace rtrace::decode::compiled_types_test
