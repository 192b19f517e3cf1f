// What every image needs from the engine.
#pragma once

#include <set>
#include <string>

#include "object_cache.h"
#include "probe_registry.h"
#include "rtrace/mech/owner_list.h"
#include "rtrace/mech/patch_table.h"
#include "rtrace/mech/recorder_share.h"
#include "rtrace/session/options.h"

namespace rtrace::session {

// It outlives them all.
struct Services {
  const Options& options;
  Reporter& reporter;
  ProbeRegistry& registry;
  ObjectCache& objects;
  mech::PatchLedger& ledger;
  agent::Mode recording;  // what wrappers do
  // Of trampolines; without an owners' list there are none.
  mech::OwnerList* owners = nullptr;
  mech::RecorderShare recorder = {};
  std::string no_recorder = {};  // why it cannot be used anywhere
  // Functions that may become trampolines; of these, what became one, and what stays. The rest still wait.
  size_t to_wrap = 0, trampolines = 0, breakpoints = 0;
  std::set<std::string> stays_said = {};  // of what stays: once, however often its object is opened
};

}  // namespace rtrace::session
