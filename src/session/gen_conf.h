// rtrace --gen-conf OBJECT.
#pragma once

#include "rtrace/session/options.h"

namespace rtrace::session {

// Writes the prototypes of an object's functions to stdout, as its debug information has them, and to stderr
// what was left out and why. Throws Error where there are none.
int generate_configuration(const Options& options);

}  // namespace rtrace::session
