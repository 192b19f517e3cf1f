// An object's file, as far as a process's memory still has it.
#pragma once

#include "rtrace/base/address.h"
#include "rtrace/base/mapping.h"
#include "rtrace/base/memory.h"

namespace rtrace::elf {

struct MemoryImage {
  Mapping file;  // laid out as a file without section headers, its p_offsets rewritten to fit
  LoadBias bias;
};

// The object whose ELF header is mapped at `header`. Addresses that the dynamic linker has written into the
// dynamic section are the object's own again. Throws Error for what is no ELF header there, or where its
// segments cannot be read.
MemoryImage read_memory_image(const Memory& memory, VirtAddr header);

}  // namespace rtrace::elf
