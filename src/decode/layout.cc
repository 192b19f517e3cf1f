#include "layout.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "shapes.h"

namespace rtrace::decode {
namespace {

using agent::Capture;
using agent::CapturePlan;
using proto::Length;
using proto::Type;
using proto::TypeRef;

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
  enum class Side : uint8_t { entry, exit };

  Planner(const Layout& layout, const Limits& limits, Shapes* shapes, Side side)
      : layout_(layout), limits_(limits), shapes_(shapes), side_(side) {}

  void argument(const Layout::Parameter& parameter) {
    const Location& at = parameter.location;
    const Capture argument{.source = Capture::Source::integer_register};
    const auto source = source_at(at, 0, argument);
    if (source && at.size <= sizeof(uint64_t) && at.count <= 1)
      value(*source, at, *parameter.type);
    else if (reaches(*parameter.type, proto::Lens::none))
      by_value(argument, at, *parameter.type);
  }

  void result() {
    Capture capture{.source = Capture::Source::result};
    const Location& at = layout_.result_location;
    if (at.where == Location::Where::indirect) {
      follow(capture, layout_.result, {false, proto::Lens::none});
      fixed(capture, at.size);
    } else if (at.in_one_integer_register()) {
      value(capture, at, *layout_.result);
    } else if (reaches(*layout_.result, proto::Lens::none)) {
      by_value(capture, at, *layout_.result);
    }
  }

  void stack(uint32_t bytes) {
    plan_.stack_bytes =
        static_cast<uint16_t>(std::min<uint32_t>(bytes, std::numeric_limits<uint16_t>::max()));
  }
  // What no plan can name is read as well.
  void open() { plan_.deep = CapturePlan::kOpen; }
  const CapturePlan& plan() const { return plan_; }

 private:
  struct There {
    bool zero_ends = false;  // things one behind the other
    proto::Lens lens = proto::Lens::none;
  };
  static bool reaches(const Type& type, proto::Lens outer) {
    return reaches_further(type) || outer == proto::Lens::guess || type.lens == proto::Lens::guess;
  }

  // What lies there may hold pointers.
  void follow(Capture& capture, const TypeRef& type, There there) {
    if (!reaches(*type, there.lens)) return;
    if (shapes_ == nullptr) return open();
    plan_.deep = std::max(plan_.deep, CapturePlan::kShapes);
    capture.shape = shapes_->number_of(type, there.zero_ends, there.lens);
  }

  // Where eight bytes of a value lie, if they lie in one place.
  static std::optional<Capture> source_at(const Location& at, uint64_t offset, Capture capture) {
    if (offset % sizeof(uint64_t) != 0) return std::nullopt;
    if (at.where == Location::Where::stack) {
      const uint64_t slot = (at.stack_offset + offset) / sizeof(uint64_t);
      capture.source = Capture::Source::stack_slot;
      capture.index = static_cast<uint8_t>(slot);
      return slot <= std::numeric_limits<uint8_t>::max() ? std::optional(capture) : std::nullopt;
    }
    if (at.where != Location::Where::registers) return std::nullopt;
    const bool is_second = offset >= uint64_t{at.pieces[0].eightbytes} * sizeof(uint64_t);
    if (is_second && at.count < 2) return std::nullopt;
    const Location::Piece& piece = at.pieces[is_second ? 1 : 0];
    capture.index = piece.index;
    const bool at_hand = capture.source != Capture::Source::result || piece.index == 0;
    return !piece.sse && at_hand ? std::optional(capture) : std::nullopt;
  }

  // A struct's pointers.
  void by_value(const Capture& from, const Location& at, const Type& type) {
    if (shapes_ == nullptr) return open();
    const Shapes::Pointers found = shapes_->pointers_in(type);
    if (found.open || (type.kind == Type::Kind::choice && !is_known(type.length))) return open();
    plan_.deep = std::max(plan_.deep, CapturePlan::kShapes);
    for (const agent::Pointer& pointer : found.list) {
      const auto source = source_at(at, pointer.offset, from);
      if (!source) return open();
      Capture capture = pointer.capture;
      capture.source = source->source;
      capture.index = source->index;
      add(capture);
    }
  }

  void add(const Capture& capture) {
    if (plan_.count == agent::kMaxCaptures)
      open();
    else
      plan_.captures[plan_.count++] = capture;
  }

  void fixed(Capture capture, uint64_t bytes) {
    if (bytes > kMaxFixed) open();
    capture.length = Capture::Length::fixed;
    capture.bound = static_cast<uint32_t>(std::min(bytes, kMaxFixed));
    if (capture.bound > 0) add(capture);
  }

