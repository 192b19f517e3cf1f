#include "called_function.h"

#include "image.h"
#include "rtrace/arch/insn.h"
#include "rtrace/arch/register_jumps.h"

namespace rtrace::session {
namespace {

using arch::Insn;

std::optional<Insn> insn_at(const elf::LoadedObject& object, VirtAddr address, size_t most) {
  return arch::decode(object.file->bytes_at(object.in_file(address), most), address);
}

std::optional<VirtAddr> target_of_call(const elf::LoadedObject& object, VirtAddr return_address,
                                       uint64_t length, const arch::Regs& regs) {
  const VirtAddr at = return_address - length;
  const auto insn = insn_at(object, at, length);
  if (!insn || insn->length != length) return std::nullopt;
  if (insn->kind == Insn::Kind::call) return insn->target;
  if (insn->kind != Insn::Kind::call_indirect) return std::nullopt;
  const auto number = arch::branch_register(object.file->bytes_at(object.in_file(at), length));
  if (!number || !arch::is_preserved(*number)) return std::nullopt;
  return VirtAddr{arch::register_of(regs, *number)};
}

}  // namespace

std::optional<VirtAddr> called_function(const Image& image, VirtAddr return_address, const arch::Regs& regs) {
  const elf::LoadedObject* object = image.code_at(return_address);
  if (object == nullptr) return std::nullopt;
  // The longest form first: a shorter one may be its end.
  for (uint64_t length : {uint64_t{5}, uint64_t{3}, uint64_t{2}}) {
    const auto target = target_of_call(*object, return_address, length, regs);
    const elf::LoadedObject* where = target ? image.code_at(*target) : nullptr;
    if (where != nullptr && where->maps_executable(*target)) return target;
  }
  return std::nullopt;
}

bool is_stub(const Image& image, VirtAddr address) {
  const elf::LoadedObject* object = image.code_at(address);
  if (object == nullptr) return false;
  auto insn = insn_at(*object, address, arch::kMaxInsn);
  if (insn && insn->kind == Insn::Kind::nop) insn = insn_at(*object, address + insn->length, arch::kMaxInsn);
  return insn && insn->kind == Insn::Kind::jump_indirect && insn->rip_reference.has_value();
}

}  // namespace rtrace::session
