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

// The instruction of that length in front of the return address, where it is of that kind.
std::optional<Insn> call_before(const elf::LoadedObject& object, VirtAddr return_address, uint64_t length,
                                Insn::Kind kind) {
  const auto insn = insn_at(object, return_address - length, length);
  return insn && insn->length == length && insn->kind == kind ? insn : std::nullopt;
}

// The longer form, `call *%r8` and so on, ends as a shorter one does.
std::optional<uint8_t> register_called(const elf::LoadedObject& object, VirtAddr return_address) {
  for (uint64_t length : {uint64_t{3}, uint64_t{2}})
    if (call_before(object, return_address, length, Insn::Kind::call_indirect))
      return arch::branch_register(object.file->bytes_at(object.in_file(return_address - length), length));
  return std::nullopt;
}

std::optional<VirtAddr> target_of_call(const elf::LoadedObject& object, VirtAddr return_address,
                                       const arch::Regs& regs) {
  constexpr uint64_t kDirect = 5;
  const auto number = register_called(object, return_address);
  if (number)
    return arch::is_preserved(*number) ? std::optional(VirtAddr{arch::register_of(regs, *number)})
                                       : std::nullopt;
  const auto direct = call_before(object, return_address, kDirect, Insn::Kind::call);
  return direct ? direct->target : std::nullopt;
}

}  // namespace

std::optional<VirtAddr> called_function(const Image& image, VirtAddr return_address, const arch::Regs& regs) {
  const elf::LoadedObject* object = image.code_at(return_address);
  if (object == nullptr) return std::nullopt;
  const auto target = target_of_call(*object, return_address, regs);
  const elf::LoadedObject* where = target ? image.code_at(*target) : nullptr;
  return where != nullptr && where->maps_executable(*target) ? target : std::nullopt;
}

bool is_stub(const Image& image, VirtAddr address) {
  const elf::LoadedObject* object = image.code_at(address);
  if (object == nullptr) return false;
  auto insn = insn_at(*object, address, arch::kMaxInsn);
  if (insn && insn->kind == Insn::Kind::nop) insn = insn_at(*object, address + insn->length, arch::kMaxInsn);
  return insn && insn->kind == Insn::Kind::jump_indirect && insn->rip_reference.has_value();
}

}  // namespace rtrace::session
