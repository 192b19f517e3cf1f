// What the recorder copies of a call is all that is shown of it: functions of random prototypes, with
// arguments that point into memory full of pointers, are decoded from what was copied and from the memory
// itself.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>

#include "../../../src/agent/captures.h"
#include "agent/recorder_memory.h"
#include "rtrace/decode/call_decoder.h"
#include "rtrace/mech/captured_memory.h"
#include "rtrace/mech/shape_table.h"
#include "rtrace/proto/prototype.h"

namespace rtrace::followed_pointers_test {
namespace {

using agent::kPage;
using proto::Length;
using proto::TypeRef;

constexpr uint64_t kPages = 4, kStackAt = 3 * kPage;

class Arena : public Memory {
 public:
  Arena() {
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, (kPages + 1) * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + kPages * kPage, kPage, PROT_NONE);
  }
  ~Arena() override { munmap(memory_, (kPages + 1) * kPage); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint64_t begin() const { return reinterpret_cast<uint64_t>(memory_); }
  void put(uint64_t offset, uint64_t word) { std::memcpy(memory_ + offset, &word, sizeof word); }
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    if (out.empty() || address.value < begin() || address.value >= begin() + kPages * kPage) return 0;
    const uint64_t count = std::min<uint64_t>(out.size(), begin() + kPages * kPage - address.value);
    std::memcpy(out.data(), reinterpret_cast<const void*>(address.value), count);
    return count;
  }

 private:
  std::byte* memory_;
};

class FollowedPointers : public testing::Test {
 protected:
  FollowedPointers() {
    for (uint64_t page = 0; page < kPages; ++page) {
      const uint64_t number = arena_.begin() / kPage + page;
      reinterpret_cast<uint64_t*>(recorder_.control.pages)[agent::known_page(number)] = number;
    }
    auto name = proto::make_named("node");
    node_ = proto::make_structure({{"text", proto::make_string(proto::make_character()), 0},
                                   {"next", proto::make_pointer(name), 8},
                                   {"both", proto::make_array(proto::make_pointer(name), fixed(2)), 16}});
    name->target = node_;
  }

  unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }
  static Length fixed(uint64_t count) { return {Length::Kind::fixed, false, count}; }

  uint64_t word() {
    switch (below(8)) {
      case 0:
        return 0;
      case 1:
        return below(100);
      case 2:
        return 0x6d6f732065726f6d;  // text
      case 3:
        return 0x65726568;  // its end
      case 4:
        return arena_.begin() + below(kPages * kPage + 64);
      default:
        return arena_.begin() + below(kPages * kPage / 8) * 8;
    }
  }

  TypeRef plain() {
    switch (below(5)) {
      case 0:
        return proto::make_character();
      case 1:
        return proto::make_float(8);
      case 2:
        return proto::make_string_in_place(proto::make_character(), fixed(1 + below(12)));
      default:
        return proto::make_integer(1U << below(4), below(2) != 0);
    }
  }

  TypeRef structure(unsigned depth) {
    std::vector<proto::Member> members;
    for (unsigned count = 1 + below(4); count > 0; --count) members.push_back({"", type(depth - 1), 0});
    return proto::make_structure(std::move(members));
  }

  TypeRef address() {
    auto guessed = std::make_shared<proto::Type>(*proto::make_address());
    if (below(2) != 0) guessed->lens = proto::Lens::guess;
    return guessed;
  }

  TypeRef type(unsigned depth) {
    if (depth == 0) return plain();
    switch (below(12)) {
      case 0:
        return proto::make_string(proto::make_character(below(4) == 0 ? 4 : 1));
      case 1:
        return proto::make_string(proto::make_character(), fixed(below(50)));
      case 2:
        return proto::make_buffer(fixed(1 + below(50)));
      case 3:
        return structure(depth);
      case 4:
        return proto::make_array(type(depth - 1), fixed(1 + below(6)));
      case 5:
        return proto::make_pointer(proto::make_array(type(depth - 1), fixed(below(8))));
      case 6:
        return proto::make_pointer(proto::make_array(type(depth - 1), Length{Length::Kind::unbounded, true}));
      case 7:
        return proto::make_pointer(node_);
      case 8:
        return address();
      case 9:
        return proto::make_pointer(proto::make_container(static_cast<proto::Container>(below(3)),
                                                         below(2) != 0 ? proto::make_character() : plain()));
      default:
        return guessed(proto::make_pointer(type(depth - 1)));
    }
  }

  // By another argument's value, or two.
  TypeRef counted() {
    Length length{Length::Kind::argument, false, 1 + below(4)};
    if (below(4) == 0) length.factor = 1 + below(3);
    if (below(3) == 0) return proto::make_buffer(length);
    if (below(2) == 0) return proto::make_pointer(proto::make_array(type(below(3)), length));
    return proto::make_string(proto::make_character(below(4) == 0 ? 4 : 1), length);
  }

  proto::Direction direction() {
    constexpr proto::Direction kAll[] = {proto::Direction::in, proto::Direction::out,
                                         proto::Direction::inout};
    return kAll[below(3)];
  }

  TypeRef guessed(const TypeRef& type) {
    if (below(8) != 0) return type;
    auto made = std::make_shared<proto::Type>(*type);
    made->lens = proto::Lens::guess;
    return made;
  }

  decode::Limits limits() {
    constexpr size_t kStrings[] = {0, 1, 7, 5000}, kArrays[] = {0, 1, 2, 20};
    if (below(2) == 0) return {};
    return {kStrings[below(4)], kArrays[below(4)]};
  }

