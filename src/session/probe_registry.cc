#include "probe_registry.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace rtrace::session {
namespace {

constexpr size_t kSamples = 8;

decode::ProbeLabel label_of(const plan::ProbePoint& point) {
  decode::ProbeLabel label;
  label.name = point.name;
  label.call_site = point.kind == plan::ProbeKind::plt;
  label.object = label.call_site ? "" : point.library;
  label.caller = point.caller;
  label.clone = point.clone;
  return label;
}

}  // namespace

// Beside the program, so that it works wherever it was installed or unpacked, and in a build tree.
static std::string shipped_configuration() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = program.parent_path().parent_path() / "share/rtrace/conf";
  return std::filesystem::exists(installed, error) ? installed : program.parent_path() / "conf";
}

ProbeRegistry::ProbeRegistry(const Options& options, Reporter& reporter)
    : options_(options), reporter_(reporter), fates_(options.requests.all.size()) {
  proto::Diagnostics diagnostics;
  for (const std::string& path : options.config) catalogue_.add(path, diagnostics);
  for (const std::string& line : diagnostics) reporter.say(line);
  const char* home = getenv("HOME");
  const char* config_home = getenv("XDG_CONFIG_HOME");
  if (config_home != nullptr && *config_home != 0)
    catalogue_.add_folder(std::string(config_home) + "/rtrace");
  else if (home != nullptr)
    catalogue_.add_folder(std::string(home) + "/.config/rtrace");
  catalogue_.add_folder(shipped_configuration());
  if (home != nullptr) catalogue_.add_fallback(std::string(home) + "/.ltrace.conf");
  catalogue_.add_fallback("/etc/ltrace.conf");
}

// A clone's arguments are not what the prototype says: they are guessed.
const decode::CallDecoder* ProbeRegistry::decoder_of(const plan::ProbePoint& point) {
  auto& entry = decoders_[fmt::format("{}@{}~{}", point.name, point.prototype_object, point.clone)];
  if (entry != nullptr) return entry.get();
  std::shared_ptr<const proto::Prototype> prototype;
  proto::Diagnostics diagnostics;
  if (!point.clone) {
    prototype = catalogue_.find(point.name, point.prototype_object, diagnostics);
    for (size_t i = 0; prototype == nullptr && i < point.aliases.size(); ++i)
      prototype = catalogue_.find(point.aliases[i], point.prototype_object, diagnostics);
  }
  for (const std::string& line : diagnostics) reporter_.say(line);
  entry = std::make_unique<decode::CallDecoder>(std::move(prototype), options_.limits);
  return entry.get();
}

Probe& ProbeRegistry::add(const plan::ProbePoint& point) {
  for (plan::RequestIndex request : point.requests) {
    RequestFate& fate = fates_[request];
    ++fate.armed;
    if (fate.samples.size() < kSamples) fate.samples.push_back(point);
  }
  Probe probe;
  probe.label = label_of(point);
  probe.only_from_caller = point.only_from_caller;
  probe.tail_jump = point.tail_jump;
  probe.no_return = point.no_return;
  probe.requests = point.requests;
  auto& known = by_key_[fmt::format("{}|{}|{}{}{}{}|{}", probe.label.text(), point.prototype_object,
                                    probe.label.call_site, probe.only_from_caller, probe.tail_jump,
                                    probe.no_return, fmt::join(probe.requests, ","))];
  if (known != nullptr) return *known;
  probe.id = static_cast<event::ProbeId>(probes_.size());
  probe.label.id = probe.id;
  probe.decoder = decoder_of(point);
  known = &probes_.emplace_back(std::move(probe));
  return *known;
}

void ProbeRegistry::hit(Probe& probe) {
  if (probe.hits++ > 0) return;
  for (plan::RequestIndex request : probe.requests) ++fates_[request].hits;
}

void ProbeRegistry::declined(const plan::Decline& decline) {
  auto& list = fates_[decline.request].declined;
  if (list.size() < kSamples) list.push_back(decline);
}

}  // namespace rtrace::session
