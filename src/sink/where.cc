#include "rtrace/sink/where.h"

#include <algorithm>
#include <array>
#include <set>

#include "where_values.h"

namespace rtrace::sink {
namespace {

using decode::Value;
using Node = WhereNode::Kind;

// Some values are a number and a text: a key of an enum. Nothing is known where there is neither.
struct Operand {
  std::optional<WideInteger> integer;
  std::optional<long double> real;
  std::optional<std::string_view> text;
  bool cut = false;          // the text goes on
  bool is_compound = false;  // a struct, an array: no number and no text, but not nil
};

Operand of(WideInteger number) {
  return {number, std::nullopt, std::nullopt};
}
Operand of(std::optional<bool> truth) {
  return truth ? of(WideInteger{*truth ? 1 : 0}) : Operand{};
}

std::string_view one_character(char c) {
  static constexpr auto kAll = [] {
    std::array<char, 256> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i);
    return all;
  }();
  return {&kAll[static_cast<unsigned char>(c)], 1};
}

// Arithmetic wraps around, as it does for 64 bits.
WideInteger wrapped(unsigned __int128 bits) {
  return static_cast<WideInteger>(bits);
}

WideInteger integer_of(const Value& value) {
  if (value.kind == Value::Kind::integer && value.size == sizeof(WideInteger))
    return wrapped(static_cast<unsigned __int128>(value.high) << 64 | value.raw);
  return value.is_signed ? WideInteger{static_cast<int64_t>(value.raw)} : WideInteger{value.raw};
}

Operand of_value(const Value& value) {
  Operand operand;
  switch (value.kind) {
    case Value::Kind::integer:
    case Value::Kind::boolean:
    case Value::Kind::bit_vector:
    case Value::Kind::address:
    case Value::Kind::nil:
      return of(integer_of(value));
    case Value::Kind::character:
      if (value.is_eof) return of(WideInteger{-1});
      operand = of(integer_of(value));
      operand.text = one_character(static_cast<char>(value.raw));
      return operand;
    case Value::Kind::floating:
      operand.real = value.number;
      return operand;
    case Value::Kind::string:
      operand.text = value.bytes;
      operand.cut = value.cut;
      return operand;
    case Value::Kind::enumeration:
    case Value::Kind::flags:
      operand = of(integer_of(value));
      if (!value.text.empty()) operand.text = value.text;
      return operand;
    case Value::Kind::unreadable:
      return value.raw != 0 ? of(integer_of(value)) : operand;
    case Value::Kind::structure:
    case Value::Kind::array:
    case Value::Kind::recursion:
      operand.is_compound = true;
      return operand;
    case Value::Kind::changed:
    case Value::Kind::error_result:
    case Value::Kind::hidden:
    case Value::Kind::nothing:
      break;
  }
  return operand;
}

std::optional<bool> truth(const Operand& operand) {
  if (operand.integer) return *operand.integer != 0;
  if (operand.real) return *operand.real != 0;
  if (operand.text) return !operand.text->empty();
  return operand.is_compound ? std::optional(true) : std::nullopt;
}

std::optional<long double> number(const Operand& operand) {
  if (operand.integer) return static_cast<long double>(*operand.integer);
  return operand.real;
}

// -1 and 2^64 - 1 are the same 64 bits: which of them a result is depends on its prototype alone.
bool same_bits(WideInteger a, WideInteger b) {
  const WideInteger difference =
      wrapped(static_cast<unsigned __int128>(a > b ? a : b) - static_cast<unsigned __int128>(a > b ? b : a));
  return difference == 0 || ((a < 0) != (b < 0) && difference == WideInteger{1} << 64);
}

// What is cut is longer than what is known of it.
std::optional<bool> same_text(const Operand& a, const Operand& b) {
  const size_t common = std::min(a.text->size(), b.text->size());
  if (a.text->substr(0, common) != b.text->substr(0, common)) return false;
  if (a.text->size() == b.text->size() && !a.cut && !b.cut) return true;
  const bool may_be = (a.cut && (b.cut || b.text->size() > common)) || (b.cut && a.text->size() > common);
  return may_be ? std::nullopt : std::optional(false);
}

std::optional<bool> equal(const Operand& a, const Operand& b) {
  const bool only_text = (a.text && !number(a)) || (b.text && !number(b));
  if (a.text && b.text && only_text) return same_text(a, b);
  if (a.integer && b.integer) return same_bits(*a.integer, *b.integer);
  if (number(a) && number(b)) return *number(a) == *number(b);
  // A string is not nil, nor is what a pointer to a struct or an array leads to.
  if ((a.text || a.is_compound) && b.integer == WideInteger{0}) return false;
  if ((b.text || b.is_compound) && a.integer == WideInteger{0}) return false;
  return std::nullopt;
}

// -1, 0 or 1.
std::optional<int> order(const Operand& a, const Operand& b) {
  if (a.integer && b.integer) return *a.integer < *b.integer ? -1 : *a.integer > *b.integer ? 1 : 0;
  const auto left = number(a), right = number(b);
  if (!left || !right || *left != *left || *right != *right) return std::nullopt;
  return *left < *right ? -1 : *left > *right ? 1 : 0;
}

Operand arithmetic(Node kind, const Operand& a, const Operand& b) {
  if (a.integer && b.integer) {
    switch (kind) {
      case Node::add:
        return of(
            wrapped(static_cast<unsigned __int128>(*a.integer) + static_cast<unsigned __int128>(*b.integer)));
      case Node::subtract:
        return of(
            wrapped(static_cast<unsigned __int128>(*a.integer) - static_cast<unsigned __int128>(*b.integer)));
      case Node::bit_and:
        return of(*a.integer & *b.integer);
      default:
        return of(*a.integer | *b.integer);
    }
  }
  Operand result;
  if (!number(a) || !number(b)) return result;
  if (kind == Node::add) result.real = *number(a) + *number(b);
  if (kind == Node::subtract) result.real = *number(a) - *number(b);
  return result;
}

std::optional<bool> compare(Node kind, const Operand& a, const Operand& b) {
  if (kind == Node::equal) return equal(a, b);
  if (kind == Node::unequal) {
    const auto same = equal(a, b);
    return same ? std::optional(!*same) : std::nullopt;
  }
  const auto which = order(a, b);
  if (!which) return std::nullopt;
  switch (kind) {
    case Node::less:
      return *which < 0;
    case Node::less_equal:
      return *which <= 0;
    case Node::greater:
      return *which > 0;
    default:
      return *which >= 0;
  }
}

class Evaluation {
 public:
  Evaluation(const std::vector<WhereNode>& nodes, const CallFacts& call) : nodes_(nodes), call_(call) {}

