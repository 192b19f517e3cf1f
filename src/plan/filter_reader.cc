// Where a sign is an operator. In the symbols part: everywhere but in brackets, parentheses, template
// arguments, escapes, quotes and C++ operator names. In the library part a sign may as well belong to the
// object's name ("libruby-3.1.so.3.1"), so there all places where the part may end are collected, and the
// longest name that is mapped wins; while none is, the part ends at the first sign that can be an operator at
// all.
#include "filter_reader.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "rtrace/plan/sdt_filter.h"

namespace rtrace::plan {
namespace {

constexpr size_t kNone = std::string_view::npos;

bool identifier_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

// ".so" that ends a word or stands before a version: no symbol's name holds it.
bool holds_library_suffix(std::string_view text) {
  for (auto at = text.find(".so"); at != kNone; at = text.find(".so", at + 1)) {
    auto end = at + 3;
    if (end == text.size() || text[end] == '.' || text[end] == '+' || text[end] == '-') return true;
  }
  return false;
}

bool wants_demangled(std::string_view pattern) {
  return pattern.find("::") != kNone || pattern.find_first_of("( ") != kNone;
}

}  // namespace

void FilterReader::fail(size_t position, const std::string& message) const {
  throw FilterError(text_, position, message);
}

std::vector<Filter::Rule> FilterReader::read() {
  if (text_.empty()) fail(0, "it is empty");
  if (SdtFilter::is_meant(text_)) fail(0, "-x takes SDT probes, -e and -l do not");
  std::vector<Filter::Rule> rules;
  bool add = first_sign(rules);
  for (;;) {
    Filter::Rule rule;
    rule.add = add;
    symbols(rule);
    if (at_ < text_.size() && text_[at_] == '@') {
      ++at_;
      library(rule);
    }
    rules.push_back(std::move(rule));
    if (at_ == text_.size()) return rules;
    add = text_[at_] == '+';
    if (at_ + 1 == text_.size() || is_sign(at_ + 1))
      fail(at_, std::string("nothing follows the '") + text_[at_] + "'");
    ++at_;
  }
}

// A filter that begins with '-' takes something away from everything.
bool FilterReader::first_sign(std::vector<Filter::Rule>& rules) {
  bool add = true;
  if (text_[at_] == '!') {
    add = false;
    ++at_;
    if (is_sign(at_)) ++at_;
  } else if (is_sign(at_)) {
    add = text_[at_++] == '+';
  }
  if (at_ > 0 && (at_ == text_.size() || is_sign(at_)))
    fail(at_ - 1, std::string("nothing follows the '") + text_[at_ - 1] + "'");
  if (!add) rules.emplace_back();
  return add;
}

void FilterReader::symbols(Filter::Rule& rule) {
  if (at_ == text_.size() || text_[at_] == '@') return;
  if (text_[at_] == '/') return symbol_regex(rule);
  if (is_quote(at_)) {
    rule.symbol = Pattern::literal(quoted());
    rule.demangled = wants_demangled(rule.symbol.text());
    return;
  }
  symbol_glob(rule);
}

void FilterReader::symbol_regex(Filter::Rule& rule) {
  size_t end = regex_end(at_, "@+-");
  if (end == kNone) fail(at_, "no '/' ends this regular expression");
  size_t begin = at_ + 1;
  size_t both = unquoted(begin, end, '@');
  size_t symbol_end = both == kNone ? end : both;
  rule.symbol = begin < symbol_end ? regex(begin, symbol_end) : Pattern::any();
  rule.demangled = wants_demangled(rule.symbol.text());
  if (both != kNone && both + 1 < end) rule.library = regex(both + 1, end);
  at_ = end + 1;
}

void FilterReader::symbol_glob(Filter::Rule& rule) {
  std::string glob;
  size_t literal_until = at_;
  while (at_ < text_.size()) {
    if (at_ >= literal_until && (text_[at_] == '@' || is_sign(at_))) break;
    if (size_t end = operator_name(at_, glob); end != kNone) {
      at_ = end;
      rule.demangled = true;
      continue;
    }
    if (at_ >= literal_until) {
      if (size_t end = group_end(at_); end != kNone) literal_until = end;
    }
    at_ = element(at_, glob);
  }
  rule.demangled = rule.demangled || wants_demangled(glob);
  rule.symbol = glob_pattern(glob);
}

// The word `operator` and the symbols of the operator behind it: `operator+`, `operator->`, `operator[]`.
// They stand for themselves, but for '*', which keeps its meaning.
size_t FilterReader::operator_name(size_t at, std::string& glob) const {
  static constexpr std::string_view kWord = "operator";
  static constexpr std::array<std::string_view, 17> kOperators = {
      "<=>", "->*", "<<=", ">>=", "->", "++", "--", "+=", "-=", "<<", ">>", "<=", ">=", "+", "-", "<", ">"};
  if (text_.substr(at, kWord.size()) != kWord) return kNone;
  if (at > 0 && identifier_char(text_[at - 1])) return kNone;
  size_t behind = at + kWord.size();
  std::string_view rest = text_.substr(behind);
  for (std::string_view brackets : {"[]", " new[]", " delete[]"}) {
    if (!rest.starts_with(brackets)) continue;
    glob.append(kWord).append(brackets.substr(0, brackets.size() - 2)).append("\\[\\]");
    return behind + brackets.size();
  }
  for (std::string_view symbol : kOperators) {
    if (!rest.starts_with(symbol)) continue;
    glob.append(kWord).append(symbol);
    return behind + symbol.size();
  }
  return kNone;
}

// Where the parameter list or the template arguments that open at `at` close.
size_t FilterReader::group_end(size_t at) const {
  char open = text_[at];
  if (open != '(' && open != '<') return kNone;
  char close = open == '(' ? ')' : '>';
  size_t depth = 0;
  for (size_t i = at; i < text_.size(); ++i) {
    if (text_[i] == open) ++depth;
    if (text_[i] == close && --depth == 0) return i;
    if (text_[i] == '@') return kNone;
  }
  return kNone;
}

// One element of a glob: an escape, a bracket expression or a character.
size_t FilterReader::element(size_t at, std::string& glob) const {
  size_t end = at + 1;
  if (text_[at] == '\\') {
    if (at + 1 == text_.size()) fail(at, "nothing follows the '\\'");
    end = at + 2;
  } else if (text_[at] == '[') {
    // ABI tags of demangled names look like a bracket expression, and are none.
    const bool tag = text_.substr(at).starts_with("[abi:");
    end = tag ? bracket_end(text_, at) : checked_bracket_end(text_, text_, at);
    if (end == kNone) fail(at, "unbalanced '['");
    if (tag) glob += '\\';
  }
  glob.append(text_.substr(at, end - at));
  return end;
}

std::string FilterReader::quoted() {
  size_t begin = at_ + 1;
  size_t end = text_.find(text_[at_], begin);
  if (end == kNone) fail(at_, "this quote is not closed");
  if (end == begin) fail(at_, "nothing stands between the quotes");
  at_ = end + 1;
  if (at_ < text_.size() && text_[at_] != '@' && !is_sign(at_))
    fail(at_, "the closing quote must end the name");
  return std::string(text_.substr(begin, end - begin));
}

// Where the character stands in that part of a regular expression, but for escapes and brackets.
size_t FilterReader::unquoted(size_t begin, size_t end, char c) const {
  for (size_t i = begin; i < end; ++i) {
    if (text_[i] == c) return i;
    if (text_[i] == '\\') ++i;
    if (text_[i] != '[') continue;
    if (size_t behind = bracket_end(text_, i); behind != kNone) i = behind - 1;
  }
  return kNone;
}

// The '/' that ends the regular expression that begins at `at`: one with the end of the filter or one of
// `followers` behind it.
size_t FilterReader::regex_end(size_t at, std::string_view followers) const {
  for (size_t i = at + 1; i < text_.size(); ++i) {
    if (text_[i] == '\\') {
      ++i;
    } else if (text_[i] == '[') {
      if (size_t end = bracket_end(text_, i); end != kNone) i = end - 1;
    } else if (text_[i] == '/') {
      if (i + 1 == text_.size() || followers.find(text_[i + 1]) != kNone) return i;
    }
  }
  return kNone;
}

Pattern FilterReader::regex(size_t begin, size_t end) const {
  try {
    return Pattern::slashed_regex(text_.substr(begin, end - begin));
  } catch (const PatternError& error) {
    fail(begin + error.position(), error.what());
  }
}

void FilterReader::library(Filter::Rule& rule) {
  if (at_ == text_.size() || is_sign(at_)) return;
  if (!rule.library.text().empty()) fail(at_ - 1, "a second '@'");
  if (is_quote(at_)) {
    rule.library = Pattern::literal(quoted());
    rule.library_is_path = rule.library.text().starts_with('/');
    if (at_ < text_.size() && !is_sign(at_)) fail(at_, "a second '@'");
    return;
  }
  std::string_view rest = text_.substr(at_);
  bool names_file = std::any_of(mapped_.begin(), mapped_.end(), [&](const ObjectNames& o) {
    return rest.starts_with(o.path) && (rest.size() == o.path.size() || is_sign(at_ + o.path.size()));
  });
  if (size_t end = regex_end(at_, "+-"); rest[0] == '/' && end != kNone && !names_file) {
    // A path whose object is not there yet, perhaps, and the regular expression of another rule.
    const std::string_view all = text_.substr(at_, end - at_);
    ambiguous_ |= all.find("+/") != kNone || all.find("-/") != kNone;
    rule.library = regex(at_ + 1, end);
    at_ = end + 1;
    return;
  }
  Scan scan = scan_library();
  if (scan.cuts.empty()) fail(scan.stop, "a second '@'");
  ambiguous_ |= scan.cuts.size() > 1;
  const Cut& cut = choose(scan);
  set_library(rule, scan.glob.substr(0, cut.glob_size));
  at_ = cut.at;
}

void FilterReader::set_library(Filter::Rule& rule, const std::string& glob) const {
  rule.library_is_main = glob == "MAIN";
  rule.library_is_path = glob.starts_with('/');
  rule.library = glob_pattern(glob);
}

FilterReader::Scan FilterReader::scan_library() const {
  Scan scan;
  std::vector<Cut> signs;
  size_t at = at_;
  while (at < text_.size() && text_[at] != '@') {
    if (!is_sign(at)) {
      at = element(at, scan.glob);
      continue;
    }
    // `libstdc++`: an empty rule between two signs would mean everything, which nobody writes like that.
    if (at + 1 < text_.size() && text_[at + 1] == text_[at]) {
      scan.glob.append(text_.substr(at, 2));
      at += 2;
      continue;
    }
    bool operator_for_sure = at + 1 == text_.size() || is_sign(at + 1) || is_quote(at + 1) ||
                             text_[at + 1] == '@' || text_[at + 1] == '/';
    if (operator_for_sure) break;
    signs.push_back({at, scan.glob.size()});
    scan.glob += text_[at++];
  }
  scan.stop = at;
  for (const Cut& sign : signs)
    if (may_be_operator(sign.at, scan.stop)) scan.cuts.push_back(sign);
  if (at == text_.size() || is_sign(at)) scan.cuts.push_back({at, scan.glob.size()});
  return scan;
}

// Whether the text behind the sign can be a rule's symbols. Symbols begin with no digit and hold no '/' and
// no ".so".
bool FilterReader::may_be_operator(size_t sign, size_t stop) const {
  std::string_view rest = text_.substr(sign + 1, stop - sign - 1);
  if (std::isdigit(static_cast<unsigned char>(rest[0])) != 0) return false;
  return rest.find('/') == kNone && !holds_library_suffix(rest);
}

const FilterReader::Cut& FilterReader::choose(const Scan& scan) const {
  for (auto cut = scan.cuts.rbegin(); cut != scan.cuts.rend(); ++cut) {
    Filter::Rule rule;
    set_library(rule, scan.glob.substr(0, cut->glob_size));
    if (std::any_of(mapped_.begin(), mapped_.end(),
                    [&](const ObjectNames& o) { return library_matches(rule, o); }))
      return *cut;
  }
  return scan.cuts.front();
}

Filter::Rule FilterReader::read_library() {
  if (text_.empty()) fail(0, "it is empty");
  Filter::Rule rule;
  if (is_quote(0)) {
    rule.library = Pattern::literal(quoted());
    if (at_ != text_.size()) fail(at_, "the closing quote must end the name");
    rule.library_is_path = rule.library.text().starts_with('/');
  } else if (text_.size() > 1 && text_.front() == '/' && text_.back() == '/') {
    rule.library = regex(1, text_.size() - 1);
  } else {
    std::string glob;
    while (at_ < text_.size()) at_ = element(at_, glob);
    set_library(rule, glob);
  }
  return rule;
}

}  // namespace rtrace::plan