  // What a value of that type, which sits in a register or a stack slot, points at.
  void value(const Capture& capture, const Location& at, const Type& type) {
    switch (type.kind) {
      case Type::Kind::error:
        return value(capture, at, *type.inner);
      case Type::Kind::string:
        return text(capture, type);
      case Type::Kind::format:
        return text(capture, type);
      case Type::Kind::buffer:
        return elements(capture, type.length, 1, limits_.string + 1);
      case Type::Kind::pointer:
        if (type.lens == proto::Lens::guess && type.inner->kind == Type::Kind::nothing) return guess(capture);
        return pointee(capture, type.inner, type.lens);
      case Type::Kind::socket_address:
        return elements(capture, type.length, 1, kLongestAddress);
      case Type::Kind::structure:
      case Type::Kind::array:
      case Type::Kind::choice:
        if (reaches(type, proto::Lens::none)) by_value(capture, at, type);
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
      if (!is_known(length)) open();
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

  void pointee(Capture capture, const TypeRef& to, proto::Lens lens) {
    const TypeRef type = proto::resolve(to);
    if (type == nullptr) return open();
    if (type->kind == Type::Kind::nothing) return;
    if (type->kind == Type::Kind::array) {
      const bool zero_ends = type->length.zero || type->length.kind == Length::Kind::unbounded;
      follow(capture, type->inner, {zero_ends, type->lens != proto::Lens::none ? type->lens : lens});
      return elements(capture, type->length, type->inner->size, limits_.array + 1);
    }
    follow(capture, type, {false, lens});
    fixed(capture, type->size);
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
    if (length.kind == Length::Kind::member || size > std::numeric_limits<uint16_t>::max() ||
        !is_known(length))
      open();
    else if (length.factor != 0)
      capture.length = Capture::Length::fixed;
    else if (length.kind == Length::Kind::argument)
      counted(capture, length.value, size);
    else if (length.kind == Length::Kind::result)
      counted_by_result(capture, size);
    if (capture.bound > 0) add(capture);
  }

  // Whether the decoder will find the argument's value: in a register, on the stack, or behind a pointer that
  // is copied on this side of the call.
  bool is_known(uint64_t number) const {
    if (number < 1 || number > layout_.parameters.size()) return false;
    const Layout::Parameter& parameter = layout_.parameters[number - 1];
    if (parameter.type->kind != Type::Kind::pointer) return true;
    return side_ == Side::entry ? parameter.at_entry : parameter.at_return;
  }
  bool is_known(const Length& length) const {
    return (length.kind != Length::Kind::argument || is_known(length.value)) &&
           (length.factor == 0 || is_known(length.factor));
  }

  // How a number of this type counts: of one of 32 bits only the lower half of its register.
  struct Counts {
    Capture::Length wide, of_int, of_unsigned;
  };
  static Capture::Length counts(TypeRef type, const Counts& by) {
    while (type->kind == Type::Kind::error || type->kind == Type::Kind::enumeration ||
           type->kind == Type::Kind::flags) {
      const TypeRef inner = proto::resolve(type->inner);
      if (inner == nullptr) break;
      type = inner;
    }
    if (type->size == 0 || type->size > sizeof(uint32_t)) return by.wide;
    return type->is_signed ? by.of_int : by.of_unsigned;
  }

  // Where the argument lies that counts; all that may be shown is copied where that is not in a register.
  const Layout::Parameter* counter(uint64_t number) const {
    if (number < 1 || number > layout_.parameters.size()) return nullptr;
    const Layout::Parameter& parameter = layout_.parameters[number - 1];
    const bool at_hand =
        parameter.type->kind != Type::Kind::pointer && parameter.location.in_one_integer_register();
    return at_hand ? &parameter : nullptr;
  }

  void counted(Capture& capture, uint64_t number, uint64_t size) {
    using By = Capture::Length;
    const Layout::Parameter* parameter = counter(number);
    if (parameter == nullptr) return;
    capture.length = counts(parameter->type, {By::argument, By::argument_int, By::argument_unsigned});
    capture.length_index = parameter->location.pieces[0].index;
    capture.scale = static_cast<uint16_t>(size);
  }

  void counted_by_result(Capture& capture, uint64_t size) const {
    using By = Capture::Length;
    capture.length = counts(layout_.result, {By::result, By::result_int, By::result_unsigned});
    capture.scale = static_cast<uint16_t>(size);
  }

  const Layout& layout_;
  const Limits& limits_;
  Shapes* shapes_;
  Side side_;
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

CapturePlan plan_at_entry(const Layout& layout, const Limits& limits, Shapes* shapes) {
  Planner planner(layout, limits, shapes, Planner::Side::entry);
  for (const Layout::Parameter& parameter : layout.parameters)
    if (parameter.at_entry) planner.argument(parameter);
  uint32_t stack = layout.behind.stack_bytes();
  planner.stack(layout.has_format ? stack + kFormatStack : stack);
  if (layout.has_format && layout.all_at_entry()) planner.open();
  return planner.plan();
}

CapturePlan plan_at_return(const Layout& layout, const Limits& limits, Shapes* shapes) {
  Planner planner(layout, limits, shapes, Planner::Side::exit);
  for (const Layout::Parameter& parameter : layout.parameters)
    if (parameter.at_return) planner.argument(parameter);
  planner.result();
  if (layout.has_format && !layout.all_at_entry()) planner.open();
  return planner.plan();
}

CapturePlan plan_of_guess(const Limits& limits) {
  CapturePlan plan;
  auto bound =
      static_cast<uint32_t>(std::min<uint64_t>(limits.string + 1, std::numeric_limits<uint32_t>::max()));
  for (uint8_t i = 0; i < 4; ++i) {
    Capture& capture = plan.captures[plan.count++];
    capture.length = Capture::Length::string;
    capture.index = i;
    capture.bound = std::max(bound, 4U);
  }
  return plan;
}

}  // namespace rtrace::decode
