#pragma once

namespace rtrace::session {

// The whole program: parses, forks into front end and engine, traces, and gives the exit status. Where the
// launched command died of a signal it does not return but dies of the same.
int run(int argc, char** argv);

}  // namespace rtrace::session
