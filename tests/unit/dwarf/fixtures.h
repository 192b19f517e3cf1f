// Shared by the tests of dwarf: prototypes of the fixtures, as text.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "rtrace/base/text.h"
#include "rtrace/dwarf/debug_info.h"

namespace rtrace::dwarf {

inline std::string fixture(const std::string& name) {
  return std::string(RTRACE_DWARF_FIXTURES "/") + name;
}
inline std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The compilers that made fixtures: gcc, and clang where it is installed.
inline std::vector<std::string> compilers() {
  std::vector<std::string> names;
  for (std::string_view name : split(RTRACE_DWARF_COMPILERS, ',')) names.emplace_back(name);
  return names;
}
// gcc_4, gcc_5 ...: with the versions of DWARF.
inline std::vector<std::string> producers() {
  std::vector<std::string> names;
  for (const std::string& compiler : compilers())
    for (const char* version : {"_4", "_5"}) names.push_back(compiler + version);
  return names;
}

// One object with its debug information.
struct Object {
  std::shared_ptr<const elf::ElfFile> file;
  std::unique_ptr<DebugInfo> debug;

  explicit Object(const std::string& name)
      : file(elf::ElfFile::open(fixture(name))),
        debug(DebugInfo::of(*file, UniqueFd(::open(fixture(name).c_str(), O_RDONLY | O_CLOEXEC)))) {}

  Answer ask(std::string_view function) const {
    auto symbols = file->find_function(function);
    if (symbols.empty()) return {nullptr, "no symbol"};
    return debug->function_at(symbols[0].address);
  }
  // The prototype in rtrace's own language, else the reason in brackets.
  std::string spelled(std::string_view function) const {
    Answer answer = ask(function);
    return answer.prototype ? proto::spell(*answer.prototype) : "[" + answer.reason + "]";
  }
  proto::TypeRef parameter(std::string_view function, size_t index) const {
    Answer answer = ask(function);
    if (!answer.prototype || index >= answer.prototype->params.size()) return nullptr;
    return answer.prototype->params[index].type;
  }
};

}  // namespace rtrace::dwarf
