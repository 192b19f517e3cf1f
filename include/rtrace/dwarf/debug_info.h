// What DWARF says about the functions of one object. The only module with libdw's DWARF side.
//
// Debug information may be anything: hostile, truncated, of a producer nobody has seen. What it says is
// bounded in size and depth, names hold printable characters only, and what cannot be told for sure (a
// calling convention of the compiler's own, a type that travels in a way that decode does not know) is
// refused with the reason, for a wrong prototype is worse than none.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "rtrace/base/address.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/elf/elf_file.h"
#include "rtrace/proto/prototype.h"

namespace rtrace::dwarf {

// A prototype, or why there is none. One of the two is empty.
struct Answer {
  std::shared_ptr<const proto::Prototype> prototype;
  std::string reason;
};

class DebugInfo {
 public:
  // The file's own debug information, read through `own` (open on the same file), else that of its separate
  // debug file. nullptr where it has none. Reads tables only; compile units are read when they are asked for.
  // One thread only.
  static std::unique_ptr<DebugInfo> of(const elf::ElfFile& file, UniqueFd own);
  // Of one file; `path` is for messages. nullptr where there is no DWARF in it that can be read.
  static std::unique_ptr<DebugInfo> open(UniqueFd fd, std::string path);
  ~DebugInfo();

  const std::string& path() const;

  // The function whose first instruction is there.
  Answer function_at(ElfAddr address);
  // "file:line" of the instruction there, printable; empty where nothing says it.
  std::string line_at(ElfAddr address);
  // A function that is declared here and defined elsewhere, by its symbol's name. Walks the compile units, up
  // to a bound on their size.
  Answer declaration_of(std::string_view symbol);

 private:
  struct Impl;
  explicit DebugInfo(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrace::dwarf
