// How each kind of instruction is moved (from -> to, N = from + length):
//
//   any other            insn, operands refitted;  jmp N
//   jmp rel              jmp target
//   jcc, xbegin rel      jcc target;  jmp N                    where rel32 reaches,
//                        jcc 1f;  jmp N;  1: jmp target        else, and for loop and jrcxz, which have rel8
//                        only
//   call rel             push N;  jmp target
//   call r/m             push N;  jmp r/m, with 8 more where r/m is based on rsp
//   ret, jmp r/m         insn: nothing follows
//
// `push imm32` sign-extends (SDM volume 2, PUSH), so where N does not survive that its upper half is stored
// with a mov, which like push leaves the flags alone. A `jmp` is rel32, or `jmp *0(%rip)` with its literal
// directly behind.
//
// What a copy cannot hide: a `call` through a word below rsp that is reached by another base register reads
// it after the push, `syscall` leaves the address behind it in rcx, x87 and xsave images hold the address of
// the last x87 instruction, and a call made of push and jmp leaves no entry on a shadow stack
// (x86_Thread_features in /proc/PID/status).
#include "rtrace/arch/relocate.h"

#include <fmt/format.h>

#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>

#include "encoding.h"

namespace rtrace::arch {
namespace {

constexpr size_t kFarJump = 14;  // ff 25 00 00 00 00 and the literal
constexpr size_t kPush = 5, kStoreUpperHalf = 8;

using Reason = std::optional<std::string_view>;

// The distance as a rel32, where it is one.
std::optional<int32_t> rel32(VirtAddr target, VirtAddr next) {
  auto distance = static_cast<int64_t>(target - next);
  auto narrow = static_cast<int32_t>(distance);
  return narrow == distance ? std::optional(narrow) : std::nullopt;
}

class Copy {
 public:
  Copy(std::span<const std::byte> bytes, VirtAddr from, VirtAddr to, const Insn& insn,
       const Encoding& encoding)
      : bytes_(bytes), from_(from), next_(from + insn.length), to_(to), insn_(insn), encoding_(encoding) {}

  // A reason where it cannot be done; the copy is then of no use.
  Reason build();
  OutOfLine take() { return std::move(out_); }

 private:
  Reason refitted();
  Reason branch();
  void loop();
  void call();
  Reason call_indirect();
  Reason append_call_operand();
  void branch_over(std::span<const std::byte> short_branch);
  void push_return_address();
  void jump(VirtAddr target);

  VirtAddr here() const { return to_ + out_.code.size(); }
  // An instruction begins here; a thread that stands at it stands at `address` in the program.
  void boundary(VirtAddr address, int8_t sp_adjust = 0) {
    out_.points.push_back({static_cast<uint8_t>(out_.code.size()), address, sp_adjust});
  }
  void append(std::span<const std::byte> bytes) {
    out_.code.insert(out_.code.end(), bytes.begin(), bytes.end());
  }
  void append(std::initializer_list<uint8_t> bytes) {
    for (uint8_t byte : bytes) out_.code.push_back(std::byte{byte});
  }
  template <typename T>
  void append_value(T value) {
    append(std::as_bytes(std::span(&value, 1)));
  }

