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

bool Image::is_call_of(elf::ObjectId id, VirtAddr return_address, VirtAddr function) {
  const elf::LoadedObject* caller = object(id);
  if (caller == nullptr || !caller->maps_executable(return_address)) return false;
  const auto [known, fresh] = calls_another_.try_emplace({return_address, function}, false);
  if (fresh) known->second = calls_another(*caller, return_address, function);
  return !known->second;
}

// By what stands in front of the return address: `call *slot(%rip)`, and what the slot holds. A stub that
// leads there, or a function of the caller's own that does, is no other: it calls for the object.
bool Image::calls_another(const elf::LoadedObject& caller, VirtAddr return_address, VirtAddr function) {
  constexpr size_t kLength = 6;
  const VirtAddr at = return_address - kLength;
  const auto call = arch::decode(caller.file->bytes_at(caller.in_file(at), kLength), at);
  if (!call || call->kind != arch::Insn::Kind::call_indirect || call->length != kLength ||
      !call->rip_reference)
    return false;
  const auto held = space_->memory().read_value<uint64_t>(*call->rip_reference);
  const VirtAddr called{held.value_or(function.value)};
  const elf::LoadedObject* owner = called != function ? object_at(called) : nullptr;
  if (owner == nullptr || owner->id == caller.id) return false;
  const auto named = owner->file->function_at(owner->in_file(called));
  return named && owner->at(named->address) == called;
}

}  // namespace rtrace::session
