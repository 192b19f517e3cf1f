// An ElfFile where a process has it mapped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rtrace/base/address.h"
#include "rtrace/elf/elf_file.h"

namespace rtrace::elf {

// Identity of one load: a library loaded, closed and loaded again has two.
enum class ObjectId : uint32_t {};

struct LoadedObject {
  ObjectId id{};
  std::string path;  // as the tracee's maps name it
  LoadBias bias;
  std::shared_ptr<const ElfFile> file;
  bool main_program = false;  // matches MAIN in filters
  int link_namespace = 0;     // 0, or the dlmopen namespace's number

  // SONAME, else the file's basename. What output prints after '@'.
  std::string name() const;
  VirtAddr at(ElfAddr address) const { return address + bias; }
  ElfAddr in_file(VirtAddr address) const { return address - bias; }
  bool maps(VirtAddr address) const;             // in any PT_LOAD
  bool maps_executable(VirtAddr address) const;  // in an executable PT_LOAD
  Range range() const;                           // from the first PT_LOAD's start to the last one's end
};

}  // namespace rtrace::elf
