#include "rtrace/sink/json_sink.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "json_value.h"
#include "names.h"
#include "open_calls.h"
#include "rtrace/base/text.h"

namespace rtrace::sink {
namespace {

using Probes = std::vector<decode::ArmedProbe>;

// A line holds no more probes than this: `-x '*'` arms some hundred thousand.
constexpr size_t kProbesALine = 1000;

std::string_view kind_name(decode::ProbeLabel::Kind kind) {
  switch (kind) {
    case decode::ProbeLabel::Kind::call_site:
      return "plt";
    case decode::ProbeLabel::Kind::entry:
      return "entry";
    case decode::ProbeLabel::Kind::syscall:
      return "syscall";
    case decode::ProbeLabel::Kind::sdt:
      return "sdt";
  }
  return "entry";
}

void name_or_null(JsonWriter& json, std::string_view key, std::string_view name) {
  json.key(key);
  if (name.empty())
    json.null();
  else
    json.string(name);
}

void append_frame(JsonWriter& json, const decode::StackFrame& frame) {
  json.begin_object();
  json.key("address");
  json.address(frame.address.value);
  name_or_null(json, "object", frame.object);
  name_or_null(json, "symbol", frame.symbol);
  json.member("offset", frame.offset);
  if (!frame.source.empty()) json.member("source", frame.source);
  json.end_object();
}

// How a call ended that did not return before our eyes.
struct Outcome {
  std::string_view word;  // empty: it returned
  std::string_view reason;
};

}  // namespace

struct JsonSink::Impl {
  Impl(Output& where, JsonOptions what) : output(where), options(std::move(what)) {}

  void operator()(const decode::CallEntered& call);
  void operator()(const decode::CallReturned& call);
  void operator()(const decode::CallAbandoned& call);
  void operator()(const decode::CallsCounted&) {}
  void operator()(const decode::SignalDelivered& signal);
  void operator()(const decode::Executed& exec);
  void operator()(const decode::ThreadStarted&) {}
  void operator()(const decode::Exited& exit);
  void operator()(const decode::Killed& death);
  void operator()(const decode::Loaded& load);
  void operator()(const decode::Unloaded& unload);
  void operator()(const decode::ProbesArmed& armed);
  void operator()(const decode::Started&) {}
  void operator()(const decode::Forked& fork);
  void operator()(const decode::Lost& loss);

  void start();
  void begin(std::string_view type, const decode::Header& of);
  void end();
  void append_probes(const Probes& probes, size_t& next);
  void write_probes(const Probes& probes, size_t next);
  void write_call(const OpenCall& call, const decode::CallReturned* returned,
                  std::span<const decode::Argument> at_return, Outcome outcome);
  template <typename Ended>
  OpenCall take_call(const Ended& call);
  const std::string& members_of(const decode::ProbeLabel& label, const std::string& caller = {});

