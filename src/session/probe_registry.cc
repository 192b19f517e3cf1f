#include "probe_registry.h"

namespace rtrace::session {
namespace {

constexpr size_t kSamples = 8;

decode::ProbeLabel label_of(const plan::ProbePoint& point) {
  decode::ProbeLabel label;
  label.name = point.name;
  const bool call_site = point.kind == plan::ProbeKind::plt;
  label.kind = call_site ? decode::ProbeLabel::Kind::call_site : decode::ProbeLabel::Kind::entry;
  label.object = call_site ? "" : point.library;
  label.defined_in = point.prototype_object;
  label.caller = point.caller;
  label.clone = point.clone;
  return label;
}

}  // namespace

ProbeRegistry::ProbeRegistry(const Options& options, Reporter& reporter)
    : options_(options), prototypes_(options, reporter), fates_(options.requests.all.size()) {}

const decode::CallDecoder* ProbeRegistry::decoder_of(const Prototypes::Known& known) {
  auto& entry = decoders_[known.prototype];
  if (entry == nullptr) entry = std::make_unique<decode::CallDecoder>(known.prototype, options_.limits);
  return entry.get();
}

void ProbeRegistry::read_ahead(const plan::ProbePoint& point, const plan::Objects& objects,
                               ObjectCache& files) {
  prototypes_.find(point, objects, files);
}

Probe& ProbeRegistry::add(const plan::ProbePoint& point, const plan::Objects& objects, ObjectCache& files) {
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
  const Prototypes::Known& prototype = prototypes_.find(point, objects, files);
  probe.prototype = prototype.note;
  probe.decoder = decoder_of(prototype);
  // The decoder, for static functions of one name may have several prototypes.
  auto& known = by_key_[fmt::format("{}|{}|{}{}{}{}|{}|{}", probe.label.text(), point.prototype_object,
                                    static_cast<int>(probe.label.kind), probe.only_from_caller,
                                    probe.tail_jump, probe.no_return, fmt::join(probe.requests, ","),
                                    static_cast<const void*>(probe.decoder))];
  if (known != nullptr) return *known;
  probe.id = static_cast<event::ProbeId>(probes_.size());
  probe.label.id = probe.id;
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
