#include "regex_fault.h"

#include <regex.h>

#include <string_view>
#include <vector>

#include "regex_size.h"

namespace rtrace {
namespace {

constexpr size_t kNone = std::string::npos;
constexpr size_t kMostTried = 1000;  // prefixes; each is compiled

bool fails_with(const std::string& text, int flags, int code) {
  regex_t regex;
  const int got = regcomp(&regex, text.c_str(), flags | REG_NOSUB);
  if (got == 0) regfree(&regex);
  return got == code;
}

// How much of the text must be there for it to fail so, `closing` behind it.
size_t shortest_failing(const std::string& text, int flags, int code, std::string_view closing) {
  for (size_t size = 1; size <= text.size() && size <= kMostTried; ++size)
    if (fails_with(text.substr(0, size).append(closing), flags, code)) return size;
  return kNone;
}

// What opens and is not closed, or closes what is not open.
struct Unmatched {
  size_t bracket = kNone, parenthesis = kNone, brace = kNone;
};

Unmatched unmatched(std::string_view text, bool extended) {
  Unmatched found;
  std::vector<size_t> open;
  for (size_t at = 0; at < text.size();) {
    const bool escaped = text[at] == '\\' && at + 1 < text.size();
    const char c = text[at + (escaped ? 1 : 0)];
    const size_t next = at + (escaped ? 2 : 1);
    if (c == '[' && !escaped) {
      const size_t end = behind_bracket(text, at);
      if (end == kNone) found.bracket = at;
      if (end == kNone) break;
      at = end;
      continue;
    }
    if (escaped != extended) {
      if (c == '(') open.push_back(at);
      if (c == ')' && open.empty()) found.parenthesis = at;
      if (c == ')' && !open.empty()) open.pop_back();
      if (c == '{') found.brace = at;
      if (found.parenthesis != kNone) break;
    }
    at = next;
  }
  if (!open.empty()) found.parenthesis = open.back();
  return found;
}

// The last mistake of its kind that is complete in the shortest text that has it.
size_t last_before(const std::string& text, std::string_view what, size_t size) {
  return size != kNone ? text.rfind(what, size - 1) : kNone;
}

size_t place_of(const std::string& text, int flags, int code) {
  const auto failing = [&](std::string_view closing) { return shortest_failing(text, flags, code, closing); };
  switch (code) {
    case REG_EBRACK:
    case REG_BADPAT:  // a '[' at the very end
      return unmatched(text, (flags & REG_EXTENDED) != 0).bracket;
    case REG_EPAREN:
    case REG_ERPAREN:
      return unmatched(text, (flags & REG_EXTENDED) != 0).parenthesis;
    case REG_EBRACE:
      return unmatched(text, (flags & REG_EXTENDED) != 0).brace;
    case REG_BADBR:
    case REG_ESIZE:
      return last_before(text, "{", failing(""));
    case REG_ESUBREG:
      return last_before(text, "\\", failing(""));
    case REG_EESCAPE:
      return text.size() - 1;
    case REG_ECTYPE:
      return last_before(text, "[:", failing("]"));
    case REG_ECOLLATE:
      return last_before(text, "[", failing("]"));
    case REG_ERANGE:  // its end, which a class or the like may be
      return last_before(text, "-", failing("]")) + 1;
    default:
      return failing("") - 1;
  }
}

}  // namespace

size_t regex_fault(const std::string& text, int flags, int code) {
  const size_t place = place_of(text, flags, code);
  return place < text.size() ? place : 0;
}

}  // namespace rtrace
