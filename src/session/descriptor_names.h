// -y: what lies behind the file descriptors of a call.
#pragma once

#include <vector>

#include "rtrace/decode/value.h"
#include "rtrace/event/ids.h"

namespace rtrace::session {

// Asks for what each descriptor in these is in that thread, which is stopped. Only values of the `fd` type
// count as such.
void name_descriptors(event::TraceeId who, decode::Value& value);
void name_descriptors(event::TraceeId who, std::vector<decode::Argument>& arguments);

}  // namespace rtrace::session