  Output& output;
  const JsonOptions options;
  std::string line;
  JsonWriter json{line};
  decode::Header header;  // of the record at hand
  bool started = false;
  std::vector<std::string> waiting;  // lines for behind the first one
  Probes first_probes;
  std::set<pid_t> pids;
  OpenCalls open;
  // By who calls it, where that is no part of the label.
  std::unordered_map<const decode::ProbeLabel*, std::map<std::string, std::string>> labels;
};

void JsonSink::Impl::begin(std::string_view type, const decode::Header& of) {
  line.clear();
  json.begin_object();
  json.member("type", type);
  json.member("ts", of.time.realtime);
  json.member("pid", int64_t{of.who.pid});
  json.member("tid", int64_t{of.who.tid});
}

void JsonSink::Impl::end() {
  json.end_object();
  line += '\n';
  if (started)
    output.write(line);
  else
    waiting.push_back(line);
}

void JsonSink::Impl::start() {
  started = true;
  line.clear();
  json.begin_object();
  json.member("v", 1);
  json.member("type", "start");
  json.member("ts", header.time.realtime);
  json.member("rtrace", options.version);
  for (const auto& [key, words] : {std::pair{"options", &options.words}, {"command", &options.command}}) {
    json.key(key);
    json.begin_array();
    for (const std::string& word : *words) json.string(word);
    json.end_array();
  }
  json.key("pids");
  json.begin_array();
  for (pid_t pid : pids) json.number(pid);
  json.end_array();
  size_t next = 0;
  append_probes(first_probes, next);
  end();
  for (const std::string& text : std::exchange(waiting, {})) output.write(text);
  write_probes(std::exchange(first_probes, {}), next);
}

void JsonSink::Impl::append_probes(const Probes& probes, size_t& next) {
  json.key("probes");
  json.begin_array();
  for (const size_t end = std::min(probes.size(), next + kProbesALine); next < end; ++next) {
    const decode::ArmedProbe& probe = probes[next];
    json.begin_object();
    json.raw(members_of(*probe.label));
    json.key("address");
    json.address(probe.address.value);
    json.member("mechanism", probe.mechanism);
    json.member("reason", probe.reason);
    json.end_object();
  }
  json.end_array();
}

void JsonSink::Impl::write_probes(const Probes& probes, size_t next) {
  while (next < probes.size()) {
    begin("probes", header);
    append_probes(probes, next);
    end();
  }
}

// "name", "object", "caller" and "kind", the same in all lines of a probe with the same caller.
const std::string& JsonSink::Impl::members_of(const decode::ProbeLabel& label, const std::string& caller) {
  std::string& text = labels[&label][caller];
  if (!text.empty()) return text;
  JsonWriter members(text);
  const auto demangled = options.demangle ? demangle(label.name) : std::nullopt;
  members.member("name", demangled ? *demangled : label.name);
  if (demangled) members.member("symbol", label.name);
  name_or_null(members, "object", label.defined_in.empty() ? label.object : label.defined_in);
  name_or_null(members, "caller", label.caller.empty() ? caller : label.caller);
  members.member("kind", kind_name(label.kind));
  return text;
}

template <typename Ended>
OpenCall JsonSink::Impl::take_call(const Ended& call) {
  if (auto known = open.leave(header.who, call.call)) return std::move(*known);
  OpenCall unknown{header, {}};
  unknown.header.time.realtime -= std::min(call.duration, header.time.realtime);
  unknown.entered.label = call.label;
  unknown.entered.depth = call.depth;
  unknown.entered.inherited = call.inherited;
  return unknown;
}

void JsonSink::Impl::write_call(const OpenCall& call, const decode::CallReturned* returned,
                                std::span<const decode::Argument> at_return, Outcome outcome) {
  begin("call", call.header);
  json.key("dur");
  if (returned != nullptr)
    json.number(returned->duration);
  else
    json.null();
  json.raw(members_of(*call.entered.label, call.entered.caller));
  json.member("depth", uint64_t{call.entered.depth});
  json.key("args");
  json.begin_array();
  auto append = [&](std::span<const decode::Argument> arguments) {
    for (const auto& argument : arguments)
      append_argument(json, argument.name, argument.type, argument.value, options.render);
  };
  append(call.entered.arguments);
  append(at_return);
  json.end_array();
  json.key("ret");
  if (returned != nullptr)
    append_argument(json, "", call.entered.label->result_type, returned->result, options.render);
  else
    json.null();
  if (returned != nullptr && returned->error) {
    json.key("errno");
    json.begin_object();
    json.member("number", *returned->error);
    const char* name = strerrorname_np(*returned->error);
    name_or_null(json, "name", name != nullptr ? name : "");
    json.end_object();
  }
  if (!call.entered.frames.empty()) {
    json.key("frames");
    json.begin_array();
    for (const auto& frame : call.entered.frames) append_frame(json, frame);
    json.end_array();
  }
  if (!outcome.word.empty()) json.member("outcome", outcome.word);
  if (!outcome.reason.empty()) json.member("reason", outcome.reason);
  if (call.entered.inherited) {
    json.key("inherited");
    json.boolean(true);
  }
  end();
}

void JsonSink::Impl::operator()(const decode::CallEntered& call) {
  if (!options.calls) return;
  if (call.label->instant)
    write_call({header, call}, nullptr, {}, {"instant", ""});
  else if (call.unseen_return)
    write_call({header, call}, nullptr, {}, {"unseen", *call.unseen_return});
  else
    open.enter(header, call);
}

void JsonSink::Impl::operator()(const decode::CallReturned& call) {
  if (!options.calls) return;
  write_call(take_call(call), &call, call.arguments, {});
}

void JsonSink::Impl::operator()(const decode::CallAbandoned& call) {
  if (!options.calls) return;
  write_call(take_call(call), nullptr, call.arguments, {call.still_open ? "open" : "no return", ""});
}

void JsonSink::Impl::operator()(const decode::SignalDelivered& signal) {
  if (!options.signals) return;
  begin("signal", header);
  json.member("number", signal.number);
  json.member("signal", signal_name(signal.number));
  end();
}

void JsonSink::Impl::operator()(const decode::Executed& exec) {
  begin("exec", header);
  json.member("path", exec.path);
  end();
}

void JsonSink::Impl::operator()(const decode::Exited& exit) {
  if (!options.exits) return;
  begin("exit", header);
  json.member("status", exit.status);
  end();
}

void JsonSink::Impl::operator()(const decode::Killed& death) {
  if (!options.exits) return;
  begin("exit", header);
  json.member("number", death.signal);
  json.member("signal", signal_name(death.signal));
  json.key("core");
  json.boolean(death.core_dumped);
  end();
}

void JsonSink::Impl::operator()(const decode::Loaded& load) {
  size_t next = 0;
  begin("load", header);
  json.member("object", load.object);
  json.key("bias");
  json.address(load.bias);
  json.key("main");
  json.boolean(load.main_program);
  if (started)
    append_probes(load.probes, next);
  else
    first_probes.insert(first_probes.end(), load.probes.begin(), load.probes.end());
  end();
  if (started) write_probes(load.probes, next);
}

void JsonSink::Impl::operator()(const decode::Unloaded& unload) {
  begin("unload", header);
  json.member("object", unload.object);
  end();
}

void JsonSink::Impl::operator()(const decode::ProbesArmed& armed) {
  if (started)
    write_probes(armed.probes, 0);
  else
    first_probes.insert(first_probes.end(), armed.probes.begin(), armed.probes.end());
}

void JsonSink::Impl::operator()(const decode::Forked& fork) {
  open.fork(header.who, fork);
  begin("fork", header);
  json.member("child", fork.child);
  json.key("followed");
  json.boolean(fork.followed);
  end();
}

void JsonSink::Impl::operator()(const decode::Lost& loss) {
  begin("lost", header);
  json.member("count", loss.count);
  json.member("what", loss.what);
  end();
}

JsonSink::JsonSink(Output& output, JsonOptions options)
    : impl_(std::make_unique<Impl>(output, std::move(options))) {}
JsonSink::~JsonSink() = default;

void JsonSink::take(const decode::Record& record) {
  impl_->header = record.header;
  const bool preparing = std::holds_alternative<decode::Loaded>(record.body) ||
                         std::holds_alternative<decode::ProbesArmed>(record.body) ||
                         std::holds_alternative<decode::ThreadStarted>(record.body);
  if (!impl_->started) {
    impl_->pids.insert(record.header.who.pid);
    if (!preparing) impl_->start();
  }
  std::visit(*impl_, record.body);
}

void JsonSink::end() {
  if (!impl_->started && !impl_->pids.empty()) impl_->start();
  for (const OpenCall& call : impl_->open.take_all()) impl_->write_call(call, nullptr, {}, {"open", ""});
}

}  // namespace rtrace::sink
