#include "launch_arguments.h"

#include <elf.h>
#include <unistd.h>

#include <span>
#include <string_view>

#include "rtrace/base/error.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/process_memory.h"

namespace rtrace::session {
namespace {

constexpr VirtAddr kPath{0x10000}, kArguments{0x20000}, kTexts{0x100000};
constexpr size_t kLongestPath = 4096;

// What execve(2) was given, which /proc/PID/exe and cmdline need not be: scripts, symbolic links
// (getauxval(3), AT_EXECFN).
std::string path_of(pid_t pid) {
  const auto auxv = tracee::read_auxv(pid);
  const auto name = auxv.find(AT_EXECFN);
  if (name == auxv.end()) return {};
  try {
    auto text = tracee::ProcessMemory(pid).read_c_string({name->second}, kLongestPath);
    if (text) return std::move(text->text);
  } catch (const Error&) {
    // A program that only the superuser may trace; what becomes of it is said elsewhere.
  }
  return {};
}

std::string_view with_nul(const std::string& text) {
  return {text.c_str(), text.size() + 1};
}

}  // namespace

LaunchArguments::LaunchArguments(pid_t pid, const std::vector<std::string>& command) {
  memory_.add(kPath, with_nul(path_of(pid)));
  std::vector<uint64_t> pointers;
  VirtAddr text = kTexts;
  for (const std::string& word : command) {
    memory_.add(text, with_nul(word));
    pointers.push_back(text.value);
    text = text + word.size() + 1;
  }
  pointers.push_back(0);
  memory_.add(kArguments, {reinterpret_cast<const char*>(pointers.data()), 8 * pointers.size()});
  regs_.raw.rdi = kPath.value;
  regs_.raw.rsi = kArguments.value;
  // The command was forked from us, and has the same environment at the same place.
  regs_.raw.rdx = reinterpret_cast<uint64_t>(environ);
}

}  // namespace rtrace::session
