// The pages of rtrace's own that starting a command touches for sure, brought in together: page faults were a
// quarter of what starting cost.
#pragma once

namespace rtrace::session {

void bring_in_front_end();
// In the engine's process, before it does anything.
void bring_in_engine();

}  // namespace rtrace::session
