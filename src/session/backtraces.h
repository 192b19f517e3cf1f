// Backtraces of calls (-w): taken while the thread is stopped, put into words when it runs again.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "image.h"
#include "rtrace/arch/regs.h"
#include "rtrace/decode/record.h"
#include "rtrace/unwind/unwinder.h"

namespace rtrace::session {

class Backtraces {
 public:
  explicit Backtraces(ObjectCache& files) : files_(files) {}

  // The callers of a thread that stands at a function's first instruction, or at a stub; or in the middle of
  // a function, at a part that is jumped to. At an instant: from the function that the thread is in.
  enum class At : uint8_t { entry, middle, instant };
  unwind::Backtrace take(Image& image, const arch::Regs& regs, At at, size_t most);
  // In the same image, before its link map is looked at again.
  std::vector<decode::StackFrame> describe(Image& image, const unwind::Backtrace& trace);

 private:
  decode::StackFrame describe(const elf::LoadedObject& object, const unwind::Frame& frame);

  ObjectCache& files_;
  std::unordered_map<std::shared_ptr<const elf::ElfFile>, std::unique_ptr<unwind::FrameTable>> tables_;
};

}  // namespace rtrace::session
