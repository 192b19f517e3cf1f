#include "rtrace/base/pattern.h"

#include <regex.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "regex_fault.h"
#include "regex_size.h"
#include "rtrace/base/error.h"

namespace rtrace {
namespace {

// nullptr where there is no class of that name.
int (*class_called(std::string_view name))(int) {
  static constexpr std::pair<std::string_view, int (*)(int)> kClasses[] = {
      {"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
      {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
      {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};
  for (const auto& [known, predicate] : kClasses)
    if (known == name) return predicate;
  return nullptr;
}

// What a bracket expression consists of: a class, or the characters from `low` to `high`. From `begin` on.
struct BracketPart {
  size_t begin = 0;
  std::optional<std::string_view> class_name;
  unsigned char low = 0, high = 0;
};

// Calls `take` with each part of a bracket expression, `at` behind its '['. Moves `at` behind the ']' and
// says whether it is a complement; leaves `at` alone and returns nullopt where no ']' closes it.
template <typename Take>
std::optional<bool> read_bracket(std::string_view pattern, size_t& at, const Take& take) {
  size_t i = at;
  const bool complement = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (complement) ++i;
  for (bool first = true; i < pattern.size(); first = false) {
    if (pattern[i] == ']' && !first) {
      at = i + 1;
      return complement;
    }
    BracketPart part{i, std::nullopt};
    if (pattern.substr(i, 2) == "[:") {
      if (auto close = pattern.find(":]", i + 2); close != std::string_view::npos) {
        part.class_name = pattern.substr(i + 2, close - i - 2);
        i = close + 2;
        take(part);
        continue;
      }
    }
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    part.low = part.high = static_cast<unsigned char>(pattern[i++]);
    if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
      i += pattern[i + 1] == '\\' && i + 2 < pattern.size() ? 2 : 1;
      part.high = static_cast<unsigned char>(pattern[i++]);
    }
    take(part);
  }
  return std::nullopt;
}

// Whether `c` is in it; else as read_bracket().
std::optional<bool> match_bracket(std::string_view pattern, size_t& at, unsigned char c) {
  bool found = false;
  const auto complement = read_bracket(pattern, at, [&](const BracketPart& part) {
    if (!part.class_name) {
      found |= part.low <= c && c <= part.high;
    } else if (auto* predicate = class_called(*part.class_name)) {
      found |= predicate(c) != 0;
    }
  });
  return complement ? std::optional(found != *complement) : std::nullopt;
}

// One element of the pattern that is not '*', against one character. Moves `at` behind the element on a
// match.
bool match_element(std::string_view pattern, size_t& at, char c) {
  size_t i = at;
  bool matched = false;
  if (pattern[i] == '?') {
    matched = true;
    ++i;
  } else if (pattern[i] == '[') {
    size_t inside = i + 1;
    if (auto answer = match_bracket(pattern, inside, static_cast<unsigned char>(c))) {
      matched = *answer;
      i = inside;
    } else {
      matched = c == '[';
      ++i;
    }
  } else {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    matched = pattern[i++] == c;
  }
  if (matched) at = i;
  return matched;
}

}  // namespace

// Only the last '*' ever needs to be gone back to, so the time is at most pattern times text.
bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  size_t star = std::string_view::npos, star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
    } else if (p < pattern.size() && match_element(pattern, p, text[t])) {
      ++t;
    } else if (star != std::string_view::npos) {
      p = star;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

void check_glob_bracket(std::string_view pattern, size_t at) {
  ++at;
  read_bracket(pattern, at, [](const BracketPart& part) {
    if (part.class_name && class_called(*part.class_name) == nullptr)
      throw PatternError(part.begin, fmt::format("there is no class [:{}:]", *part.class_name));
    if (part.low > part.high)
      throw PatternError(part.begin, fmt::format("the range {}-{} goes down", static_cast<char>(part.low),
                                                 static_cast<char>(part.high)));
  });
}

struct Pattern::Compiled {
  // Not wrapped in "^(...)$": that would make `a)(b` valid and give back-references other numbers.
  Compiled(const std::string& text, int flags) {
    constexpr size_t kMaxSize = 5000;
    if (regex_size(text, flags) > kMaxSize)
      throw PatternError(0, fmt::format("/{}/: Too many repetitions", text));
    if (int code = regcomp(&regex, text.c_str(), flags)) {
      char why[128];
      regerror(code, &regex, why, sizeof why);
      throw PatternError(regex_fault(text, flags, code), fmt::format("/{}/: {}", text, why));
    }
  }
  ~Compiled() { regfree(&regex); }
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;

  // POSIX takes the longest of the leftmost matches (XBD 9.1), so where the whole text can match, it is what
  // matches.
  bool matches_whole(std::string_view text) const {
    const auto match = find(text);
    return match && match->rm_so == 0 && static_cast<size_t>(match->rm_eo) == text.size();
  }
  bool found_in(std::string_view text, Ends ends) const {
    return find(text, ends == Ends::later ? REG_NOTEOL : 0).has_value();
  }

  // REG_STARTEND: a NUL in the text does not end it. There is one at its end all the same, for sanitizers,
  // which look for it.
  std::optional<regmatch_t> find(std::string_view text, int flags = 0) const {
    const std::string whole(text);
    regmatch_t match{0, static_cast<regoff_t>(whole.size())};
    if (regexec(&regex, whole.c_str(), 1, &match, REG_STARTEND | flags) != 0) return std::nullopt;
    return match;
  }
  regex_t regex{};
};

Pattern Pattern::any() {
  return {};
}

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.kind_ = Kind::literal;
  pattern.text_ = std::move(text);
  return pattern;
}

Pattern Pattern::glob(std::string text) {
  Pattern pattern;
  bool special = text.find_first_of("*?[\\") != std::string::npos;
  pattern.kind_ = text == "*" ? Kind::any : special ? Kind::glob : Kind::literal;
  pattern.text_ = std::move(text);
  return pattern;
}

Pattern Pattern::regex(const std::string& text) {
  Pattern pattern;
  pattern.compiled_ = std::make_shared<Compiled>(text, REG_EXTENDED);
  pattern.kind_ = Kind::regex;
  pattern.text_ = text;
  return pattern;
}

Pattern Pattern::slashed_regex(std::string_view text) {
  std::string plain;
  std::vector<size_t> places;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t begin = i;
    if (text.substr(i, 2) == "\\/")
      ++i;
    else if (text[i] == '\\' && i + 1 < text.size())
      plain += text[i++], places.push_back(begin);
    plain += text[i];
    places.push_back(begin);
  }
  try {
    return regex(plain);
  } catch (const PatternError& error) {
    throw PatternError(error.position() < places.size() ? places[error.position()] : 0, error.what());
  }
}

Pattern Pattern::basic_regex(const std::string& text) {
  Pattern pattern = any();
  pattern.compiled_ = std::make_shared<Compiled>(text, 0);
  pattern.kind_ = Kind::regex;
  pattern.text_ = text;
  return pattern;
}

bool Pattern::matches(std::string_view text) const {
  switch (kind_) {
    case Kind::any:
      return true;
    case Kind::literal:
      return text == text_;
    case Kind::glob:
      return glob_match(text_, text);
    case Kind::regex:
      return compiled_->matches_whole(text);
  }
  return false;
}

bool Pattern::found_in(std::string_view text, Ends ends) const {
  return kind_ == Kind::regex ? compiled_->found_in(text, ends) : matches(text);
}

std::optional<std::string> Pattern::literal_name() const {
  if (kind_ != Kind::literal) return std::nullopt;
  return text_;
}

}  // namespace rtrace
