// The probes of a run: what the plan asked for, with the label and the decoder that a hit needs.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "prototypes.h"
#include "reporter.h"
#include "rtrace/decode/call_decoder.h"
#include "rtrace/decode/record.h"
#include "rtrace/decode/sdt_arguments.h"
#include "rtrace/plan/plan.h"
#include "rtrace/session/options.h"

namespace rtrace::session {

// One function as it is shown. The same in every process and at every address where the plan finds it, so
// that there are never more than there are names.
struct Probe {
  event::ProbeId id{};
  decode::ProbeLabel label;
  const decode::CallDecoder* decoder = nullptr;    // of calls
  const decode::SdtArguments* operands = nullptr;  // of SDT probes
  plan::PairRole role = plan::PairRole::none;
  uint32_t pair = 0;                              // the same for the begins and ends of one pair
  std::string prototype;                          // where it comes from, for --explain
  std::shared_ptr<const proto::Prototype> known;  // nullptr where arguments are guessed
  bool only_from_caller = false, tail_jump = false, way_unknown = false,
       no_return = false;       // as in ProbePoint
  bool own_convention = false;  // it lies where functions need not preserve any register
  std::vector<plan::RequestIndex> requests;
  uint64_t hits = 0;
  bool waits = false;  // what it decodes is found out when it is first asked for
};

class ProbeRegistry {
 public:
  // Reads the -F files; throws Error where one cannot be read.
  ProbeRegistry(const Options& options, Reporter& reporter);

  // Reads what the point's prototype needs, so that add() is short.
  void read_ahead(const plan::ProbePoint& point, const plan::Objects& objects, ObjectCache& files);
  // The probe of a point that has been armed in a process with these objects. Of a command that is launched
  // prototypes are looked for at a probe's first hit: most of many probes are never hit. `files` must live as
  // long as this.
  Probe& add(const plan::ProbePoint& point, const plan::Objects& objects, ObjectCache& files);
  bool is_entry(event::ProbeId id) const {
    return probes_[static_cast<size_t>(id)].label.kind == decode::ProbeLabel::Kind::entry;
  }
  // Whether it stays where another is to stand for the same function: it has been hit, or is to be wrapped.
  bool stays(event::ProbeId id) const {
    return probes_[static_cast<size_t>(id)].hits > 0 || options_.mechanism == Options::Mechanism::trampoline;
  }
  // The probe, which stands where the point is, serves who asked for that one too: it is of the same function
  // by another name.
  void serve(event::ProbeId id, const plan::ProbePoint& point);
  // The probe of a system call; there is one for each name.
  Probe& add_syscall(const std::string& name);
  const std::deque<Probe>& all() const { return probes_; }
  Probe& at(event::ProbeId id) {
    Probe& probe = probes_[static_cast<size_t>(id)];
    if (probe.waits) settle(probe);
    return probe;
  }

  // What became of each request, over all processes.
  struct RequestFate {
    size_t armed = 0;
    uint64_t hits = 0;
    std::vector<plan::ProbePoint> samples;  // some of what was armed, for messages
    std::vector<plan::Decline> declined;
  };
  const std::vector<RequestFate>& fates() const { return fates_; }
  void hit(Probe& probe);
  void declined(const plan::Decline& decline);

 private:
  const decode::CallDecoder* decoder_of(const Prototypes::Known& known);
  const decode::SdtArguments* operands_of(const plan::ProbePoint& point, const plan::Objects& objects);
  // What it takes to look for a prototype later.
  struct Waiting {
    Probe* probe;
    std::string key;
    plan::ProbePoint point;
    Prototypes::Parties parties;
    ObjectCache* files;
  };

  bool may_wait(const plan::ProbePoint& point) const;
  void settle(Probe& probe);
  void describe(Probe& probe, const plan::ProbePoint& point, const Prototypes::Parties& parties,
                ObjectCache& files);
  Probe& keep(Probe probe);

  const Options& options_;
  Prototypes prototypes_;
  std::deque<Probe> probes_;
  std::unordered_map<std::string, Probe*> by_key_;
  std::unordered_map<std::string, Waiting> waiting_;  // by key without decoder
  std::unordered_set<std::string> keys_;              // without decoder, of all points that came
  std::unordered_map<std::shared_ptr<const proto::Prototype>, std::unique_ptr<decode::CallDecoder>> decoders_;
  std::unordered_map<std::string, std::unique_ptr<decode::SdtArguments>> operands_;
  std::unordered_map<std::string, uint32_t> pairs_;  // by label
  std::vector<RequestFate> fates_;
};

}  // namespace rtrace::session
