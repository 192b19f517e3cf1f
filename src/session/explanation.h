// The lines of --explain about probes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "probe_registry.h"
#include "rtrace/mech/breakpoint_site.h"
#include "rtrace/plan/probe_point.h"

namespace rtrace::session {

// Where a probe stands and why, how threads pass it, and where its prototype comes from. `code` is the
// object's own from the probe's address on.
std::string explain_armed(const Probe& probe, const plan::ProbePoint& point, const mech::BreakpointSite& site,
                          std::span<const std::byte> code, const Options& options);

// A name as it is printed in lines.
std::string shown_name(const std::string& symbol, const Options& options);

}  // namespace rtrace::session