  // As deep as the parser's limit on nesting, and the length of a chain of operators, let it be.
  Operand evaluate(size_t index) const {
    const WhereNode& node = nodes_[index];
    switch (node.kind) {
      case Node::logical_or:
      case Node::logical_and:
        return of(logical(node));
      case Node::logical_not: {
        const auto inner = truth(evaluate(node.left));
        return inner ? of(std::optional(!*inner)) : Operand{};
      }
      case Node::matches:
      case Node::matches_not:
        return of(matches(node));
      case Node::negate:
        return arithmetic(Node::subtract, of(WideInteger{0}), evaluate(node.left));
      case Node::add:
      case Node::subtract:
      case Node::bit_and:
      case Node::bit_or:
        return arithmetic(node.kind, evaluate(node.left), evaluate(node.right));
      case Node::equal:
      case Node::unequal:
      case Node::less:
      case Node::less_equal:
      case Node::greater:
      case Node::greater_equal:
        return of(compared(node));
      default:
        return leaf(node);
    }
  }

  // A string was not known far enough.
  bool met_cut() const { return met_cut_; }

 private:
  std::optional<bool> matches(const WhereNode& node) const {
    const Operand operand = evaluate(node.left);
    if (!operand.text) return std::nullopt;
    const bool found =
        node.pattern->found_in(*operand.text, operand.cut ? Pattern::Ends::later : Pattern::Ends::there);
    met_cut_ |= operand.cut && !found;
    if (operand.cut && !found) return std::nullopt;
    return found == (node.kind == Node::matches);
  }

