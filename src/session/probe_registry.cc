#include "probe_registry.h"

#include <algorithm>

#include "debuginfod.h"

namespace rtrace::session {
namespace {

constexpr size_t kSamples = 8;
constexpr const char* kSyscalls = "SYS";  // the object that prototypes of system calls are looked up under

decode::ProbeLabel::Kind kind_of(plan::ProbeKind kind) {
  using Kind = decode::ProbeLabel::Kind;
  switch (kind) {
    case plan::ProbeKind::plt:
      return Kind::call_site;
    case plan::ProbeKind::entry:
      return Kind::entry;
    case plan::ProbeKind::sdt:
      return Kind::sdt;
  }
  return Kind::entry;
}

decode::ProbeLabel label_of(const plan::ProbePoint& point) {
  decode::ProbeLabel label;
  label.name = point.name;
  label.kind = kind_of(point.kind);
  label.object = point.kind == plan::ProbeKind::entry ? point.library : "";
  label.instant = point.kind == plan::ProbeKind::sdt && point.pair == plan::PairRole::none;
  label.defined_in = point.prototype_object;
  label.caller = point.caller;
  label.clone = point.clone;
  return label;
}

// A table counts failures, and shows no values: nothing else is to be read of the tracee, or decoded.
std::shared_ptr<const proto::Prototype> without_arguments(
    const std::shared_ptr<const proto::Prototype>& prototype) {
  auto bare = std::make_shared<proto::Prototype>();
  const bool may_fail = prototype != nullptr && prototype->returns->kind == proto::Type::Kind::error;
  bare->returns = may_fail ? prototype->returns : proto::make_void();
  if (may_fail) bare->scope = prototype->scope;
  return bare;
}

Probe made_of(const plan::ProbePoint& point) {
  Probe probe;
  probe.label = label_of(point);
  probe.only_from_caller = point.only_from_caller;
  probe.tail_jump = point.tail_jump;
  probe.way_unknown = point.way_unknown;
  probe.no_return = point.no_return;
  probe.requests = point.requests;
  probe.role = point.pair;
  return probe;
}

std::string key_of(const Probe& probe, const plan::ProbePoint& point) {
  return fmt::format("{}|{}|{}{}{}{}{}{}|{}", probe.label.text(), point.prototype_object,
                     static_cast<int>(probe.label.kind), static_cast<int>(probe.role), probe.only_from_caller,
                     probe.tail_jump, probe.way_unknown, probe.no_return, fmt::join(probe.requests, ","));
}

bool has_own_convention(const plan::ProbePoint& point, const plan::Objects& objects) {
  const auto in = std::ranges::find(objects, point.object, &elf::LoadedObject::id);
  return point.kind == plan::ProbeKind::entry && in != objects.end() && in->range().contains(point.address) &&
         !in->file->preserves_registers();
}

// For static functions of one name may have several prototypes.
std::string with_decoder(const std::string& key, const Probe& probe) {
  return fmt::format("{}|{}|{}", key, static_cast<const void*>(probe.decoder),
                     static_cast<const void*>(probe.operands));
}

void describe_types(Probe& probe) {
  probe.label.parameters = probe.decoder->parameter_names();
  probe.label.result_type = probe.decoder->result_type();
  probe.label.decoder = probe.decoder;
}

}  // namespace

ProbeRegistry::ProbeRegistry(const Options& options, Reporter& reporter)
    : options_(options), prototypes_(options, reporter), fates_(options.requests.all.size()) {}

const decode::CallDecoder* ProbeRegistry::decoder_of(const Prototypes::Known& known) {
  auto& entry = decoders_[known.prototype];
  const bool arguments = options_.call_lines || !options_.where.empty();
  if (entry == nullptr)
    entry = std::make_unique<decode::CallDecoder>(
        arguments ? known.prototype : without_arguments(known.prototype), options_.limits);
  return entry.get();
}

void ProbeRegistry::read_ahead(const plan::ProbePoint& point, const plan::Objects& objects,
                               ObjectCache& files) {
  if (point.kind != plan::ProbeKind::sdt)
    prototypes_.find(point, objects, files, ObjectCache::Servers::may_be_asked);
}

const decode::SdtArguments* ProbeRegistry::operands_of(const plan::ProbePoint& point,
                                                       const plan::Objects& objects) {
  auto object = std::ranges::find(objects, point.object, &elf::LoadedObject::id);
  bool placed = false;  // they hold addresses, and are good for this load of the object only
  const auto address = [&](std::string_view symbol) -> std::optional<VirtAddr> {
    const auto found = object != objects.end() ? object->file->find_symbol(symbol) : std::nullopt;
    placed |= found.has_value();
    return found ? std::optional(object->at(*found)) : std::nullopt;
  };
  auto made = std::make_unique<decode::SdtArguments>(point.sdt_arguments, options_.limits, address);
  const std::string key =
      placed ? fmt::format("{}|{:x}", point.sdt_arguments, object->bias.value) : point.sdt_arguments;
  return operands_.try_emplace(key, std::move(made)).first->second.get();
}

// Where its arguments are, and what they are.
void ProbeRegistry::describe(Probe& probe, const plan::ProbePoint& point, const Prototypes::Parties& parties,
                             ObjectCache& files) {
  const Prototypes::Known& prototype =
      prototypes_.find(point, parties, files, ObjectCache::Servers::are_not_asked);
  probe.prototype = prototype.note;
  probe.known = prototype.prototype;
  probe.decoder = decoder_of(prototype);
  if (options_.lists_probes()) describe_types(probe);
}

// Lists tell of prototypes at once, and so do the rules of wrappers. A process that was attached to must not
// stand while files are read, and none while servers are asked.
bool ProbeRegistry::may_wait(const plan::ProbePoint& point) const {
  constexpr size_t kMost = 1000;  // each holds a copy of its point
  return options_.pids.empty() && !Debuginfod::has_servers() && !options_.explain &&
         !options_.lists_probes() && point.kind != plan::ProbeKind::sdt &&
         options_.mechanism != Options::Mechanism::trampoline && waiting_.size() < kMost;
}

void ProbeRegistry::settle(Probe& probe) {
  const auto found =
      std::ranges::find(waiting_, &probe, [](const auto& entry) { return entry.second.probe; });
  const Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  probe.waits = false;
  describe(probe, waiting.point, waiting.parties, *waiting.files);
  by_key_[with_decoder(waiting.key, probe)] = &probe;
}

Probe& ProbeRegistry::keep(Probe probe) {
  probe.id = static_cast<event::ProbeId>(probes_.size());
  probe.label.id = probe.id;
  return probes_.emplace_back(std::move(probe));
}

Probe& ProbeRegistry::add(const plan::ProbePoint& point, const plan::Objects& objects, ObjectCache& files) {
  for (plan::RequestIndex request : point.requests) {
    RequestFate& fate = fates_[request];
    ++fate.armed;
    if (fate.samples.size() < kSamples) fate.samples.push_back(point);
  }
  Probe probe = made_of(point);
  probe.own_convention = has_own_convention(point, objects);
  if (point.pair != plan::PairRole::none)
    probe.pair = pairs_.try_emplace(point.name, static_cast<uint32_t>(pairs_.size())).first->second;
  const std::string key = key_of(probe, point);
  const Prototypes::Parties parties = Prototypes::parties_of(point, objects);
  // Of several points that look alike each must say what it decodes.
  const bool first = keys_.insert(key).second;
  if (const auto other = waiting_.find(key); other != waiting_.end()) {
    settle(*other->second.probe);
  } else if (first && may_wait(point)) {
    probe.waits = true;
    Probe& kept = keep(std::move(probe));
    waiting_.emplace(key, Waiting{&kept, key, point, parties, &files});
    return kept;
  }
  if (point.kind == plan::ProbeKind::sdt) {
    probe.operands = operands_of(point, objects);
    probe.prototype = point.sdt_arguments.empty() ? "no arguments" : "the note's " + point.sdt_arguments;
  } else {
    describe(probe, point, parties, files);
  }
  auto& known = by_key_[with_decoder(key, probe)];
  if (known == nullptr) known = &keep(std::move(probe));
  return *known;
}

void ProbeRegistry::serve(event::ProbeId id, const plan::ProbePoint& point) {
  Probe& probe = probes_[static_cast<size_t>(id)];
  for (plan::RequestIndex request : point.requests) {
    if (std::ranges::find(probe.requests, request) != probe.requests.end()) continue;
    probe.requests.push_back(request);
    RequestFate& fate = fates_[request];
    ++fate.armed;
    if (fate.samples.size() < kSamples) fate.samples.push_back(point);
    if (probe.hits > 0) ++fate.hits;
  }
}

Probe& ProbeRegistry::add_syscall(const std::string& name) {
  Probe probe;
  probe.label.kind = decode::ProbeLabel::Kind::syscall;
  probe.label.name = name;
  probe.label.defined_in = kSyscalls;
  const Prototypes::Known& prototype = prototypes_.of_syscall(name, kSyscalls);
  probe.prototype = prototype.note;
  probe.decoder = decoder_of(prototype);
  describe_types(probe);
  return keep(std::move(probe));
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
