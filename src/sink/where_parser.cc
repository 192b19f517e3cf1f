#include <fmt/format.h>
#include <string.h>

#include <cstdlib>
#include <utility>

#include "rtrace/base/text.h"
#include "where_tree.h"

namespace rtrace::sink {
namespace {

using Node = WhereNode::Kind;

// Of parentheses and signs in each other: each is a few frames of the parser's and the evaluator's stack.
constexpr int kMostNested = 100;
constexpr size_t kLongest = 4000;
constexpr int kMostErrors = 4096;  // errno's values (include/linux/err.h, MAX_ERRNO)
constexpr uint64_t kMostArguments = 1000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool continues_name(char c) {
  return begins_name(c) || is_digit(c);
}

std::optional<int> error_of(const std::string& name) {
  if (name.size() < 2 || name[0] != 'E') return std::nullopt;
  for (int number = 1; number < kMostErrors; ++number)
    if (const char* known = strerrorname_np(number); known != nullptr && name == known) return number;
  return std::nullopt;
}

bool is_leaf(Node kind) {
  return kind < Node::negate;
}
bool is_logical(Node kind) {
  return kind >= Node::logical_not;
}

// What stands between logical operators is one term each.
void mark_terms(std::vector<WhereNode>& nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].term = i;
  for (size_t i = nodes.size(); i-- > 0;) {
    const WhereNode& node = nodes[i];
    if (is_leaf(node.kind) || is_logical(node.kind)) continue;
    nodes[node.left].term = node.term;
    nodes[node.right].term = node.term;
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<WhereNode> parse() {
    if (text_.size() > kLongest) fail(kLongest, "it is too long");
    disjunction();
    skip_blanks();
    if (at_ < text_.size()) fail(at_, "an operator is expected");
    mark_terms(nodes_);
    return std::move(nodes_);
  }

 private:
  [[noreturn]] void fail(size_t position, const std::string& message) const {
    throw WhereError(text_, position, message);
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool take(std::string_view sign) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  // `&` but not `&&`.
  bool take_single(char sign) {
    skip_blanks();
    if (peek() != sign || (at_ + 1 < text_.size() && text_[at_ + 1] == sign)) return false;
    ++at_;
    return true;
  }

  size_t add(WhereNode node) {
    nodes_.push_back(std::move(node));
    return nodes_.size() - 1;
  }
  size_t join(Node kind, size_t left, size_t right) {
    WhereNode node;
    node.kind = kind;
    node.left = left;
    node.right = right;
    return add(std::move(node));
  }

  size_t disjunction() {
    size_t left = conjunction();
    while (take("||")) left = join(Node::logical_or, left, conjunction());
    return left;
  }
  size_t conjunction() {
    size_t left = comparison();
    while (take("&&")) left = join(Node::logical_and, left, comparison());
    return left;
  }

  std::optional<Node> comparison_sign() {
    static constexpr std::pair<std::string_view, Node> kSigns[] = {
        {"==", Node::equal},         {"!=", Node::unequal}, {"<=", Node::less_equal},  {"<", Node::less},
        {">=", Node::greater_equal}, {">", Node::greater},  {"!~", Node::matches_not}, {"~", Node::matches}};
    for (const auto& [sign, kind] : kSigns)
      if (take(sign)) return kind;
    skip_blanks();
    if (peek() == '=') fail(at_, "== is expected");
    return std::nullopt;
  }

  size_t comparison() {
    const size_t left = alternatives();
    skip_blanks();
    const size_t sign_at = at_;
    const auto sign = comparison_sign();
    if (!sign) return left;
    if (*sign == Node::matches || *sign == Node::matches_not) {
      const size_t node = join(*sign, left, left);
      nodes_[node].pattern = regex();
      return node;
    }
    const size_t right = alternatives();
    const bool text = nodes_[left].kind == Node::text || nodes_[right].kind == Node::text;
    if (text && *sign != Node::equal && *sign != Node::unequal)
      fail(sign_at, "strings are compared with == and != alone");
    const size_t node = join(*sign, left, right);
    skip_blanks();
    const size_t next = at_;
    if (comparison_sign()) fail(next, "comparisons do not chain: && is expected");
    return node;
  }

  size_t alternatives() {
    size_t left = mask();
    while (take_single('|')) left = join(Node::bit_or, left, mask());
    return left;
  }
  size_t mask() {
    size_t left = sum();
    while (take_single('&')) left = join(Node::bit_and, left, sum());
    return left;
  }
  size_t sum() {
    size_t left = unary();
    for (;;) {
      if (take("+"))
        left = join(Node::add, left, unary());
      else if (take("-"))
        left = join(Node::subtract, left, unary());
      else
        return left;
    }
  }

  size_t unary() {
    skip_blanks();
    if (++nested_ > kMostNested) fail(at_, "it is nested too deeply");
    size_t node = 0;
    if (peek() == '!' && !text_.substr(at_).starts_with("!~") && take("!"))
      node = negation(Node::logical_not);
    else if (take("-"))
      node = negation(Node::negate);
    else
      node = primary();
    --nested_;
    return node;
  }
  size_t negation(Node kind) {
    const size_t operand = unary();
    return join(kind, operand, operand);
  }

  size_t primary() {
    skip_blanks();
    const char c = peek();
    if (at_ == text_.size()) fail(at_, "something is missing");
    if (c == '(') return parentheses();
    if (c == '"' || c == '\'') return string(c);
    if (is_digit(c)) return number();
    if (begins_name(c)) return name();
    if (c == '/') fail(at_, "a regex stands behind ~ or !~");
    fail(at_, "a name, a number or a string is expected");
  }

  size_t parentheses() {
    const size_t open = at_++;
    const size_t node = disjunction();
    if (!take(")")) fail(at_ < text_.size() ? at_ : open, "a ) is missing");
    return node;
  }

  std::string word() {
    const size_t begin = at_;
    while (continues_name(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  size_t name() {
    static const std::pair<std::string_view, Node> kKnown[] = {
        {"ret", Node::result}, {"dur", Node::duration}, {"errno", Node::error},
        {"name", Node::name},  {"tid", Node::thread},   {"depth", Node::depth}};
    const size_t begin = at_;
    WhereNode node;
    node.text = word();
    node.kind = Node::parameter;
    for (const auto& [known, kind] : kKnown)
      if (node.text == known) node.kind = kind;
    if (node.kind == Node::parameter && !numbered_argument(node, begin))
      if (const auto error = error_of(node.text)) {
        node.kind = Node::integer;
        node.integer = *error;
      }
    while (peek() == '.') {
      ++at_;
      if (!begins_name(peek())) fail(at_, "the name of a member is expected");
      node.members.push_back(word());
    }
    const bool has_members =
        node.kind == Node::argument || node.kind == Node::parameter || node.kind == Node::result;
    if (!node.members.empty() && !has_members) fail(begin, node.text + " has no members");
    return add(std::move(node));
  }

  bool numbered_argument(WhereNode& node, size_t begin) const {
    if (!node.text.starts_with("arg") || node.text.size() == 3 ||
        node.text.find_first_not_of("0123456789", 3) != std::string::npos)
      return false;
    if (node.text[3] == '0') fail(begin, "arguments count from arg1; the result is ret");
    const auto index = parse_number(std::string_view(node.text).substr(3));
    if (!index || *index > kMostArguments) fail(begin, "no call has that many arguments");
    node.kind = Node::argument;
    node.index = *index - 1;
    return true;
  }

  size_t number() {
    const size_t begin = at_;
    while (continues_name(peek()) || peek() == '.') ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    WhereNode node;
    if (const auto whole = parse_number(word)) {
      node.integer = *whole;
    } else if (const auto duration = parse_duration(word)) {
      node.integer = *duration;
    } else {
      char* end = nullptr;
      node.kind = Node::real;
      node.real = strtold(word.c_str(), &end);
      const bool real =
          word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos;
      if (!real || *end != '\0') fail(begin, "this is no number, and no duration (5ms, 1.5s, 200us, 800ns)");
    }
    return add(std::move(node));
  }

  size_t string(char quote) {
    const size_t begin = at_++;
    WhereNode node;
    node.kind = Node::text;
    while (peek() != quote || at_ == text_.size()) {
      if (at_ >= text_.size()) fail(begin, "the string does not end");
      if (peek() == '\\')
        node.text += escape();
      else
        node.text += text_[at_++];
    }
    ++at_;
    return add(std::move(node));
  }

  char escape() {
    static constexpr std::string_view kLetters = "abtnvfr";  // from 7 to 13, in ASCII's order
    const size_t begin = at_++;
    const char c = peek();
    if (at_ == text_.size()) fail(begin, "the string does not end");
    ++at_;
    if (const size_t letter = kLetters.find(c); letter != std::string_view::npos)
      return static_cast<char>(7 + letter);
    if (c == 'x') return digits(begin, 16, 2);
    if (c >= '0' && c <= '7') {
      --at_;
      return digits(begin, 8, 3);
    }
    return c;
  }

  char digits(size_t begin, int base, size_t most) {
    const size_t first = at_;
    const std::string_view allowed = base == 16 ? "0123456789abcdefABCDEF" : "01234567";
    while (at_ < text_.size() && at_ - first < most && allowed.find(text_[at_]) != std::string_view::npos)
      ++at_;
    if (at_ == first) fail(begin, "digits are expected");
    const auto value = strtoul(std::string(text_.substr(first, at_ - first)).c_str(), nullptr, base);
    return static_cast<char>(value);
  }

  Pattern regex() {
    skip_blanks();
    if (peek() != '/') fail(at_, "a /regex/ is expected");
    const size_t slash = at_++, begin = at_;
    while (peek() != '/' || at_ == text_.size()) {
      if (at_ >= text_.size()) fail(slash, "the regex does not end");
      at_ += peek() == '\\' && at_ + 1 < text_.size() ? 2 : 1;
    }
    try {
      return Pattern::slashed_regex(text_.substr(begin, at_++ - begin));
    } catch (const PatternError& error) {
      fail(begin + error.position(), error.what());
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  int nested_ = 0;
  std::vector<WhereNode> nodes_;
};

}  // namespace

WhereError::WhereError(std::string_view expression, size_t position, const std::string& message)
    : Error(caret_message("bad expression", expression, position, message)), position_(position) {}

Where Where::parse(std::string_view text) {
  Where where;
  where.tree_ = std::make_shared<const Tree>(Tree{Parser(text).parse()});
  return where;
}

}  // namespace rtrace::sink
