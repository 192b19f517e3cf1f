#include "rtrace/sink/select_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "open_calls.h"
#include "rtrace/decode/call_decoder.h"

namespace rtrace::sink {
namespace {

bool is_known(const Where::Name& name, const decode::ProbeLabel& label) {
  if (std::ranges::find(label.parameters, name.text) != label.parameters.end()) return true;
  return name.may_be_key && label.decoder != nullptr && label.decoder->has_key(name.text);
}

// Of places that programs mark, only what is met tells.
bool may_have(size_t arguments, const decode::ProbeLabel& label) {
  return label.kind == decode::ProbeLabel::Kind::sdt || label.decoder == nullptr ||
         label.decoder->may_have(arguments);
}

template <typename Visit>
void for_each_value(decode::Record& record, Visit visit) {
  const auto all = [&](std::vector<decode::Argument>& arguments) {
    for (decode::Argument& argument : arguments) visit(argument.value);
  };
  if (auto* entered = std::get_if<decode::CallEntered>(&record.body)) all(entered->arguments);
  if (auto* abandoned = std::get_if<decode::CallAbandoned>(&record.body)) all(abandoned->arguments);
  if (auto* returned = std::get_if<decode::CallReturned>(&record.body)) {
    all(returned->arguments);
    visit(returned->result);
  }
}

}  // namespace

struct SelectSink::Impl {
  Impl(Options what, std::vector<std::unique_ptr<Sink>> whom, Notice tell)
      : options(std::move(what)), next(std::move(whom)), notice(std::move(tell)) {
    if (!options.where) return;
    unknown = options.where->names();
    beyond = options.where->arguments();
    for (Where::Member& member : options.where->members()) missing.push_back({std::move(member), false, {}});
  }

  // Each answers whether the record goes on as it is.
  bool operator()(const decode::CallEntered& call);
  bool operator()(const decode::CallReturned& call);
  bool operator()(const decode::CallAbandoned& call);
  bool operator()(const decode::Loaded& load) { return learn(load.probes); }
  bool operator()(const decode::ProbesArmed& armed) { return learn(armed.probes); }
  bool operator()(const decode::Started&);
  bool operator()(const decode::Forked& fork);
  template <typename Other>
  bool operator()(const Other&) {
    return true;
  }

  bool learn(const std::vector<decode::ArmedProbe>& probes);
  void learn(const decode::ProbeLabel& label);
  void tell_unknown();
  enum class Returns : bool { seen, unseen };
  bool selects(const CallFacts& call, Returns returns = Returns::seen);
  void look_for_members(const CallFacts& call);
  void tell_missing() const;
  void tell_left_out();
  CallFacts facts_of(const decode::CallEntered& call) const;
  template <typename Call>
  std::optional<OpenCall> leave(const Call& call, CallFacts& facts);
  bool passes(const std::optional<OpenCall>& call, const CallFacts& facts);
  void pass(const decode::Record& record);
  void pass_on(const decode::Record& record);