  std::optional<bool> compared(const WhereNode& node) const {
    const Operand left = evaluate(node.left), right = evaluate(node.right);
    const auto truth = compare(node.kind, left, right);
    met_cut_ |= !truth && left.text && right.text && (left.cut || right.cut);
    return truth;
  }

  Operand leaf(const WhereNode& node) const {
    Operand operand;
    switch (node.kind) {
      case Node::integer:
        return of(node.integer);
      case Node::real:
        operand.real = node.real;
        return operand;
      case Node::text:
        operand.text = node.text;
        return operand;
      case Node::argument:
      case Node::result:
        return of_known(value_of(node, call_));
      case Node::parameter:
        return is_key(node) ? key(node) : of_known(value_of(node, call_));
      case Node::duration:
        return call_.duration ? of(WideInteger{*call_.duration}) : operand;
      case Node::error:
        return of(WideInteger{call_.error});
      case Node::name:
        operand.text = call_.name;
        return operand;
      case Node::thread:
        return of(WideInteger{call_.tid});
      default:
        return of(WideInteger{call_.depth});
    }
  }

  // Left to right, and the right side only where it matters.
  std::optional<bool> logical(const WhereNode& node) const {
    const bool decisive = node.kind == Node::logical_or;
    const auto left = truth(evaluate(node.left));
    if (left == decisive) return decisive;
    const auto right = truth(evaluate(node.right));
    if (right == decisive) return decisive;
    return left && right ? std::optional(!decisive) : std::nullopt;
  }

  bool is_key(const WhereNode& node) const {
    return node.members.empty() && value_of(node, call_) == nullptr;
  }

  static Operand of_known(const Value* value) { return value != nullptr ? of_value(*value) : Operand{}; }

  // A word is a key of what it is compared or combined with.
  Operand key(const WhereNode& word) const {
    for (const WhereNode& node : nodes_) {
      const Value* value = node.term == word.term ? value_of(node, call_) : nullptr;
      const auto bits = value != nullptr ? decode::key_bits(*value, word.text) : std::nullopt;
      if (bits) return of(value->is_signed ? WideInteger{static_cast<int64_t>(*bits)} : WideInteger{*bits});
    }
    return {};
  }

  const std::vector<WhereNode>& nodes_;
  const CallFacts& call_;
  mutable bool met_cut_ = false;
};

}  // namespace

Where::Answer Where::holds(const CallFacts& call) const {
  const Evaluation evaluation(tree_->nodes, call);
  const auto answer = truth(evaluation.evaluate(tree_->nodes.size() - 1));
  return {answer == true, !answer && evaluation.met_cut()};
}

bool Where::reads_text() const {
  return std::ranges::any_of(tree_->nodes, [&](const WhereNode& node) {
    const bool matches = node.kind == Node::matches || node.kind == Node::matches_not;
    if (matches) return names_a_value(tree_->nodes[node.left]);
    if (node.kind != Node::equal && node.kind != Node::unequal) return false;
    const WhereNode &left = tree_->nodes[node.left], &right = tree_->nodes[node.right];
    const auto has_text = [](const WhereNode& side) {
      return names_a_value(side) || side.kind == Node::text;
    };
    return has_text(left) && has_text(right) && (names_a_value(left) || names_a_value(right));
  });
}

bool Where::reads_return() const {
  return std::ranges::any_of(tree_->nodes, [](const WhereNode& node) {
    return node.kind == Node::result || node.kind == Node::error || node.kind == Node::duration;
  });
}

std::vector<Where::Name> Where::names() const {
  std::vector<Name> names;
  for (const WhereNode& node : tree_->nodes) {
    if (node.kind != Node::parameter) continue;
    const auto known = std::ranges::find(names, node.text, &Name::text);
    if (known == names.end())
      names.push_back({node.text, node.members.empty()});
    else
      known->may_be_key &= node.members.empty();
  }
  return names;
}

std::vector<size_t> Where::arguments() const {
  std::set<size_t> numbers;
  for (const WhereNode& node : tree_->nodes)
    if (node.kind == Node::argument) numbers.insert(node.index + 1);
  return {numbers.begin(), numbers.end()};
}

}  // namespace rtrace::sink
