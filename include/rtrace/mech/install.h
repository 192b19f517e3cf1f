// The three answers to "put a probe here".
#pragma once

#include <string>
#include <variant>

namespace rtrace::mech {

struct BreakpointSite;

struct Installed {
  BreakpointSite* site = nullptr;
};
struct Declined {
  std::string reason;
};  // cannot ever; shown by --explain
struct Busy {
  std::string reason;
};  // not now: try again at the next stop
using InstallAnswer = std::variant<Installed, Declined, Busy>;

}  // namespace rtrace::mech