  std::span<const std::byte> bytes_;
  VirtAddr from_, next_, to_;
  const Insn& insn_;
  const Encoding& encoding_;
  OutOfLine out_;
};

Reason Copy::build() {
  boundary(from_);
  switch (insn_.kind) {
    case Insn::Kind::jump:
      jump(*insn_.target);
      return {};
    case Insn::Kind::branch:
      return branch();
    case Insn::Kind::loop:
      loop();
      return {};
    case Insn::Kind::call:
      call();
      return {};
    case Insn::Kind::call_indirect:
      return call_indirect();
    case Insn::Kind::jump_indirect:
    case Insn::Kind::ret:
      return refitted();
    case Insn::Kind::undefined:
      // iret and the far transfers push or take a code segment as well; user code of our time has none.
      if (encoding_.is(0, 0xff)) return "a far jump";
      return refitted();
    case Insn::Kind::other:
      if (encoding_.is(0, 0xff) && encoding_.reg() == 3) return "a far call";
      [[fallthrough]];
    case Insn::Kind::nop:
    case Insn::Kind::int3:
    case Insn::Kind::syscall:
      break;
  }
  if (Reason reason = refitted()) return reason;
  boundary(next_);
  jump(next_);
  return {};
}

// The instruction as it is, with its displacement to the same address as before.
Reason Copy::refitted() {
  append(bytes_);
  if (!insn_.rip_reference) return {};
  if (encoding_.address32) return "an operand relative to eip";
  std::optional<int32_t> displacement = rel32(*insn_.rip_reference, here());
  if (!displacement) return "its operand is out of reach from the copy";
  std::memcpy(out_.code.data() + insn_.rip_displacement_offset, &*displacement, sizeof *displacement);
  return {};
}

Reason Copy::branch() {
  bool xbegin = encoding_.is(0, 0xc7);
  // Prefixes on a jcc are hints at most, and bnd, which means nothing without MPX (gone from Linux 5.6).
  auto condition = static_cast<uint8_t>(encoding_.code & 0x0f);
  if (auto displacement = rel32(*insn_.target, here() + 6)) {
    if (xbegin) append({0xc7, 0xf8});
    if (!xbegin) append({0x0f, static_cast<uint8_t>(0x80 | condition)});
    append_value(*displacement);
    boundary(next_);
    jump(next_);
    return {};
  }
  if (xbegin) return "its target is out of reach from the copy";
  const std::byte short_branch[] = {std::byte{0x70} | std::byte{condition}};
  branch_over(short_branch);
  return {};
}

void Copy::loop() {
  // 67 makes the counter ecx; other prefixes mean nothing here.
  const std::byte short_branch[] = {std::byte{0x67}, std::byte{encoding_.code}};
  branch_over(std::span(short_branch).subspan(encoding_.address32 ? 0 : 1));
}

// The rel8 skips the jump to the next instruction.
void Copy::branch_over(std::span<const std::byte> short_branch) {
  append(short_branch);
  size_t displacement_at = out_.code.size();
  append({0});
  boundary(next_);
  jump(next_);
  out_.code[displacement_at] = static_cast<std::byte>(out_.code.size() - displacement_at - 1);
  boundary(*insn_.target);
  jump(*insn_.target);
}

void Copy::call() {
  push_return_address();
  boundary(from_, 8);
  jump(*insn_.target);
}

// Until the jump nothing but rsp has changed, and what lies below it was to be overwritten by the call in any
// case: a thread that is caught in between goes back to the call itself.
void Copy::push_return_address() {
  auto low = static_cast<int32_t>(static_cast<uint32_t>(next_.value));
  append({0x68});
  append_value(low);
  if (static_cast<uint64_t>(int64_t{low}) == next_.value) return;
  boundary(from_, 8);
  append({0xc7, 0x44, 0x24, 0x04});  // mov dword [rsp + 4], imm32
  append_value(static_cast<uint32_t>(next_.value >> 32));
}

Reason Copy::call_indirect() {
  bool through_register = encoding_.mod() == 3;
  if (through_register && encoding_.rm() == 4 && !encoding_.rex_b()) return "it calls what rsp holds";
  push_return_address();
  boundary(from_, 8);
  append(bytes_.first(encoding_.opcode_at + 1));  // ff, and before it a segment, notrack, REX
  return append_call_operand();
}

// The ModRM of `call r/m` (/2) made one of `jmp r/m` (/4), with the operand's address as it was before the
// push.
Reason Copy::append_call_operand() {
  size_t modrm_at = *encoding_.modrm_at;
  auto modrm = static_cast<uint8_t>((encoding_.modrm & 0xc7) | 4 << 3);
  if (insn_.rip_reference) {
    if (encoding_.address32) return "an operand relative to eip";
    std::optional<int32_t> displacement = rel32(*insn_.rip_reference, here() + 5);
    if (!displacement) return "its operand is out of reach from the copy";
    append({modrm});
    append_value(*displacement);
    return {};
  }
  bool has_sib = encoding_.mod() != 3 && encoding_.rm() == 4;
  uint8_t sib = has_sib ? std::to_integer<uint8_t>(bytes_[modrm_at + 1]) : 0;
  bool based_on_rsp = has_sib && (sib & 7) == 4 && !encoding_.rex_b();
  if (!based_on_rsp) {
    append({modrm});
    append(bytes_.subspan(modrm_at + 1));
    return {};
  }
  if (encoding_.address32) return "an operand relative to esp";
  int32_t displacement = 0;
  if (encoding_.mod() == 1) displacement = std::to_integer<int8_t>(bytes_[modrm_at + 2]);
  if (encoding_.mod() == 2) std::memcpy(&displacement, bytes_.data() + modrm_at + 2, sizeof displacement);
  if (displacement > std::numeric_limits<int32_t>::max() - 8) return "its displacement cannot grow by 8";
  bool indexed = ((sib >> 3) & 7) != 4 || (encoding_.rex & 2) != 0;
  if (!indexed && displacement > -16 && displacement < 0)
    return "it calls through the word that it overwrites";
  append({static_cast<uint8_t>((modrm & 0x3f) | 2 << 6), sib});
  append_value(displacement + 8);
  return {};
}

void Copy::jump(VirtAddr target) {
  if (auto displacement = rel32(target, here() + 5)) {
    append({0xe9});
    append_value(*displacement);
    return;
  }
  append({0xff, 0x25, 0, 0, 0, 0});
  append_value(target.value);
}

size_t bound_of(const Insn& insn) {
  switch (insn.kind) {
    case Insn::Kind::jump:
      return kFarJump;
    case Insn::Kind::branch:
      return 2 + 2 * kFarJump;
    case Insn::Kind::loop:
      return 3 + 2 * kFarJump;
    case Insn::Kind::call:
      return kPush + kStoreUpperHalf + kFarJump;
    case Insn::Kind::call_indirect:
      return kPush + kStoreUpperHalf + insn.length + sizeof(int32_t);
    case Insn::Kind::jump_indirect:
    case Insn::Kind::ret:
    case Insn::Kind::undefined:
      return insn.length;
    case Insn::Kind::other:
    case Insn::Kind::nop:
    case Insn::Kind::int3:
    case Insn::Kind::syscall:
      break;
  }
  return insn.length + kFarJump;
}

static_assert(kPush + kStoreUpperHalf + kMaxInsn + sizeof(int32_t) <= kMaxOutOfLine &&
              3 + 2 * kFarJump <= kMaxOutOfLine);

}  // namespace

std::variant<OutOfLine, Refused> relocate(std::span<const std::byte> bytes, VirtAddr from, VirtAddr to) {
  std::optional<Insn> insn = decode(bytes, from);
  if (!insn) return Refused{fmt::format("no instruction that can be moved: {}", disassemble(bytes, from))};
  bytes = bytes.first(insn->length);
  Encoding encoding = *parse_encoding(bytes);
  Copy copy(bytes, from, to, *insn, encoding);
  if (Reason reason = copy.build()) return Refused{fmt::format("{}: {}", *reason, disassemble(bytes, from))};
  return copy.take();
}

size_t out_of_line_bound(std::span<const std::byte> bytes) {
  std::optional<Insn> insn = decode(bytes, {});
  return insn ? bound_of(*insn) : 0;
}

}  // namespace rtrace::arch
