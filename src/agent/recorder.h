// What a wrapper calls before and after the function that it stands for.
#pragma once

#include <cstdint>

#include "rtrace/agent/recorder.h"

namespace rtrace::agent {

// `frame` lies right below the wrapper's saved rbp; the stub has stored the registers in it. Answers how many
// bytes behind the return address the stub hands on, whatever the mode: passed_bytes().
uint64_t enter(const Control& control, WrapperFrame& frame, uint32_t function, Passed passed);
// `frame` as before, its `kept` untouched; result in `returned.result`, rdx in `r11`.
void leave(const Control& control, WrapperFrame& frame, uint32_t function);

}  // namespace rtrace::agent
