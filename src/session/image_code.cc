// What code lies where.
#include <sys/auxv.h>

#include "image.h"
#include "rtrace/arch/insn.h"
#include "rtrace/base/log.h"

namespace rtrace::session {

// In no link map, and no file: the kernel's own object.
const elf::LoadedObject* Image::vdso() const {
  if (vdso_) return vdso_->file != nullptr ? &*vdso_ : nullptr;
  vdso_.emplace();
  const auto auxv = tracee::read_auxv(pid_);
  const auto header = auxv.find(AT_SYSINFO_EHDR);
  if (header == auxv.end() || header->second == 0) return nullptr;
  try {
    auto mapped = elf::ElfFile::from_memory(space_->memory(), VirtAddr{header->second}, "[vdso]");
    vdso_->id = services_.objects.new_id();
    vdso_->path = tracee::kVdso;
    vdso_->file = std::move(mapped.file);
    vdso_->bias = mapped.bias;
  } catch (const Error& error) {
    RTRACE_LOG(session, 1, "{}", error.what());
    return nullptr;
  }
  return &*vdso_;
}

const elf::LoadedObject* Image::code_at(VirtAddr address) const {
  if (const elf::LoadedObject* object = object_at(address)) return object;
  return kernels_at(address);
}

const elf::LoadedObject* Image::kernels_at(VirtAddr address) const {
  const elf::LoadedObject* kernels = vdso();
  return kernels != nullptr && kernels->maps(address) ? kernels : nullptr;
}

plan::Elsewhere Image::elsewhere() const {
  return [this](VirtAddr address) { return kernels_at(address); };
}

CallOf Image::call_of(const decode::ProbeLabel& callee, elf::ObjectId id, VirtAddr return_address) {
  const elf::LoadedObject* caller = object(id);
  if (caller == nullptr || !caller->maps_executable(return_address)) return CallOf::another;
  const auto [known, fresh] = calls_.try_emplace({return_address, callee.id}, CallOf::unnamed);
  if (fresh) known->second = call_by_slot(*caller, return_address, callee.name);
  return known->second;
}

// By what stands in front of the return address: `call *slot(%rip)` or `call stub`, and whose slot that is.
// What has been written to it meanwhile, and pointers of the program's own, do not matter.
CallOf Image::call_by_slot(const elf::LoadedObject& caller, VirtAddr return_address,
                           const std::string& name) {
  const auto before = [&](uint64_t length) {
    const VirtAddr at = return_address - length;
    auto insn = arch::decode(caller.file->bytes_at(caller.in_file(at), length), at);
    return insn && insn->length == length ? insn : std::nullopt;
  };
  const auto loads = before(6), direct = before(5);
  const bool through_slot = loads && loads->kind == arch::Insn::Kind::call_indirect && loads->rip_reference;
  const bool through_stub = direct && direct->kind == arch::Insn::Kind::call && direct->target;
  CallOf call = CallOf::unnamed;
  for (const elf::CallSlot& slot : caller.file->call_slots()) {
    const bool goes = (through_slot && caller.at(slot.slot) == *loads->rip_reference) ||
                      (through_stub && slot.stub && caller.at(*slot.stub) == *direct->target);
    if (!goes) continue;
    if (slot.name == name) return CallOf::its;
    call = CallOf::another;
  }
  return call;
}

}  // namespace rtrace::session
