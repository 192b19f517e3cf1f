#include "layout.h"

#include <algorithm>
#include <limits>

namespace rtrace::decode {
namespace {

using agent::Capture;
using agent::CapturePlan;
using proto::Length;
using proto::Type;
using proto::TypeRef;

// What one capture may hold of a struct or an array; larger ones are read while the thread is stopped.
constexpr uint64_t kMaxFixed = 4096;
constexpr uint64_t kLongestAddress = 128;  // sockaddr_storage

// True where decoding a value of that type may follow a pointer, or needs a length that lies in memory.
bool reaches_further(const Type& type, unsigned depth = 16) {
  if (depth == 0) return true;
  switch (type.kind) {
    case Type::Kind::pointer:
      return type.inner->kind != Type::Kind::nothing || type.lens == proto::Lens::guess;
    case Type::Kind::string:
      // One in place whose length is another member's lies behind what the struct's size covers.
      return !type.in_place || type.length.kind != Length::Kind::fixed;
    case Type::Kind::format:
    case Type::Kind::buffer:
    case Type::Kind::container:
    case Type::Kind::socket_address:
      return true;
    case Type::Kind::choice:
      return reaches_further(*type.inner, depth - 1) ||
             std::any_of(type.members.begin(), type.members.end(),
                         [depth](const proto::Member& m) { return reaches_further(*m.type, depth - 1); });
    case Type::Kind::named: {
      // One that is not defined yet may be by the time of a call.
      auto target = type.target.lock();
      return target == nullptr || reaches_further(*target, depth - 1);
    }
    case Type::Kind::array:
      return type.length.kind != Length::Kind::fixed || reaches_further(*type.inner, depth - 1);
    case Type::Kind::error:
      return reaches_further(*type.inner, depth - 1);
    case Type::Kind::structure:
      return std::any_of(type.members.begin(), type.members.end(),
                         [depth](const proto::Member& m) { return reaches_further(*m.type, depth - 1); });
    default:
      return false;
  }
}

// True where a value of that type is, holds or points at one that is wanted. Types may form a circle; what is
// deeper than this is none's business at a call.
template <typename Predicate>
bool holds(const Type& type, const Predicate& wanted, unsigned depth = 8) {
  if (depth == 0) return false;
  if (wanted(type)) return true;
  if (type.kind == Type::Kind::named) {
    auto target = type.target.lock();
    return target != nullptr && holds(*target, wanted, depth - 1);
  }
  if (type.inner != nullptr && holds(*type.inner, wanted, depth - 1)) return true;
  return std::any_of(type.members.begin(), type.members.end(),
                     [&](const proto::Member& m) { return holds(*m.type, wanted, depth - 1); });
}

bool is_descriptor(const Type& type) {
  return type.kind == Type::Kind::descriptor;
}

bool refers_to_arguments(const Type& type) {
  return type.length.kind == Length::Kind::argument || type.length.factor != 0 ||
         (type.inner != nullptr && refers_to_arguments(*type.inner)) ||
         std::any_of(type.members.begin(), type.members.end(),
                     [](const proto::Member& member) { return refers_to_arguments(*member.type); });
}

class Planner {
 public:
  Planner(const Layout& layout, const Limits& limits) : layout_(layout), limits_(limits) {}

  void argument(const Layout::Parameter& parameter) {
    const Location& at = parameter.location;
    if (at.in_one_integer_register()) {
      value({Capture::Source::integer_register, Capture::Length::fixed, at.pieces[0].index, 0, 1, 0},
            *parameter.type);
    } else if (at.where == Location::Where::stack && at.size <= 8 && at.stack_offset / 8 <= 255) {
      value({Capture::Source::stack_slot, Capture::Length::fixed, static_cast<uint8_t>(at.stack_offset / 8),
             0, 1, 0},
            *parameter.type);
    } else if (reaches_further(*parameter.type)) {
      plan_.deep = 1;
    }
  }

  void result() {
    Capture capture{Capture::Source::result, Capture::Length::fixed, 0, 0, 1, 0};
    const Location& at = layout_.result_location;
    if (at.where == Location::Where::indirect) {
      fixed(capture, at.size);
      if (reaches_further(*layout_.result)) plan_.deep = 1;
    } else if (at.in_one_integer_register()) {
      value(capture, *layout_.result);
    } else if (reaches_further(*layout_.result)) {
      plan_.deep = 1;
    }
  }