  const Options options;
  std::vector<std::unique_ptr<Sink>> next;
  Notice notice;
  OpenCalls open;
  decode::Header header;             // of the record at hand
  std::vector<Where::Name> unknown;  // names that no probe's prototype has had so far
  struct Missing {
    Where::Member member;
    bool looked_for = false;
    std::vector<std::string> others;  // of the first that lacks it
  };
  std::vector<Missing> missing;  // members that no call has had so far
  std::vector<size_t> beyond;    // numbers of arguments that no probe's calls have had so far
  uint64_t seen = 0, selected = 0;
  // Left out, for nobody knows their time, their result, or where their strings end.
  uint64_t untimed = 0, unjudged = 0, cut = 0;
};

void SelectSink::Impl::pass(const decode::Record& record) {
  if (!options.shown_string) return pass_on(record);
  decode::Record shown = record;
  for_each_value(shown, [&](decode::Value& value) { decode::shorten(value, *options.shown_string); });
  pass_on(shown);
}

void SelectSink::Impl::pass_on(const decode::Record& record) {
  for (auto& sink : next) sink->take(record);
}

bool SelectSink::Impl::selects(const CallFacts& call, Returns returns) {
  ++seen;
  if (options.slower > 0 && returns == Returns::unseen) {
    ++untimed;
    return false;
  }
  if (options.slower > 0 && call.duration.value_or(0) < options.slower) return false;
  if (options.where) {
    look_for_members(call);
    const Where::Answer answer = options.where->holds(call);
    cut += answer.cut;
    unjudged += !answer.holds && returns == Returns::unseen && options.where->reads_return();
    if (!answer.holds) return false;
  }
  ++selected;
  return true;
}

CallFacts SelectSink::Impl::facts_of(const decode::CallEntered& call) const {
  CallFacts facts;
  facts.name = call.label->name;
  facts.tid = header.who.tid;
  facts.depth = call.depth;
  facts.at_entry = call.arguments;
  return facts;
}

bool SelectSink::Impl::operator()(const decode::CallEntered& call) {
  learn(*call.label);
  if (call.label->instant) return selects(facts_of(call));
  if (call.unseen_return) return selects(facts_of(call), Returns::unseen);
  open.enter(header, call);
  return false;
}

// The entry, if it has been seen, goes on before the end of the call.
bool SelectSink::Impl::passes(const std::optional<OpenCall>& call, const CallFacts& facts) {
  if (!selects(facts)) return false;
  if (call) pass({call->header, call->entered});
  return true;
}

// What returned and what was abandoned calls have in common.
template <typename Call>
std::optional<OpenCall> SelectSink::Impl::leave(const Call& call, CallFacts& facts) {
  auto known = open.leave(header.who, call.call);
  if (known) facts.at_entry = known->entered.arguments;
  facts.name = call.label->name;
  facts.tid = header.who.tid;
  facts.depth = call.depth;
  facts.duration = call.duration;
  return known;
}

bool SelectSink::Impl::operator()(const decode::CallReturned& call) {
  CallFacts facts;
  const auto known = leave(call, facts);
  facts.at_return = call.arguments;
  facts.result = &call.result;
  if (call.result.kind == decode::Value::Kind::error_result) facts.error = static_cast<int>(call.result.raw);
  facts.error = call.error.value_or(facts.error);
  return passes(known, facts);
}

bool SelectSink::Impl::operator()(const decode::CallAbandoned& call) {
  CallFacts facts;
  const auto known = leave(call, facts);
  facts.at_return = call.arguments;
  return passes(known, facts);
}

bool SelectSink::Impl::operator()(const decode::Forked& fork) {
  open.fork(header.who, fork);
  return true;
}

bool SelectSink::Impl::learn(const std::vector<decode::ArmedProbe>& probes) {
  for (const decode::ArmedProbe& probe : probes) learn(*probe.label);
  return true;
}

void SelectSink::Impl::learn(const decode::ProbeLabel& label) {
  if (unknown.empty() && beyond.empty()) return;
  std::erase_if(unknown, [&](const Where::Name& name) { return is_known(name, label); });
  std::erase_if(beyond, [&](size_t arguments) { return may_have(arguments, label); });
}

bool SelectSink::Impl::operator()(const decode::Started&) {
  if (!options.syscalls) tell_unknown();
  return true;
}

void SelectSink::Impl::tell_unknown() {
  for (const Where::Name& name : std::exchange(unknown, {}))
    notice(
        fmt::format("--where: no probe that is armed has a parameter '{}'{}: what it stands in is never true "
                    "of their calls "
                    "(arg1, arg2, ... need no names)",
                    name.text, name.may_be_key ? ", nor one of an enum or of flags with that name" : ""));
  for (const size_t arguments : std::exchange(beyond, {}))
    notice(fmt::format(
        "--where: no probe that is armed has {} argument{}: what arg{} stands in is never true of "
        "their calls",
        arguments, arguments == 1 ? "" : "s", arguments));
}

void SelectSink::Impl::look_for_members(const CallFacts& call) {
  std::erase_if(missing, [&](Missing& one) {
    const Where::Has has = options.where->has(one.member, call);
    if (has.which == Where::Has::Which::no && !std::exchange(one.looked_for, true))
      for (const decode::Value& other : has.without->members)
        if (!other.name.empty()) one.others.push_back(other.name);  // those of an array have none
    return has.which == Where::Has::Which::yes;
  });
}

void SelectSink::Impl::tell_missing() const {
  for (const Missing& one : missing)
    if (one.looked_for)
      notice(fmt::format("--where: no call had '{}': what it stands in was never true{}", one.member.text,
                         one.others.empty() ? "; no prototype tells of members there"
                                            : fmt::format("; there are {}", fmt::join(one.others, ", "))));
}

void SelectSink::Impl::tell_left_out() {
  const auto calls = [](uint64_t count) { return fmt::format("{} call{}", count, count == 1 ? "" : "s"); };
  if (untimed > 0)
    notice(fmt::format("--slower left out {} whose return could not be seen: their time is not known",
                       calls(untimed)));
  if (unjudged > 0)
    notice(fmt::format("--where left out {} whose return could not be seen: result and time are not known",
                       calls(unjudged)));
  if (cut > 0)
    notice(
        fmt::format("--where left out {} with strings that are longer than what it reads of them; a "
                    "greater -s lets it read more",
                    calls(cut)));
}

std::string selecting_options(bool slower, bool where) {
  return slower && where ? "--slower and --where" : slower ? "--slower" : where ? "--where" : "";
}

SelectSink::SelectSink(Options options, std::vector<std::unique_ptr<Sink>> next, Notice notice)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(next), std::move(notice))) {}
SelectSink::~SelectSink() = default;

void SelectSink::take(const decode::Record& record) {
  impl_->header = record.header;
  if (std::visit(*impl_, record.body)) impl_->pass(record);
}

void SelectSink::finish() {
  for (auto& sink : impl_->next) sink->finish();
}

void SelectSink::end() {
  const uint64_t now = impl_->header.time.monotonic;
  for (const OpenCall& call : impl_->open.take_all()) {
    impl_->header = call.header;
    CallFacts facts = impl_->facts_of(call.entered);
    facts.duration = now - std::min(now, call.header.time.monotonic);
    if (impl_->selects(facts)) impl_->pass({call.header, call.entered});
  }
  for (auto& sink : impl_->next) sink->end();
  impl_->tell_unknown();
  impl_->tell_missing();
  impl_->tell_left_out();
  if (impl_->seen > 0 && impl_->selected == 0)
    impl_->notice(
        fmt::format("of {} call{} none was let through by {}", impl_->seen, impl_->seen == 1 ? "" : "s",
                    selecting_options(impl_->options.slower > 0, impl_->options.where.has_value())));
}

}  // namespace rtrace::sink
