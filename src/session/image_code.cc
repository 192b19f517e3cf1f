// What code lies where.
#include <sys/auxv.h>

#include "image.h"
#include "rtrace/arch/insn.h"
#include "rtrace/base/log.h"

namespace rtrace::session {

// In no link map, and no file: the kernel's own object.
const elf::LoadedObject* Image::vdso() {
  if (vdso_) return vdso_->file != nullptr ? &*vdso_ : nullptr;
  vdso_.emplace();
  const auto auxv = tracee::read_auxv(pid_);
  const auto header = auxv.find(AT_SYSINFO_EHDR);
  if (header == auxv.end() || header->second == 0) return nullptr;
  try {
    auto mapped = elf::ElfFile::from_memory(space_->memory(), VirtAddr{header->second}, "[vdso]");
    vdso_->path = "[vdso]";
    vdso_->file = std::move(mapped.file);
    vdso_->bias = mapped.bias;
  } catch (const Error& error) {
    RTRACE_LOG(session, 1, "{}", error.what());
    return nullptr;
  }
  return &*vdso_;
}

const elf::LoadedObject* Image::code_at(VirtAddr address) {
  if (const elf::LoadedObject* object = object_at(address)) return object;
  const elf::LoadedObject* kernels = vdso();
  return kernels != nullptr && kernels->maps(address) ? kernels : nullptr;
}

bool Image::is_call_of(const decode::ProbeLabel& callee, elf::ObjectId id, VirtAddr return_address) {
  const elf::LoadedObject* caller = object(id);
  if (caller == nullptr || !caller->maps_executable(return_address)) return false;
  const auto [known, fresh] = calls_another_.try_emplace({return_address, callee.id}, false);
  if (fresh) known->second = calls_another(*caller, return_address, callee.name);
  return !known->second;
}

// By what stands in front of the return address: `call *slot(%rip)`, and whose slot that is. What has been
// written to it meanwhile, and pointers of the program's own, do not matter.
bool Image::calls_another(const elf::LoadedObject& caller, VirtAddr return_address, const std::string& name) {
  constexpr size_t kLength = 6;
  const VirtAddr at = return_address - kLength;
  const auto call = arch::decode(caller.file->bytes_at(caller.in_file(at), kLength), at);
  if (!call || call->kind != arch::Insn::Kind::call_indirect || call->length != kLength ||
      !call->rip_reference)
    return false;
  bool another = false;
  for (const elf::CallSlot& slot : caller.file->call_slots()) {
    if (caller.at(slot.slot) != *call->rip_reference) continue;
    if (slot.name == name) return false;
    another = true;
  }
  return another;
}

}  // namespace rtrace::session
