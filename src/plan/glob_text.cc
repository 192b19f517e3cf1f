#include "filter_reader.h"

namespace rtrace::plan {

Pattern glob_pattern(const std::string& glob) {
  if (glob.find('\\') == std::string::npos) return Pattern::glob(glob);
  std::string plain;
  for (size_t i = 0; i < glob.size(); ++i) {
    if (glob[i] == '*' || glob[i] == '?' || glob[i] == '[') return Pattern::glob(glob);
    if (glob[i] == '\\' && i + 1 < glob.size()) ++i;
    plain += glob[i];
  }
  return Pattern::literal(plain);
}

// POSIX 2.13.1: a ']' that comes first, behind the complement sign too, is a member; classes have brackets of
// their own.
size_t bracket_end(std::string_view text, size_t at) {
  size_t i = at + 1;
  if (i < text.size() && (text[i] == '!' || text[i] == '^')) ++i;
  for (bool first = true; i < text.size(); first = false) {
    if (text[i] == ']' && !first) return i + 1;
    if (text.substr(i, 2) == "[:") {
      if (auto close = text.find(":]", i + 2); close != std::string_view::npos) {
        i = close + 2;
        continue;
      }
    }
    i += text[i] == '\\' && i + 1 < text.size() ? 2 : 1;
  }
  return std::string_view::npos;
}

size_t checked_bracket_end(std::string_view filter, std::string_view glob, size_t at) {
  const auto begin = static_cast<size_t>(glob.data() - filter.data());
  const size_t end = bracket_end(glob, at);
  if (end == std::string_view::npos) throw FilterError(filter, begin + at, "unbalanced '['");
  try {
    check_glob_bracket(glob, at);
  } catch (const PatternError& error) {
    throw FilterError(filter, begin + error.position(), error.what());
  }
  return end;
}

}  // namespace rtrace::plan
