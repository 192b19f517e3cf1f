// Two calls, as an engine sees them: what the micro benchmarks decode and render.
#pragma once

#include <memory>
#include <string_view>

#include "rtrace/arch/regs.h"
#include "rtrace/base/memory.h"
#include "rtrace/proto/parser.h"

namespace rtrace::bench {

inline constexpr uint64_t kStack = 0x7ffc00000ff8, kText = 0x21000;
inline constexpr std::string_view kTwoIntegers = "int work_two(int,int);";
inline constexpr std::string_view kWithString = "int work_text(int,int,string);";

inline std::shared_ptr<const proto::Prototype> prototype_of(std::string_view text) {
  proto::Diagnostics diagnostics;
  return proto::parse_conf(text, "bench", {}, diagnostics).functions.begin()->second;
}

inline BufferMemory memory() {
  BufferMemory memory;
  memory.add({kText}, std::string_view("seventeen letters", 18));
  return memory;
}

inline arch::Regs at_entry() {
  arch::Regs regs;
  regs.raw.rsp = kStack;
  regs.raw.rdi = 12345;
  regs.raw.rsi = 2;
  regs.raw.rdx = kText;
  return regs;
}

inline arch::Regs at_return() {
  arch::Regs regs = at_entry();
  regs.raw.rsp += 8;
  regs.raw.rax = 12347;
  return regs;
}

}  // namespace rtrace::bench
