// What code lies where.
#include <sys/auxv.h>

#include "image.h"
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

}  // namespace rtrace::session
