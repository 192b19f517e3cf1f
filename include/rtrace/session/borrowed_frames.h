// Functions that an exception, a cancelled thread or a backtrace may pass: which of them can be wrapped
// behind a borrowed frame (mech/wrapper_stub.h), and what is borrowed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rtrace/elf/elf_file.h"
#include "rtrace/mech/wrapper_stub.h"
#include "rtrace/plan/plan.h"

namespace rtrace::unwind {
class FrameTable;
}

namespace rtrace::session {

// Why a function of that name must return to its caller itself; empty where nothing is known against it.
std::string why_returns_itself(std::string_view name);

// What the code of a function says, as far as it can be followed.
struct FunctionCode {
  // Why it cannot find its caller behind a borrowed frame; empty where it looks no further up than its own.
  std::string why_looks_up;
  // It may call, or go on in, code that is not looked at, or ask the kernel: so that another call of it may
  // begin while one is open.
  bool goes_elsewhere = true;
};
// What a function may look at above its return address: its arguments in memory.
struct ArgumentArea {
  uint16_t bytes = 0;
  bool addressed = false;  // it may take addresses in there: of a struct, or of further arguments
};
FunctionCode look_at_code(unwind::FrameTable& table, ElfAddr function, ArgumentArea arguments = {});

// Where a function of that object whose code serves `...` takes no more arguments, all told, than lie in
// registers: the C library's open, fcntl, ioctl. Its code takes addresses in the first kFurtherArguments all
// the same.
inline constexpr uint16_t kFurtherArguments = 48;  // bytes
bool is_variadic_by_form(std::string_view name, std::string_view object);

// A frame for that plan, of code that stays mapped as long as the process: the C library's, else the dynamic
// linker's or the program's own.
std::optional<mech::BorrowedFrame> find_lender(const plan::Objects& objects, const agent::FunctionPlan& plan);

// Where such code has room for the call that foretells a return: `ret`, `first` and `padding`. The rest is of
// a plan; nullopt where no frame goes with it.
std::optional<mech::BorrowedFrame> find_foretelling(const plan::Objects& objects);
std::optional<mech::BorrowedFrame> foretold(const plan::Objects& objects, const mech::BorrowedFrame& first,
                                            const agent::FunctionPlan& plan);

}  // namespace rtrace::session
