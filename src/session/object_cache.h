// ELF files of mapped objects, each parsed once however many processes map it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "rtrace/base/memory.h"
#include "rtrace/elf/elf_file.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {

class ObjectCache {
 public:
  // The file behind a mapping of `pid`, mapped with its ELF header at `entry`'s file begin. It is looked for
  // through the process's own root folder, its map_files and (for the main program) its exe link, and
  // accepted only if it is what is in memory: after an upgrade the path leads to another file. Throws Error
  // with what was tried.
  std::shared_ptr<const elf::ElfFile> open(pid_t pid, const tracee::MapsEntry& entry, LoadBias bias,
                                           const Memory& memory, bool main_program);

 private:
  using Key = std::tuple<dev_t, ino_t, off_t, int64_t>;
  std::shared_ptr<const elf::ElfFile> open_path(const std::string& path, const std::string& shown);

  std::map<Key, std::shared_ptr<const elf::ElfFile>> files_;
};

}  // namespace rtrace::session
