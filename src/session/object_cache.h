// ELF files of mapped objects, each parsed once however many processes map it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "debuginfod.h"
#include "rtrace/base/memory.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/dwarf/debug_info.h"
#include "rtrace/elf/elf_file.h"
#include "rtrace/elf/loaded_object.h"
#include "rtrace/tracee/proc_fs.h"

namespace rtrace::session {

class ObjectCache {
 public:
  struct Opened {
    std::shared_ptr<const elf::ElfFile> file;
    LoadBias bias;
    std::string no_file;  // why it was read from the process's memory; empty where a file fitted
  };
  // What is known of an object before its file is.
  struct Place {
    const tracee::MapsEntry& begin;  // maps its ELF header
    std::optional<LoadBias> bias;
    std::optional<VirtAddr> program_headers;  // of the main program (AT_PHDR), which its bias follows from
  };
  // The file of an object that `pid` has mapped. It is looked for at its path in the process's root folder
  // and in ours, in map_files and, for the main program, through the exe link, and accepted only if it is
  // what is in memory: after an upgrade the path leads to another file. Where none fits the memory itself
  // serves. Throws Error with what was tried.
  Opened open(pid_t pid, const Place& place, const Memory& memory);
  // Of one more object that is mapped somewhere.
  elf::ObjectId new_id() { return static_cast<elf::ObjectId>(++last_id_); }

  // What has turned out to be wrong with a file that open() gave since this was asked last: it is read as far
  // as it goes.
  std::vector<std::string> take_warnings(const std::shared_ptr<const elf::ElfFile>& file);

  // What is known of the functions of a file that open() gave. `debug` is nullptr where it has no debug
  // information, `reason` why. A server that the user's environment names is asked only where nobody waits.
  enum class Servers : bool { are_not_asked, may_be_asked };
  struct DebugInfo {
    std::unique_ptr<dwarf::DebugInfo> debug;
    std::string reason;
  };
  const DebugInfo& debug_info(const std::shared_ptr<const elf::ElfFile>& file, Servers servers);
  // The same for whoever has no use for a reason, and a thread that waits.
  dwarf::DebugInfo* debug_info(const std::shared_ptr<const elf::ElfFile>& file) {
    return debug_info(file, Servers::are_not_asked).debug.get();
  }

 private:
  using Key = std::tuple<dev_t, ino_t, off_t, int64_t>;
  struct OpenFile {
    UniqueFd fd;
    Key key;
  };
  static OpenFile open_file(const std::string& path, const std::string& shown);
  UniqueFd reopen(const elf::ElfFile& file) const;
  void ask_servers(const elf::ElfFile& file, DebugInfo& known);
  std::shared_ptr<const elf::ElfFile> open_path(const std::string& path, const std::string& shown);

  std::map<Key, std::shared_ptr<const elf::ElfFile>> files_;
  std::map<const elf::ElfFile*, std::pair<std::string, Key>> paths_;  // where each was opened last
  std::map<std::shared_ptr<const elf::ElfFile>, DebugInfo> debug_info_;
  std::map<std::shared_ptr<const elf::ElfFile>, size_t> warnings_taken_;
  Debuginfod debuginfod_;
  uint32_t last_id_ = 0;  // 0: none
};

}  // namespace rtrace::session