  void stack(uint32_t bytes) {
    plan_.stack_bytes =
        static_cast<uint16_t>(std::min<uint32_t>(bytes, std::numeric_limits<uint16_t>::max()));
  }
  void deep() { plan_.deep = 1; }
  const CapturePlan& plan() const { return plan_; }

 private:
  void add(const Capture& capture) {
    if (plan_.count == agent::kMaxCaptures)
      plan_.deep = 1;
    else
      plan_.captures[plan_.count++] = capture;
  }

  void fixed(Capture capture, uint64_t bytes) {
    if (bytes > kMaxFixed) plan_.deep = 1;
    capture.length = Capture::Length::fixed;
    capture.bound = static_cast<uint32_t>(std::min(bytes, kMaxFixed));
    if (capture.bound > 0) add(capture);
  }

  // What a value of that type, which sits in a register or a stack slot, points at.
  void value(const Capture& capture, const Type& type) {
    switch (type.kind) {
      case Type::Kind::error:
        return value(capture, *type.inner);
      case Type::Kind::string:
        return text(capture, type);
      case Type::Kind::format:
        plan_.deep = 1;
        return text(capture, type);
      case Type::Kind::buffer:
        return elements(capture, type.length, 1, limits_.string + 1);
      case Type::Kind::pointer:
        if (type.lens == proto::Lens::guess && type.inner->kind == Type::Kind::nothing) return guess(capture);
        return pointee(capture, *type.inner);
      case Type::Kind::socket_address:
        return elements(capture, type.length, 1, kLongestAddress);
      case Type::Kind::structure:
      case Type::Kind::choice:
        if (reaches_further(type)) plan_.deep = 1;
        return;
      default:
        return;
    }
  }

  // Text may stand there. An unterminated one is told by the byte behind what is shown.
  void guess(Capture capture) {
    capture.length = Capture::Length::string;
    capture.bound = std::max(bounded(limits_.string + 1), 4U);
    add(capture);
  }

  void text(Capture capture, const Type& type) {
    Length length = type.length;
    if (length.kind == Length::Kind::argument) {
      if (counter(length.value) == nullptr) plan_.deep = 1;
      // It ends at its NUL in any case, and only there where the argument is negative.
      length = {};
    }
    if (type.inner->size != 1) return elements(capture, length, type.inner->size, limits_.string + 1);
    capture.length = Capture::Length::string;
    if (length.kind == Length::Kind::result) return elements(capture, length, 1, limits_.string + 1);
    uint64_t most = length.kind == Length::Kind::fixed ? length.value : limits_.string + 1;
    capture.bound = bounded(std::min<uint64_t>(most, limits_.string + 1));
    if (capture.bound > 0) add(capture);
  }

  void pointee(const Capture& capture, const Type& type) {
    if (type.kind == Type::Kind::nothing) return;
    if (type.kind == Type::Kind::named) {
      auto target = type.target.lock();
      if (target == nullptr)
        plan_.deep = 1;
      else
        pointee(capture, *target);
      return;
    }
    if (type.kind == Type::Kind::array) {
      if (reaches_further(*type.inner)) plan_.deep = 1;
      return elements(capture, type.length, type.inner->size, limits_.array + 1);
    }
    if (reaches_further(type)) plan_.deep = 1;
    fixed(capture, type.size);
  }

  static uint32_t bounded(uint64_t bytes) {
    return static_cast<uint32_t>(std::min<uint64_t>(bytes, std::numeric_limits<uint32_t>::max()));
  }

  // `most` elements of `size` bytes at the most, fewer where a length says so.
  void elements(Capture capture, const Length& length, uint64_t size, uint64_t most) {
    if (length.kind == Length::Kind::fixed) most = std::min<uint64_t>(most, length.value);
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(size, most, &bytes)) bytes = std::numeric_limits<uint32_t>::max();
    capture.bound = bounded(bytes);
    if (length.kind == Length::Kind::member || length.factor != 0 ||
        size > std::numeric_limits<uint16_t>::max())
      plan_.deep = 1;
    else if (length.kind == Length::Kind::argument)
      counted(capture, length.value, size);
    else if (length.kind == Length::Kind::result)
      counted_by_result(capture, size);
    if (capture.bound > 0) add(capture);
  }

