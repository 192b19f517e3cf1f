#include "rtrace/arch/relocate.h"

#include <fmt/format.h>

#include <optional>

#include "copy.h"
#include "encoding.h"
#include "rtrace/arch/jump.h"

namespace rtrace::arch {
namespace {

constexpr size_t kPush = 5, kStoreUpperHalf = 8;

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
  Copy copy(to, {from, from});
  if (Reason reason = copy.add(bytes, from, *insn, encoding))
    return Refused{fmt::format("{}: {}", *reason, disassemble(bytes, from))};
  return copy.take();
}

size_t out_of_line_bound(std::span<const std::byte> bytes) {
  std::optional<Insn> insn = decode(bytes, {});
  return insn ? bound_of(*insn) : 0;
}

}  // namespace rtrace::arch
