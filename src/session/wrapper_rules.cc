#include "wrapper_rules.h"

#include <algorithm>

#include "leaf_names.h"
#include "rtrace/agent/recorder.h"
#include "rtrace/decode/call_decoder.h"
#include "rtrace/session/borrowed_frames.h"
#include "sigtrap.h"
#include "variant_name.h"

namespace rtrace::session {
namespace {

using proto::Type;

// As many bytes as an argument list may have in memory, where nobody knows better.
constexpr uint16_t kMostArguments = 256;
constexpr uint64_t kStackAlignment = 16;

bool is_leaf(const std::string& name) {
  return is_leaf_name(name) || std::ranges::any_of(implemented_by(name), is_leaf_name);
}

bool is_variadic(const proto::Prototype& prototype) {
  return !prototype.params.empty() && prototype.params.back().type->kind == Type::Kind::format;
}

// The probe's own decoder knows no arguments where none are shown.
decode::CallDecoder whole_decoder(const Probe& probe) {
  return {probe.known, {}};
}

// As decode knows failures: of a result that sets errno.
agent::Failure failure_of(const Type& result) {
  if (result.kind != Type::Kind::error) return agent::Failure::none;
  if (result.inner->kind == Type::Kind::pointer || result.inner->kind == Type::Kind::string)
    return agent::Failure::null;
  return result.inner->size == sizeof(uint64_t) ? agent::Failure::minus_one_64 : agent::Failure::minus_one_32;
}

// Besides values in registers.
bool has_captures(const agent::CapturePlan& plan) {
  return plan.count > 0 || plan.deep != 0;
}

// It lies in the object that calls.
bool is_stub(const plan::ProbePoint& point) {
  return point.kind == plan::ProbeKind::plt && !point.only_from_caller;
}

// What the wrapper hands on. Where code serves `...` that has no format all further arguments are in
// registers.
agent::Passed passed_by(const decode::CallDecoder& decoder) {
  agent::Passed passed{.bytes = static_cast<uint16_t>(decoder.bytes_in_memory())};
  const auto format = decoder.format();
  if (!format) return passed;
  passed.unit = format->unit & 7;
  passed.scans = format->scans ? 1 : 0;
  passed.integers = format->integer_registers & 15;
  passed.vectors = format->vector_registers;
  return passed;
}

std::string why_not_borrowing(const plan::ProbePoint& point, const elf::LoadedObject& defined_in) {
  const std::string definer = is_stub(point) ? point.prototype_object : defined_in.name();
  if (definer.empty()) return "which function it calls is not known";
  if (definer.starts_with("ld-")) return "it is the dynamic linker's";
  if (std::string why = why_returns_itself(point.name); !why.empty()) return why;
  for (const std::string& alias : point.aliases)
    if (std::string why = why_returns_itself(alias); !why.empty()) return why;
  return {};
}

}  // namespace

agent::Mode recording_of(const Options& options) {
  const bool selects = options.slower > 0 || !options.where.empty();
  return options.call_lines || selects ? agent::Mode::record : agent::Mode::count;
}

std::string why_no_wrappers(const Options& options) {
  if (options.frames > 0 && options.call_lines) return "a backtrace needs its thread to stand (-w)";
  if (options.ltrace_compat) return "threads may have to be passed by (--ltrace-compat)";
  return {};
}

std::string why_not_wrapped(const plan::ProbePoint& point, const Probe& probe,
                            const elf::LoadedObject& defined_in, const Options& options) {
  if (point.kind == plan::ProbeKind::sdt || point.tail_jump) return "no call begins there";
  if (point.no_return) return "it is jumped to, and does not return";
  if (defined_in.path == tracee::kVdso) return "it is the kernel's (vdso)";
  if (!point.clone && probe.known == nullptr && !options.call_lines && options.where.empty() &&
      options.mechanism == Options::Mechanism::automatic)
    return "no file has a prototype of it; debug information, if any, -c reads with --mechanism=trampoline "
           "only";
  if (point.clone || probe.known == nullptr)
    return "no prototype is known, and so not how many of its arguments lie in memory";
  const decode::CallDecoder decoder = whole_decoder(probe);
  if (decoder.bytes_in_memory() > kMostArguments) return "too many of its arguments lie in memory";
  if (decoder.alignment_in_memory() > kStackAlignment)
    return "an argument in memory is aligned more strictly than the stack";
  if (is_variadic(*probe.known) && !decoder.format())
    return "how many arguments it has is told by a format in memory";
  if (needs_borrowed_frame(point, defined_in)) return why_not_borrowing(point, defined_in);
  return {};
}

bool needs_borrowed_frame(const plan::ProbePoint& point, const elf::LoadedObject& defined_in) {
  const bool leaf = is_c_library(is_stub(point) ? point.prototype_object : defined_in.name()) &&
                    (is_leaf(point.name) || std::ranges::any_of(point.aliases, is_leaf));
  return !leaf;
}

ArgumentArea arguments_in_memory(const plan::ProbePoint& point, const Probe& probe) {
  if (is_variadic(*probe.known)) return {kMostArguments, true};
  const auto by_form = [&](const std::string& name) {
    return is_variadic_by_form(name, point.prototype_object);
  };
  const bool further = by_form(point.name) || std::ranges::any_of(point.aliases, by_form);
  const decode::CallDecoder decoder = whole_decoder(probe);
  const auto known = static_cast<uint16_t>(decoder.bytes_in_memory());
  const uint16_t bytes = further ? std::max(known, kFurtherArguments) : known;
  return {bytes, further || decoder.has_structs_in_memory()};
}

std::string why_not_told(const plan::ProbePoint& point) {
  if (point.slot && changes_masks(point.name)) return "the breakpoint serves something else too";
  return point.only_from_caller && !point.slot ? "whose call it is must be asked at each (no stub serves)"
                                               : std::string();
}

bool sets_errno(const Probe& probe) {
  return probe.known->returns->kind == Type::Kind::error;
}

mech::Trampolines::Function wrapped_function(const plan::ProbePoint& point, const Probe& probe,
                                             const Options& options, std::optional<int64_t> errno_offset) {
  mech::Trampolines::Function function;
  agent::FunctionPlan& plan = function.plan;
  function.entry = point.address;
  plan.passed = passed_by(whole_decoder(probe));
  plan.failure = failure_of(*probe.known->returns);
  if (plan.failure != agent::Failure::none && errno_offset) plan.errno_offset = *errno_offset;
  plan.entry_words = agent::kEntryWords;
  if (recording_of(options) != agent::Mode::record) return function;
  const decode::CallDecoder& decoder = *probe.decoder;
  if (!is_variadic(*probe.known))
    plan.entry_words = static_cast<uint16_t>(agent::kLeastEntryWords + decoder.integer_registers());
  decode::CallDecoder::Recorded recorded = decoder.recorded();
  plan.at_entry = recorded.at_entry;
  plan.at_return = recorded.at_return;
  function.shapes = std::move(recorded.shapes);
  // What a descriptor is must be asked while its thread stands, as the registers that no wrapper saves.
  const bool descriptors = options.descriptors && decoder.has_descriptors();
  if (descriptors || decoder.has_wide_arguments()) plan.at_entry.deep = agent::CapturePlan::kOpen;
  if (descriptors || decoder.has_wide_result()) plan.at_return.deep = agent::CapturePlan::kOpen;
  plan.shown_bytes = plan.at_entry.stack_bytes;
  unsigned flags = 0;
  if (has_captures(plan.at_entry)) flags |= agent::FunctionPlan::kCapturesAtEntry;
  if (has_captures(plan.at_return)) flags |= agent::FunctionPlan::kCapturesAtReturn;
  if (decoder.needs_vector_registers()) flags |= agent::FunctionPlan::kVectors;
  if (decoder.result_takes_rdx()) flags |= agent::FunctionPlan::kSecondResult;
  plan.flags = static_cast<uint8_t>(flags);
  return function;
}

}  // namespace rtrace::session