  // Where the argument lies that counts; a count behind a pointer, or on the stack, is found by the decoder
  // only.
  const Location* counter(uint64_t number) const {
    if (number < 1 || number > layout_.parameters.size()) return nullptr;
    const Layout::Parameter& parameter = layout_.parameters[number - 1];
    const bool at_hand =
        parameter.type->kind != Type::Kind::pointer && parameter.location.in_one_integer_register();
    return at_hand ? &parameter.location : nullptr;
  }

  void counted(Capture& capture, uint64_t number, uint64_t size) {
    const Location* location = counter(number);
    if (location == nullptr) {
      plan_.deep = 1;
      return;
    }
    capture.length = Capture::Length::argument;
    capture.length_index = location->pieces[0].index;
    capture.scale = static_cast<uint16_t>(size);
  }

  static void counted_by_result(Capture& capture, uint64_t size) {
    capture.length = Capture::Length::result;
    capture.scale = static_cast<uint16_t>(size);
  }

  const Layout& layout_;
  const Limits& limits_;
  CapturePlan plan_;
};

}  // namespace

Layout::Layout(const proto::Prototype& prototype)
    : first_at_return(std::min(prototype.first_at_return, prototype.params.size())),
      result(prototype.returns ? prototype.returns : proto::make_void()) {
  TypeRef complete = proto::resolve(result);
  if (complete == nullptr) complete = proto::make_void();
  result = complete;
  result_location = location_of_result(*result);
  vectors = result_location.uses_vectors();
  result_refers = refers_to_arguments(*result);
  descriptors = holds(*result, is_descriptor);
  if (result_location.where == Location::Where::indirect) behind.take_hidden_pointer();
  for (const proto::Param& param : prototype.params) {
    Parameter made{param.name, proto::spell(*param.type), decayed(param.type), {}, true, false};
    if (auto target = proto::resolve(made.type)) made.type = target;
    made.location = behind.next(*made.type);
    vectors |= made.location.uses_vectors();
    descriptors |= holds(*made.type, is_descriptor);
    made.at_return = parameters.size() >= first_at_return && param.direction != proto::Direction::in;
    made.at_entry = param.direction != proto::Direction::out;
    parameters.push_back(std::move(made));
  }
  has_format = !parameters.empty() && parameters.back().type->kind == Type::Kind::format;
  scans = has_format && parameters.back().type->scans;
  vectors |= has_format;
}

bool Layout::has_key(std::string_view key) const {
  const auto keyed = [key](const Type& type) {
    return (type.kind == Type::Kind::enumeration || type.kind == Type::Kind::flags) &&
           std::ranges::find(type.enumerators, key, &proto::Enumerator::name) != type.enumerators.end();
  };
  return holds(*result, keyed) ||
         std::ranges::any_of(parameters, [&](const Parameter& one) { return holds(*one.type, keyed); });
}

CapturePlan plan_at_entry(const Layout& layout, const Limits& limits) {
  Planner planner(layout, limits);
  for (const Layout::Parameter& parameter : layout.parameters)
    if (parameter.at_entry) planner.argument(parameter);
  uint32_t stack = layout.behind.stack_bytes();
  planner.stack(layout.has_format ? stack + kFormatStack : stack);
  return planner.plan();
}

CapturePlan plan_at_return(const Layout& layout, const Limits& limits) {
  Planner planner(layout, limits);
  for (const Layout::Parameter& parameter : layout.parameters)
    if (parameter.at_return) planner.argument(parameter);
  planner.result();
  return planner.plan();
}

CapturePlan plan_of_guess(const Limits& limits) {
  CapturePlan plan;
  auto bound =
      static_cast<uint32_t>(std::min<uint64_t>(limits.string + 1, std::numeric_limits<uint32_t>::max()));
  for (uint8_t i = 0; i < 4; ++i)
    plan.captures[plan.count++] = {
        Capture::Source::integer_register, Capture::Length::string, i, 0, 1, std::max(bound, 4U)};
  return plan;
}

}  // namespace rtrace::decode
