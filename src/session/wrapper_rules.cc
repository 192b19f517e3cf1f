#include "wrapper_rules.h"

#include <algorithm>

#include "leaf_names.h"
#include "rtrace/agent/recorder.h"
#include "rtrace/decode/call_decoder.h"

namespace rtrace::session {
namespace {

using proto::Type;

// As many bytes as an argument list may have in memory, where nobody knows better.
constexpr uint16_t kMostArguments = 256;

bool is_c_library(const elf::LoadedObject& object) {
  const std::string name = object.name();
  for (const char* known : {"libc.so.", "libm.so.", "libmvec.so.", "libc.musl-"})
    if (name.starts_with(known)) return true;
  return name == "libc.so";
}

bool is_variadic(const proto::Prototype& prototype) {
  return !prototype.params.empty() && prototype.params.back().type->kind == Type::Kind::format;
}

// What the caller has put into memory for it.
uint16_t bytes_passed(const std::shared_ptr<const proto::Prototype>& prototype) {
  if (is_variadic(*prototype)) return kMostArguments;
  const decode::CallDecoder layout(prototype, {});
  return static_cast<uint16_t>((layout.at_entry().stack_bytes + 15) / 16 * 16);
}

// As decode knows failures: of a result that sets errno.
agent::Failure failure_of(const Type& result) {
  if (result.kind != Type::Kind::error) return agent::Failure::none;
  if (result.inner->kind == Type::Kind::pointer || result.inner->kind == Type::Kind::string)
    return agent::Failure::null;
  return result.inner->size == sizeof(uint64_t) ? agent::Failure::minus_one_64 : agent::Failure::minus_one_32;
}

}  // namespace

std::string why_no_wrappers(const Options& options) {
  if (!options.summary || options.call_lines) return "trampolines only count so far (-c)";
  if (options.slower > 0 || !options.where.empty())
    return "trampolines do not select calls (--slower, --where)";
  if (options.follow) return "children are followed (-f)";
  if (options.ltrace_compat) return "threads may have to be passed by (--ltrace-compat)";
  return {};
}

std::string why_not_wrapped(const plan::ProbePoint& point, const Probe& probe,
                            const elf::LoadedObject& defined_in) {
  if (point.kind != plan::ProbeKind::entry || point.only_from_caller || point.tail_jump)
    return "it is a place of calls, and not a function's entry";
  if (point.no_return) return "it is jumped to, and does not return";
  if (point.clone || probe.known == nullptr)
    return "no prototype is known, and so not how many of its arguments lie in memory";
  const bool leaf = is_c_library(defined_in) &&
                    (is_leaf_name(point.name) || std::ranges::any_of(point.aliases, is_leaf_name));
  if (!leaf)
    return "nothing says that it calls nobody back, lets no exception pass and is no cancellation point";
  if (bytes_passed(probe.known) > kMostArguments) return "too many of its arguments lie in memory";
  return {};
}

mech::Trampolines::Function counted_function(VirtAddr entry, const Probe& probe,
                                             std::optional<int64_t> errno_offset) {
  mech::Trampolines::Function function;
  function.entry = entry;
  function.plan.passed_bytes = bytes_passed(probe.known);
  function.plan.failure = failure_of(*probe.known->returns);
  if (function.plan.failure != agent::Failure::none && errno_offset)
    function.plan.errno_offset = *errno_offset;
  return function;
}

}  // namespace rtrace::session
