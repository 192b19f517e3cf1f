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
// Where N has been moved too its copy follows directly, and the jump to it is left out.
//
// `push imm32` sign-extends (SDM volume 2, PUSH), so where N does not survive that its upper half is stored
// with a mov, which like push leaves the flags alone. A `jmp` is rel32, or `jmp *0(%rip)` with its literal
// directly behind.
//
// What a copy cannot hide: a `call` through a word below rsp that is reached by another base register reads
// it after the push, `syscall` leaves the address behind it in rcx, x87 and xsave images hold the address of
// the last x87 instruction, and a call made of push and jmp leaves no entry on a shadow stack
// (x86_Thread_features in /proc/PID/status).
#include "copy.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "rtrace/arch/jump.h"
#include "rtrace/base/error.h"

namespace rtrace::arch {

Reason Copy::add(std::span<const std::byte> bytes, VirtAddr from, const Insn& insn,
                 const Encoding& encoding) {
  Original original{bytes, from, from + insn.length, insn, encoding};
  entries_.push_back({from, out_.code.size()});
  boundary(from);
  switch (insn.kind) {
    case Insn::Kind::jump:
      jump(*insn.target);
      return {};
    case Insn::Kind::branch:
      return append_branch(original);
    case Insn::Kind::loop:
      append_loop(original);
      return {};
    case Insn::Kind::call:
      append_call(original);
      return {};
    case Insn::Kind::call_indirect:
      return append_call_indirect(original);
    case Insn::Kind::jump_indirect:
    case Insn::Kind::ret:
      return append_refitted(original);
    case Insn::Kind::undefined:
      // iret and the far transfers push or take a code segment as well; user code of our time has none.
      if (encoding.is(0, 0xff)) return "a far jump";
      return append_refitted(original);
    case Insn::Kind::other:
      if (encoding.is(0, 0xff) && encoding.reg() == 3) return "a far call";
      [[fallthrough]];
    case Insn::Kind::nop:
    case Insn::Kind::int3:
    case Insn::Kind::syscall:
      break;
  }
  if (Reason reason = append_refitted(original)) return reason;
  leave_for(original.next);
  return {};
}

OutOfLine Copy::take() {
  for (const Fixup& fixup : fixups_) {
    auto entry = std::find_if(entries_.begin(), entries_.end(),
                              [&](const Entry& each) { return each.from == fixup.target; });
    CHECK(entry != entries_.end() || fixup.target == moved_.begin, "a branch to {}, which was not moved",
          fixup.target);
    size_t offset = entry != entries_.end() ? entry->offset : 0;
    auto displacement =
        static_cast<int32_t>(static_cast<int64_t>(offset) - static_cast<int64_t>(fixup.displacement_at) - 4);
    std::memcpy(out_.code.data() + fixup.displacement_at, &displacement, sizeof displacement);
  }
  return std::move(out_);
}

// The instruction as it is, with its displacement to the same address as before.
Reason Copy::append_refitted(const Original& original) {
  size_t at = out_.code.size();
  append(original.bytes);
  if (!original.insn.rip_reference) return {};
  if (original.encoding.address32) return "an operand relative to eip";
  std::optional<int32_t> displacement = rel32(*original.insn.rip_reference, here());
  if (!displacement) return "its operand is out of reach from the copy";
  std::memcpy(out_.code.data() + at + original.insn.rip_displacement_offset, &*displacement,
              sizeof *displacement);
  return {};
}

Reason Copy::append_branch(const Original& original) {
  bool xbegin = original.encoding.is(0, 0xc7);
  // Prefixes on a jcc are hints at most, and bnd, which means nothing without MPX (gone from Linux 5.6).
  auto condition = static_cast<uint8_t>(original.encoding.code & 0x0f);
  VirtAddr target = *original.insn.target;
  if (moved_.contains(target) || rel32(target, here() + 6)) {
    if (xbegin) append({0xc7, 0xf8});
    if (!xbegin) append({0x0f, static_cast<uint8_t>(0x80 | condition)});
    append_displacement(target);
    leave_for(original.next);
    return {};
  }
  if (xbegin) return "its target is out of reach from the copy";
  const std::byte short_branch[] = {std::byte{0x70} | std::byte{condition}};
  branch_over(short_branch, original);
  return {};
}

void Copy::append_loop(const Original& original) {
  // 67 makes the counter ecx; other prefixes mean nothing here.
  const std::byte short_branch[] = {std::byte{0x67}, std::byte{original.encoding.code}};
  branch_over(std::span(short_branch).subspan(original.encoding.address32 ? 0 : 1), original);
}

// The rel8 skips the jump to the next instruction.
void Copy::branch_over(std::span<const std::byte> short_branch, const Original& original) {
  append(short_branch);
  size_t displacement_at = out_.code.size();
  append({0});
  boundary(original.next);
  jump(original.next);
  out_.code[displacement_at] = static_cast<std::byte>(out_.code.size() - displacement_at - 1);
  boundary(*original.insn.target);
  jump(*original.insn.target);
}

// The callee is not part of what is moved, even where a call leads into that: it has to be entered as any
// other caller enters it.
void Copy::append_call(const Original& original) {
  push_return_address(original);
  boundary(original.from, 8);
  VirtAddr target = *original.insn.target;
  if (auto code = encode_jmp(here(), target)) return append(*code);
  append(encode_far_jmp(target));
}

// Until the jump nothing but rsp has changed, and what lies below it was to be overwritten by the call in any
// case: a thread that is caught in between goes back to the call itself.
void Copy::push_return_address(const Original& original) {
  auto low = static_cast<int32_t>(static_cast<uint32_t>(original.next.value));
  append({0x68});
  append_value(low);
  if (static_cast<uint64_t>(int64_t{low}) == original.next.value) return;
  boundary(original.from, 8);
  append({0xc7, 0x44, 0x24, 0x04});  // mov dword [rsp + 4], imm32
  append_value(static_cast<uint32_t>(original.next.value >> 32));
}

Reason Copy::append_call_indirect(const Original& original) {
  const Encoding& encoding = original.encoding;
  bool through_register = encoding.mod() == 3;
  if (through_register && encoding.rm() == 4 && !encoding.rex_b()) return "it calls what rsp holds";
  push_return_address(original);
  boundary(original.from, 8);
  append(original.bytes.first(encoding.opcode_at + 1));  // ff, and before it a segment, notrack, REX
  return append_call_operand(original);
}

// The ModRM of `call r/m` (/2) made one of `jmp r/m` (/4), with the operand's address as it was before the
// push.
Reason Copy::append_call_operand(const Original& original) {
  const Encoding& encoding = original.encoding;
  size_t modrm_at = *encoding.modrm_at;
  auto modrm = static_cast<uint8_t>((encoding.modrm & 0xc7) | 4 << 3);
  if (original.insn.rip_reference) {
    if (encoding.address32) return "an operand relative to eip";
    std::optional<int32_t> displacement = rel32(*original.insn.rip_reference, here() + 5);
    if (!displacement) return "its operand is out of reach from the copy";
    append({modrm});
    append_value(*displacement);
    return {};
  }
  bool has_sib = encoding.mod() != 3 && encoding.rm() == 4;
  uint8_t sib = has_sib ? std::to_integer<uint8_t>(original.bytes[modrm_at + 1]) : 0;
  bool based_on_rsp = has_sib && (sib & 7) == 4 && !encoding.rex_b();
  if (!based_on_rsp) {
    append({modrm});
    append(original.bytes.subspan(modrm_at + 1));
    return {};
  }
  if (encoding.address32) return "an operand relative to esp";
  int32_t displacement = 0;
  if (encoding.mod() == 1) displacement = std::to_integer<int8_t>(original.bytes[modrm_at + 2]);
  if (encoding.mod() == 2)
    std::memcpy(&displacement, original.bytes.data() + modrm_at + 2, sizeof displacement);
  if (displacement > std::numeric_limits<int32_t>::max() - 8) return "its displacement cannot grow by 8";
  bool indexed = ((sib >> 3) & 7) != 4 || (encoding.rex & 2) != 0;
  if (!indexed && displacement > -16 && displacement < 0)
    return "it calls through the word that it overwrites";
  append({static_cast<uint8_t>((modrm & 0x3f) | 2 << 6), sib});
  append_value(displacement + 8);
  return {};
}

// Behind an instruction that falls through.
void Copy::leave_for(VirtAddr next) {
  if (moved_.contains(next)) return;
  boundary(next);
  jump(next);
}

void Copy::jump(VirtAddr target) {
  if (!moved_.contains(target) && !rel32(target, here() + kNearJump)) return append(encode_far_jmp(target));
  append({0xe9});
  append_displacement(target);
}

// The rel32 that ends a jump or branch; what stays in the copy is filled in when all is there.
void Copy::append_displacement(VirtAddr target) {
  if (moved_.contains(target)) {
    fixups_.push_back({out_.code.size(), target});
    return append_value(int32_t{0});
  }
  append_value(*rel32(target, here() + 4));
}

}  // namespace rtrace::arch
