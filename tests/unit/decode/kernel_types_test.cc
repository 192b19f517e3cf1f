// What the interfaces of the kernel have: addresses of sockets, statuses of children, arguments whose type
// another one tells, buffers that share one count; and what scanf stores.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "rtrace/decode/call_decoder.h"
#include "rtrace/proto/parser.h"

namespace rtrace::decode::kernel_types_test {
namespace {

constexpr uint64_t kStack = 0x7ffc00000ff8;
constexpr uint64_t kData = 0x20000;  // of the row
constexpr uint64_t kText = 0x30000;  // "abcdefgh"
constexpr uint64_t kFormat = 0x40000;
constexpr uint64_t kNumbers = 0x50000;  // int32 1 2 3 4
constexpr uint64_t kWild = 0xdead0000;
constexpr uint64_t kMinusOne = ~uint64_t{0};

struct Call {
  std::string prototype;
  std::string data;
  std::vector<uint64_t> integers;
  uint64_t result = 0;
  std::optional<int> error = {};
};

std::string rendered(const Call& call) {
  proto::Diagnostics diagnostics;
  auto file = proto::parse_conf(call.prototype, "t", {}, diagnostics);
  EXPECT_THAT(diagnostics, testing::IsEmpty());
  BufferMemory memory;
  memory.add_value({kStack}, std::array<uint64_t, 3>{0x401000, kText, kNumbers + 4});
  memory.add({kData}, call.data);
  memory.add({kFormat}, call.data + '\0');
  memory.add({kText}, std::string_view("abcdefgh\0", 9));
  memory.add_value({kNumbers}, std::array<int32_t, 4>{1, 2, 3, 4});
  arch::Regs entry, exit;
  entry.raw.rsp = kStack;
  unsigned long long* slots[] = {&entry.raw.rdi, &entry.raw.rsi, &entry.raw.rdx,
                                 &entry.raw.rcx, &entry.raw.r8,  &entry.raw.r9};
  for (size_t i = 0; i < call.integers.size(); ++i) *slots[i] = call.integers[i];
  exit.raw.rax = call.result;
  CallDecoder decoder(file.functions.begin()->second, {});
  auto entered = decoder.enter(entry, memory);
  std::vector<std::byte> stack(decoder.at_entry().stack_bytes);
  stack.resize(memory.read({kStack + 8}, stack));
  Carried carried;
  carried.before = &entered.before;
  carried.error_number = call.error;
  auto returned = decoder.leave(entry, exit, memory, stack, carried);
  std::string text;
  for (const auto* arguments : {&entered.arguments, &returned.arguments})
    for (const Argument& argument : *arguments)
      if (argument.value.kind != Value::Kind::hidden)
        text += (text.empty() ? "" : ", ") + to_text(argument.value, {.struct_names = true});
  return text;
}

template <typename Address>
std::string bytes_of(const Address& address) {
  return {reinterpret_cast<const char*>(&address), sizeof address};
}

std::string address(const std::string& data, uint64_t length) {
  return rendered({"int f(sockaddr[arg2], hide(int))", data, {kData, length}});
}

TEST(SocketAddress, OfTheInternetHasPortAndHost) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(80);
  v4.sin_addr.s_addr = htonl(0x7f000001);
  EXPECT_EQ(address(bytes_of(v4), 16), "{ sa_family=AF_INET, sin_port=80, sin_addr=\"127.0.0.1\" }");
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(443);
  v6.sin6_addr = in6addr_loopback;
  v6.sin6_scope_id = 3;
  EXPECT_EQ(address(bytes_of(v6), 28),
            "{ sa_family=AF_INET6, sin6_port=443, sin6_flowinfo=0, sin6_addr=\"::1\", sin6_scope_id=3 }");
}

TEST(SocketAddress, OfAUnixSocketIsAPathANameOrNothing) {
  EXPECT_EQ(address(std::string("\1\0/run/x\0junk", 13), 13), "{ sa_family=AF_UNIX, sun_path=\"/run/x\" }");
  EXPECT_EQ(address(std::string("\1\0/run/x", 8), 8), "{ sa_family=AF_UNIX, sun_path=\"/run/x\" }");
  EXPECT_EQ(address(std::string("\1\0\0a\0b", 6), 6), "{ sa_family=AF_UNIX, sun_path=\"\\0a\\0b\" }");
  EXPECT_EQ(address(std::string("\1\0", 2), 2), "{ sa_family=AF_UNIX }");
}

TEST(SocketAddress, OfOtherFamilies) {
  EXPECT_EQ(address(std::string("\x10\0\0\0\7\0\0\0\1\0\0\0", 12), 12),
            "{ sa_family=AF_NETLINK, nl_pid=7, nl_groups=1 }");
  EXPECT_EQ(address(std::string("\0\0ab", 4), 4), "{ sa_family=AF_UNSPEC, sa_data=\"ab\" }");
  EXPECT_EQ(address(std::string("\x63\0", 2), 2), "{ sa_family=99 }");
}

TEST(SocketAddress, IsBoundedByItsLengthAndByWhatCanBeRead) {
  EXPECT_EQ(address(std::string("\2\0\0\x50\x7f\0\0\1", 8), 6),
            "{ sa_family=AF_INET, sin_port=80, sin_addr=? }");
  EXPECT_EQ(address("\2", 1), "{ }");
  EXPECT_EQ(address(std::string(64, 'a'), kMinusOne), "0x20000");
  EXPECT_EQ(rendered({"int f(sockaddr[16], sockaddr[16])", "", {0, kWild}}), "nil, 0xdead0000");
}

TEST(SocketAddress, ThatACallFillsHasTheLengthThatItWrote) {
  const std::string data("\1\0/x\0\0\0\0\4\0\0\0", 12);  // the length behind it
  EXPECT_EQ(rendered({"int f(out sockaddr[arg2], inout int*)", data, {kData, kData + 8}}),
            "{ sa_family=AF_UNIX, sun_path=\"/x\" }, 4");
}

TEST(WaitStatus, IsToldInTheWordsOfItsMacros) {
  const auto status = [](int bits) { return rendered({"int f(wstatus*)", bytes_of(bits), {kData}}); };
  EXPECT_EQ(status(3 << 8), "WIFEXITED(s) && WEXITSTATUS(s) == 3");
  EXPECT_EQ(status(9), "WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL");
  EXPECT_EQ(status(11 | 0x80), "WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV && WCOREDUMP(s)");
  EXPECT_EQ(status(19 << 8 | 0x7f), "WIFSTOPPED(s) && WSTOPSIG(s) == SIGSTOP");
  EXPECT_EQ(status(0xffff), "WIFCONTINUED(s)");
}

TEST(Choice, GoesByAnotherArgument) {
  const std::string prototype = "int f(int, case[arg1](1=string, 2=int*, -3=hide(long), hex(long)))";
  EXPECT_EQ(rendered({prototype, "", {1, kText}}), "1, \"abcdefgh\"");
  EXPECT_EQ(rendered({prototype, "", {2, kNumbers}}), "2, 1");
  EXPECT_EQ(rendered({prototype, "", {kMinusOne - 2, kText}}), "-3");
  EXPECT_EQ(rendered({prototype, "", {4, 255}}), "4, 0xff");
}

TEST(Choice, GoesByTheBitsOfAMask) {
  const std::string prototype = "int f(int, case[arg1](0x40/0x40=int, 2/3=string, hide(long)))";
  EXPECT_EQ(rendered({prototype, "", {0x41, 5}}), "65, 5");
  EXPECT_EQ(rendered({prototype, "", {0x82, kText}}), "130, \"abcdefgh\"");
  EXPECT_EQ(rendered({prototype, "", {3, 5}}), "3");
}

TEST(Choice, GoesByAMemberOfItsStruct) {
  const std::string prototype =
      "int f(struct(kind=int, value=@8 case[elt1](1=string, 2=struct(a=int, b=int), long))*)";
  EXPECT_EQ(rendered({prototype, bytes_of(std::array<uint64_t, 2>{1, kText}), {kData}}),
            "{ kind=1, value=\"abcdefgh\" }");
  EXPECT_EQ(rendered({prototype, bytes_of(std::array<uint64_t, 2>{2, uint64_t{7} << 32 | 6}), {kData}}),
            "{ kind=2, value={ a=6, b=7 } }");
  EXPECT_EQ(rendered({prototype, bytes_of(std::array<uint64_t, 2>{3, 4}), {kData}}), "{ kind=3, value=4 }");
}

TEST(Choice, ByTheResultWaitsForIt) {
  const std::string prototype = "int f(case[retval](-1=int*, addr))";
  EXPECT_EQ(rendered({prototype, "", {kNumbers}, kMinusOne}), "1");
  EXPECT_EQ(rendered({prototype, "", {kNumbers}, 0}), "0x50000");
}

TEST(Filled, BuffersShareTheResultInTheirOrder) {
  const auto vectors = bytes_of(std::array<uint64_t, 6>{kText, 3, kText + 3, 3, kText + 6, 3});
  const std::string prototype = "long f(array(struct(base=buffer[filled(elt2)], len=ulong), 3)*)";
  EXPECT_EQ(rendered({prototype, vectors, {kData}, 5}),
            "[ { base=\"abc\", len=3 }, { base=\"de\", len=3 }, { base=\"\", len=3 } ]");
  EXPECT_EQ(rendered({prototype, vectors, {kData}, kMinusOne}),
            "[ { base=\"\", len=3 }, { base=\"\", len=3 }, { base=\"\", len=3 } ]");
}

TEST(AFailedCall, ShowsWhereItWouldHaveStored) {
  const std::string prototype = "errno(int) f(out int*, out string, inout int*, out buffer[4])";
  const Call failed{prototype, "", {kNumbers, kText, kNumbers, 0}, kMinusOne, ENOENT};
  EXPECT_EQ(rendered(failed), "0x50000, 0x30000, 1, nil");
  Call succeeded = failed;
  succeeded.result = 0;
  EXPECT_EQ(rendered(succeeded), "1, \"abcdefgh\", 1, nil");
  EXPECT_EQ(
      rendered({"errno(int) f(out case[arg2](1=int*, addr), int)", "", {kNumbers, 1}, kMinusOne, ENOTTY}),
      "0x50000, 1");
  EXPECT_EQ(rendered({"errno(int) f(out case[retval](-1=int*, addr))", "", {kNumbers}, kMinusOne, EINTR}),
            "1");
  Call no_failure = failed;  // a -1 that is a value
  no_failure.error = 0;
  EXPECT_EQ(rendered(no_failure), "1, \"abcdefgh\", 1, nil");
}

struct Scan {
  std::string format;
  std::vector<uint64_t> pointers;
  uint64_t stored;
  std::string text;
};
void PrintTo(const Scan& scan, std::ostream* out) {
  *out << scan.format;
}

class Scanned : public testing::TestWithParam<Scan> {};
TEST_P(Scanned, ArgumentsAreWhatWasStored) {
  std::vector<uint64_t> integers = {kFormat};
  integers.insert(integers.end(), GetParam().pointers.begin(), GetParam().pointers.end());
  const std::string all = rendered({"int f(scanf)", GetParam().format, integers, GetParam().stored});
  Value format;
  format.kind = Value::Kind::string;
  format.bytes = GetParam().format;
  EXPECT_EQ(all.substr(to_text(format).size()), GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, Scanned,
    testing::Values(Scan{"%d %s", {kNumbers, kText}, 2, ", 1, \"abcdefgh\""},
                    Scan{"%d %s", {kNumbers, kText}, 1, ", 1, 0x30000"},
                    Scan{"%d", {kNumbers}, kMinusOne, ", 0x50000"}, Scan{"none", {}, 0, ""},
                    Scan{"%*d %5[^]x]%%%n", {kText, kNumbers + 4}, 1, ", \"abcdefgh\", 2"},
                    Scan{"%d%n", {kNumbers, kNumbers + 4}, 0, ", 0x50000, 0x50004"},
                    Scan{"%3c%c", {kText, kText + 1}, 2, ", \"abc\", 'b'"},
                    Scan{"%hhd %hx %lo %lld",
                         {kText, kText, kText, kText},
                         4,
                         ", 97, 0x6261, 0641473146254430661141, 7523094288207667809"},
                    Scan{"%ms %p", {kData + 0x100, kText}, 0, ", 0x20100, 0x30000"},
                    Scan{"%2$d %1$s", {kText, kNumbers}, 2, ", \"abcdefgh\", 1"},
                    // The last two are on the stack.
                    Scan{"%d %d %d %d %d %s %d",
                         {kNumbers, kNumbers, kNumbers, kNumbers, kNumbers},
                         7,
                         ", 1, 1, 1, 1, 1, \"abcdefgh\", 2"}));

}  // namespace
}  // namespace rtrace::decode::kernel_types_test
