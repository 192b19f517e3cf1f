#include "rtrace/decode/call_decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "call_state.h"
#include "format.h"
#include "guess.h"
#include "scalars.h"
#include "shapes.h"

namespace rtrace::decode {
namespace {

using proto::Type;

bool has_failed(const Value& value) {
  if (value.kind == Value::Kind::nil) return true;
  bool number = value.kind == Value::Kind::integer || value.kind == Value::Kind::address ||
                value.kind == Value::Kind::unreadable || value.kind == Value::Kind::enumeration;
  uint64_t minus_one = value.size >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * value.size)) - 1;
  return number && (value.raw & minus_one) == minus_one;
}

}  // namespace

struct CallDecoder::Impl {
  std::shared_ptr<const proto::Prototype> prototype;  // shares what its types refer to by name
  Limits limits;
  std::optional<Layout> layout;  // none: guess
  agent::CapturePlan at_entry;
  agent::CapturePlan at_return;

  Impl(std::shared_ptr<const proto::Prototype> given, Limits given_limits)
      : prototype(std::move(given)), limits(given_limits) {
    if (prototype == nullptr) {
      at_entry = plan_of_guess(limits);
      return;
    }
    layout.emplace(*prototype);
    at_entry = plan_at_entry(*layout, limits);
    at_return = plan_at_return(*layout, limits);
  }

  bool all_at_entry() const { return !layout || layout->all_at_entry(); }

  static Argument argument(const Layout::Parameter& parameter, Value value) {
    return {parameter.name, parameter.spelling, std::move(value)};
  }

  static Value decode_argument(const Type& type, const Location& location, const CallState& state,
                               ValueDecoder& decoder) {
    CallState::Storage storage;
    return decoder.decode(type, state.argument_place(location, storage));
  }

  // What the call was to fill, and has not.
  static Value decode_unfilled(const Type& type, const Location& location, const CallState& state,
                               ValueDecoder& decoder) {
    CallState::Storage storage;
    return decoder.unfilled(type, state.argument_place(location, storage));
  }

  // With what the parameter held at entry, where that is carried, else nullptr.
  template <typename Visit>
  void for_each_at_return(const Carried& carried, Visit visit) const {
    size_t next = 0;
    for (size_t i = layout->first_at_return; i < layout->parameters.size(); ++i) {
      const Layout::Parameter& parameter = layout->parameters[i];
      const bool is_carried =
          parameter.at_entry && carried.before != nullptr && next < carried.before->size();
      visit(parameter, is_carried ? &(*carried.before)[next++] : nullptr);
    }
  }

  // The arguments behind a format, of the types that its text says.
  void add_further(const Memory& memory, CallState& state, std::vector<Argument>& arguments) const {
    const Layout::Parameter& parameter = layout->parameters.back();
    CallState::Storage storage;
    Place place = state.argument_place(parameter.location, storage);
    std::array<std::byte, 8> slot{};
    auto bytes = place.bytes;
    if (bytes.size() < slot.size() && place.address)
      bytes = std::span(slot).first(memory.read(place.address, slot));
    if (bytes.size() < slot.size()) return;
    VirtAddr address{extend(bytes, slot.size(), false)};
    std::string text = format_text(memory, *parameter.type, address);
    std::vector<bool> filled;
    std::vector<proto::TypeRef> types;
    if (layout->scans) {
      ScanArguments scanned = scan_arguments(text, state.result().value_or(0));
      types = std::move(scanned.types);
      filled = std::move(scanned.filled);
    } else {
      types = format_arguments(text, layout->parameters.size());
      filled.assign(types.size(), true);
    }
    ArgumentAllocator allocator = layout->behind;
    std::vector<Location> locations;
    for (const proto::TypeRef& type : types) locations.push_back(allocator.next(*type));
    state.set_further(locations);
    ValueDecoder decoder(memory, limits, state);
    CallState::Storage bytes_of_one;
    for (size_t i = 0; i < types.size(); ++i) {
      const Place at = state.argument_place(locations[i], bytes_of_one);
      arguments.push_back({{},
                           proto::spell(*types[i]),
                           filled[i] ? decoder.decode(*types[i], at) : decoder.unfilled(*types[i], at)});
    }
    state.set_further({});
  }

  static std::string format_text(const Memory& memory, const Type& type, VirtAddr address) {
    const uint64_t size = type.inner->size;
    if (size == 1) {
      auto text = memory.read_c_string(address, kMaxFormat);
      return text ? std::move(text->text) : std::string();
    }
    std::vector<std::byte> wide(kMaxFormat * size);
    size_t got = memory.read(address, wide);
    return wide_text(std::span(wide).first(got), size, kMaxFormat).utf8;
  }

