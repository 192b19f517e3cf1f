// What is said at the end about filters that found nothing, and probes that nothing met: with -q too, for
// else nothing at all might be printed.
#include <algorithm>
#include <set>

#include "engine_core.h"
#include "rtrace/base/text.h"
#include "rtrace/sink/summary_sink.h"

namespace rtrace::session {
namespace {

std::string where(const plan::ProbePoint& point) {
  if (point.kind == plan::ProbeKind::plt) return point.caller.empty() ? "the main program" : point.caller;
  return point.library.empty() ? "the main program" : point.library;
}

}  // namespace

void Engine::about_request(size_t index) {
  const auto& fate = registry_.fates()[index];
  const plan::Request& request = options_.requests.all[index];
  if (fate.armed > 0)
    if (const std::string part = plan::explain_part_without_match(request, seen_objects_); !part.empty())
      reporter_.say(fmt::format("{}: {}", request.text, part));
  if (fate.hits > 0) return;
  if (fate.armed == 0) {
    for (const auto& decline : fate.declined)
      reporter_.say(fmt::format("{}: {} in {}: {}", request.text, decline.name,
                                decline.object.empty() ? "the main program" : decline.object,
                                decline.reason));
    if (fate.declined.empty())
      reporter_.say(fmt::format("{}: {}", request.text, plan::explain_no_match(request, seen_objects_)));
    return;
  }
  if (reporter_.told_of_loss())
    return reporter_.say(fmt::format(
        "{}: {} armed, and met by none of the calls that were seen; others were lost", request.text,
        fate.armed == 1 ? "1 probe was" : fmt::format("{} probes were", fate.armed)));
  if (fate.armed > 1) {
    reporter_.say(fmt::format("{}: {} probes were armed and never hit", request.text, fate.armed));
    if (request.kind != plan::Request::Kind::entry || fate.samples.size() > 3) return;
  }
  std::set<std::string> said;  // each process has its own
  for (const auto& point : fate.samples) {
    std::string line = fmt::format("{} was armed in {} and never hit", point.name, where(point));
    if (!said.insert(line).second) continue;
    const std::string instead = plan::explain_never_hit(point, seen_objects_);
    reporter_.say(instead.empty() ? line : line + "; " + instead);
  }
}

void Engine::remember(const plan::Objects& objects) {
  for (const auto& object : objects) {
    const bool known = std::any_of(seen_objects_.begin(), seen_objects_.end(), [&](const auto& seen) {
      return seen.file == object.file && seen.main_program == object.main_program;
    });
    if (!known) seen_objects_.push_back(object);
  }
}

// A histogram adds no probe.
void Engine::about_histogram(const std::string& name) {
  std::set<std::string> names;
  for (const Probe& probe : registry_.all()) {
    if (sink::is_named(probe.label, name)) return;
    names.insert(probe.label.name);
  }
  const auto near = nearest_names(name, {names.begin(), names.end()}, 1);
  const bool pattern = name.find_first_of("*?[") != std::string::npos;
  reporter_.say(fmt::format("--hist={} names no probe{}", name,
                            pattern         ? "; it takes a name, no pattern"
                            : !near.empty() ? fmt::format("; did you mean {}?", near[0])
                                            : ""));
}

void Engine::about_trampolines() {
  const size_t breakpoints = services_.to_wrap - std::min(services_.to_wrap, services_.trampolines);
  const size_t waited = breakpoints - std::min(breakpoints, services_.breakpoints);
  reporter_.notice(fmt::format(
      "{}, {}{}", counted(services_.trampolines, "trampoline"), counted(breakpoints, "breakpoint"),
      waited == 0 ? "" : fmt::format(": {} waited for a moment to be patched", waited)));
}

// Where what is missed may have been in them.
void Engine::about_children() {
  const bool missed = std::ranges::any_of(registry_.fates(),
                                          [](const auto& fate) { return fate.armed > 0 && fate.hits == 0; });
  if (!missed || unfollowed_ == 0 || options_.follow) return;
  reporter_.say(unfollowed_ == 1
                    ? "a child process was not traced: -f follows it"
                    : fmt::format("{} child processes were not traced: -f follows them", unfollowed_));
}

void Engine::closing_words() {
  if (options_.mechanism == Options::Mechanism::trampoline) about_trampolines();
  if (seen_objects_.empty()) return;
  for (size_t index = 0; index < options_.requests.all.size(); ++index) about_request(index);
  about_children();
  for (const std::string& name : options_.histograms) about_histogram(name);
}

}  // namespace rtrace::session
