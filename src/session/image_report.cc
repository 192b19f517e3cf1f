// What an image tells the trace about itself.
#include <algorithm>
#include <utility>

#include "image.h"

namespace rtrace::session {

// The probes that an object has brought stand in its own record; those of a call from an older object to a
// new one, too.
void Image::report_loaded(const plan::Objects& added, event::TraceeId who) {
  reported_as_ = who;
  for (const auto& object : added) {
    decode::Loaded loaded{object.path, object.bias.value, object.main_program, {}};
    const bool last = object.id == added.back().id;
    const auto others = std::stable_partition(
        newly_armed_.begin(), newly_armed_.end(),
        [&](const decode::ArmedProbe& probe) { return last || object.maps(probe.address); });
    std::move(newly_armed_.begin(), others, std::back_inserter(loaded.probes));
    newly_armed_.erase(newly_armed_.begin(), others);
    services_.reporter.take(who, timestamp(), std::move(loaded));
    for (const std::string& warning : services_.objects.take_warnings(object.file))
      services_.reporter.say(fmt::format("{}: {}", object.path, warning));
  }
}

void Image::report_armed() {
  if (!newly_armed_.empty())
    services_.reporter.take(reported_as_, timestamp(), decode::ProbesArmed{std::exchange(newly_armed_, {})});
}

}  // namespace rtrace::session