  Value result(const CallState& state, ValueDecoder& decoder, const arch::Regs& exit,
               std::optional<int> error) const {
    CallState::Storage storage;
    const Type& type = *layout->result;
    Value value = decoder.decode(type, state.result_place(storage));
    // getc and its kin return an int that holds a character or -1.
    if (value.kind == Value::Kind::character && !prototype->narrow_char &&
        static_cast<uint32_t>(exit.raw.rax) == ~uint32_t{0})
      value.is_eof = true;
    // An errno of 0 was set by the caller, to tell a -1 that is a value from one that is a failure.
    if (type.kind != Type::Kind::error || error.value_or(0) == 0 || !has_failed(value)) return value;
    // MAP_FAILED is -1, cast.
    if (value.kind == Value::Kind::address && value.raw == ~uint64_t{0}) {
      value.kind = Value::Kind::integer;
      value.is_signed = true;
      value.radix = Value::Radix::decimal;
    }
    Value failure;
    failure.kind = Value::Kind::error_result;
    failure.raw = static_cast<uint64_t>(*error);
    failure.text = error_text(*error);
    failure.members.push_back(std::move(value));
    return failure;
  }
};

CallDecoder::CallDecoder(std::shared_ptr<const proto::Prototype> prototype, Limits limits)
    : impl_(std::make_unique<Impl>(std::move(prototype), limits)) {}
CallDecoder::~CallDecoder() = default;
CallDecoder::CallDecoder(CallDecoder&&) noexcept = default;
CallDecoder& CallDecoder::operator=(CallDecoder&&) noexcept = default;

const agent::CapturePlan& CallDecoder::at_entry() const {
  return impl_->at_entry;
}
const agent::CapturePlan& CallDecoder::at_return() const {
  return impl_->at_return;
}
CallDecoder::Recorded CallDecoder::recorded() const {
  if (!impl_->layout || (impl_->at_entry.deep == 0 && impl_->at_return.deep == 0))
    return {impl_->at_entry, impl_->at_return, {}};
  Shapes shapes(impl_->limits);
  Recorded made{plan_at_entry(*impl_->layout, impl_->limits, &shapes),
                plan_at_return(*impl_->layout, impl_->limits, &shapes),
                {}};
  for (agent::CapturePlan* plan : {&made.at_entry, &made.at_return}) shapes.settle(*plan);
  made.shapes = shapes.table();
  return made;
}
// A result such as strncpy's, `string[arg3]`, depends on what the entry was, too.
bool CallDecoder::all_at_entry() const {
  return impl_->all_at_entry() && !(impl_->layout && impl_->layout->result_refers);
}
bool CallDecoder::needs_vector_registers() const {
  return impl_->layout && impl_->layout->vectors;
}
bool CallDecoder::has_wide_arguments() const {
  return impl_->layout &&
         std::ranges::any_of(impl_->layout->parameters,
                             [](const Layout::Parameter& parameter) { return parameter.location.is_wide(); });
}
bool CallDecoder::has_structs_in_memory() const {
  const auto lies_there = [](const Layout::Parameter& parameter) {
    return parameter.location.where == Location::Where::stack &&
           (parameter.type->kind == Type::Kind::structure || parameter.type->kind == Type::Kind::array ||
            parameter.type->kind == Type::Kind::container);
  };
  return impl_->layout && std::ranges::any_of(impl_->layout->parameters, lies_there);
}
bool CallDecoder::has_wide_result() const {
  return impl_->layout && impl_->layout->result_location.is_wide();
}
unsigned CallDecoder::integer_registers() const {
  constexpr auto kAll = static_cast<unsigned>(arch::kIntegerArguments);
  return impl_->layout ? std::min(impl_->layout->behind.integer_registers(), kAll) : kAll;
}
uint32_t CallDecoder::bytes_in_memory() const {
  return impl_->layout ? impl_->layout->behind.stack_bytes() : 0;
}
uint64_t CallDecoder::alignment_in_memory() const {
  uint64_t strictest = 1;
  if (!impl_->layout) return strictest;
  for (const Layout::Parameter& parameter : impl_->layout->parameters)
    if (parameter.location.where == Location::Where::stack)
      strictest = std::max(strictest, parameter.type->align);
  return strictest;
}
std::optional<CallDecoder::Format> CallDecoder::format() const {
  if (!impl_->layout || !impl_->layout->has_format) return std::nullopt;
  const Layout::Parameter& format = impl_->layout->parameters.back();
  if (!format.location.in_one_integer_register()) return std::nullopt;
  const ArgumentAllocator& behind = impl_->layout->behind;
  return Format{static_cast<uint8_t>(format.location.pieces[0].index + 1),
                static_cast<uint8_t>(behind.vector_registers()),
                static_cast<uint8_t>(format.type->inner->size), impl_->layout->scans};
}
bool CallDecoder::result_takes_rdx() const {
  return impl_->layout && impl_->layout->result_location.uses_integer(1);
}
bool CallDecoder::needs_errno() const {
  return impl_->layout && impl_->layout->result->kind == Type::Kind::error;
}