  TypeRef parameter() {
    switch (below(6)) {
      case 0:
        return counted();
      case 1:
        return proto::make_pointer(proto::make_integer(4, true));
      case 2:
        return proto::make_integer(8, true);
      default:
        return type(1 + below(4));
    }
  }

  std::shared_ptr<proto::Prototype> prototype() {
    auto made = std::make_shared<proto::Prototype>();
    made->returns = type(2);
    for (unsigned count = 1 + below(3); count > 0; --count)
      made->params.push_back({"", guessed(parameter()), direction()});
    const auto first_out = std::ranges::find_if(
        made->params, [](const proto::Param& param) { return param.direction != proto::Direction::in; });
    made->first_at_return = static_cast<size_t>(first_out - made->params.begin());
    return made;
  }

  // As what was copied of that call; nullopt where the thread would be stopped for more.
  std::optional<mech::CapturedMemory> copied(const agent::CapturePlan& plan,
                                             const std::vector<agent::ShapeEntry>& shapes,
                                             const arch::Regs& regs, const uint64_t* result) {
    mech::ShapeTable table;
    for (unsigned unrelated = 0; unrelated < 2; ++unrelated) {
      std::vector<agent::ShapeEntry> others(1 + unrelated, agent::ShapeEntry{.shape = {}});
      table.add(*table.find(others), others);
    }
    const auto place = table.find(shapes);
    std::ranges::copy(place->entries, shapes_.begin() + static_cast<ptrdiff_t>(place->first));
    recorder_.control.shapes = reinterpret_cast<uint64_t>(shapes_.data());
    pieces_.assign(agent::kMostFarPieces, {});
    agent::Pieces pieces{pieces_.data(), agent::kMostFarPieces};
    const agent::Reader reader{recorder_.control, regs.sp().value};
    const uint64_t arguments[] = {regs.raw.rdi, regs.raw.rsi, regs.raw.rdx,
                                  regs.raw.rcx, regs.raw.r8,  regs.raw.r9};
    if (plan.stack_bytes > 0) add_stack(pieces, reader, plan.stack_bytes);
    add_captures(pieces, reader, mech::moved(plan, place->first), arguments, result);
    if (pieces.cut) return std::nullopt;
    mech::CapturedMemory memory;
    for (unsigned i = 0; i < pieces.count; ++i)
      memory.hold({pieces.list[i].label},
                  {reinterpret_cast<const std::byte*>(pieces.list[i].source), pieces.list[i].length});
    return memory;
  }

  static std::string described(const proto::Prototype& prototype) {
    std::string text = proto::spell(*prototype.returns) + " f(";
    for (const proto::Param& param : prototype.params)
      text += (param.direction == proto::Direction::out ? "out " : "") + proto::spell(*param.type) + ", ";
    return text + ")";
  }
  static std::string text_of(const std::vector<decode::Argument>& arguments) {
    std::string text;
    for (const decode::Argument& argument : arguments) text += to_text(argument.value) + "; ";
    return text;
  }

  Arena arena_;
  agent::RecorderMemory recorder_{agent::Mode::record};
  std::vector<agent::ShapeEntry> shapes_ =
      std::vector(agent::kMostShapeEntries, agent::ShapeEntry{.shape = {}});
  std::vector<agent::Piece> pieces_;
  TypeRef node_;
  std::mt19937 random_{20};
};

TEST_F(FollowedPointers, AreAllThatIsShown) {
  unsigned followed = 0, cut = 0;
  for (unsigned round = 0; round < 20000; ++round) {
    for (uint64_t offset = 0; offset < kPages * kPage; offset += 8)
      if (round % 16 == 0) arena_.put(offset, word());
    const auto made = prototype();
    const decode::CallDecoder decoder(made, limits());
    const auto recorded = decoder.recorded();
    if (recorded.at_entry.deep == agent::CapturePlan::kOpen ||
        recorded.at_return.deep == agent::CapturePlan::kOpen)
      continue;
    arch::Regs entry, exit;
    entry.raw.rdi = word(), entry.raw.rsi = word(), entry.raw.rdx = word();
    entry.raw.rcx = word(), entry.raw.r8 = word(), entry.raw.r9 = word();
    entry.raw.rsp = arena_.begin() + kStackAt;
    exit.raw.rax = word();
    const arch::VectorRegs vectors{};
    SCOPED_TRACE(described(*made));
    const auto before = copied(recorded.at_entry, recorded.shapes, entry, nullptr);
    const uint64_t result = exit.raw.rax;
    const auto after = copied(recorded.at_return, recorded.shapes, entry, &result);
    cut += !before || !after;
    followed += !recorded.shapes.empty() && before && after;
    if (!before || !after) continue;
    const auto entered = decoder.enter(entry, *before, &vectors),
               all = decoder.enter(entry, arena_, &vectors);
    ASSERT_EQ(text_of(entered.arguments), text_of(all.arguments));
    std::vector<std::byte> stack(recorded.at_entry.stack_bytes);
    (void)arena_.read({entry.raw.rsp + 8}, stack);
    decode::Carried carried;
    carried.vectors_at_entry = carried.vectors_at_exit = &vectors;
    carried.before = &entered.before;
    const auto copy = decoder.leave(entry, exit, *after, stack, carried);
    carried.before = &all.before;
    const auto whole = decoder.leave(entry, exit, arena_, stack, carried);
    ASSERT_EQ(to_text(copy.result), to_text(whole.result));
    ASSERT_EQ(text_of(copy.arguments), text_of(whole.arguments));
  }
  EXPECT_GT(followed, 4000U);
  EXPECT_GT(cut, 20U);
}

}  // namespace
}  // namespace rtrace::followed_pointers_test