bool CallDecoder::has_descriptors() const {
  return impl_->layout && impl_->layout->descriptors;
}

// A success that looks like a failure costs a read too much, nothing else.
bool CallDecoder::needs_errno(const arch::Regs& exit) const {
  if (!needs_errno()) return false;
  constexpr uint64_t kLowByte = 0xff;
  if ((exit.raw.rax & kLowByte) == kLowByte) return true;
  return exit.raw.rax == 0 && impl_->layout->result->inner->kind != Type::Kind::integer;
}

std::vector<std::string> CallDecoder::parameter_names() const {
  std::vector<std::string> names;
  if (!impl_->layout) return names;
  for (const Layout::Parameter& parameter : impl_->layout->parameters) names.push_back(parameter.name);
  return names;
}
std::string CallDecoder::result_type() const {
  return impl_->layout ? proto::spell(*impl_->layout->result) : kGuessedType;
}

bool CallDecoder::may_have(size_t arguments) const {
  if (!impl_->layout) return arguments <= kGuessed;
  return impl_->layout->has_format || arguments <= impl_->layout->parameters.size();
}

bool CallDecoder::has_key(std::string_view key) const {
  return impl_->layout && impl_->layout->has_key(key);
}

CallDecoder::Entered CallDecoder::enter(const arch::Regs& regs, const Memory& memory,
                                        const arch::VectorRegs* vectors) const {
  Entered entered;
  if (!impl_->layout) {
    entered.arguments = guess_arguments(regs, memory, impl_->limits);
    return entered;
  }
  const Layout& layout = *impl_->layout;
  CallState state(layout, memory, regs, vectors);
  ValueDecoder decoder(memory, impl_->limits, state);
  entered.arguments.reserve(layout.parameters.size());
  for (size_t i = 0; i < layout.parameters.size(); ++i) {
    const Layout::Parameter& parameter = layout.parameters[i];
    if (!parameter.at_entry) continue;
    Value value = Impl::decode_argument(*parameter.type, parameter.location, state, decoder);
    if (i < layout.first_at_return)
      entered.arguments.push_back(Impl::argument(parameter, std::move(value)));
    else
      entered.before.push_back(std::move(value));
  }
  entered.more_at_return = !impl_->all_at_entry();
  if (layout.has_format && !entered.more_at_return) impl_->add_further(memory, state, entered.arguments);
  return entered;
}

CallDecoder::Returned CallDecoder::leave(const arch::Regs& entry, const arch::Regs& exit,
                                         const Memory& memory, std::span<const std::byte> entry_stack,
                                         const Carried& carried) const {
  Returned returned;
  if (!impl_->layout) {
    returned.result = guess_result(exit);
    return returned;
  }
  const Layout& layout = *impl_->layout;
  CallState state(layout, memory, entry, carried.vectors_at_entry);
  state.at_return(exit, carried.vectors_at_exit, entry_stack);
  ValueDecoder decoder(memory, impl_->limits, state);
  returned.result = impl_->result(state, decoder, exit, carried.error_number);
  returned.failed = carried.failed || (layout.result->kind == Type::Kind::error &&
                                       (returned.result.kind == Value::Kind::error_result ||
                                        (!carried.error_number && has_failed(returned.result))));
  impl_->for_each_at_return(carried, [&](const Layout::Parameter& parameter, const Value* before) {
    Value value;
    if (before != nullptr && !parameter.at_return)
      value = *before;
    else if (returned.failed && !parameter.at_entry)
      value = Impl::decode_unfilled(*parameter.type, parameter.location, state, decoder);
    else
      value = Impl::decode_argument(*parameter.type, parameter.location, state, decoder);
    if (before != nullptr && parameter.at_return) value = changed(*before, std::move(value));
    returned.arguments.push_back(Impl::argument(parameter, std::move(value)));
  });
  if (layout.has_format && !impl_->all_at_entry()) impl_->add_further(memory, state, returned.arguments);
  return returned;
}

std::vector<Argument> CallDecoder::abandon(const arch::Regs& entry, std::span<const std::byte> entry_stack,
                                           const Carried& carried) const {
  std::vector<Argument> arguments;
  if (!impl_->layout) return arguments;
  const BufferMemory none;
  CallState state(*impl_->layout, none, entry, carried.vectors_at_entry);
  state.after_entry(entry_stack);
  ValueDecoder decoder(none, impl_->limits, state);
  impl_->for_each_at_return(carried, [&](const Layout::Parameter& parameter, const Value* before) {
    arguments.push_back(Impl::argument(
        parameter, before != nullptr
                       ? *before
                       : Impl::decode_unfilled(*parameter.type, parameter.location, state, decoder)));
  });
  return arguments;
}

}  // namespace rtrace::decode
