#include "rtrace/plan/demangled_name.h"

#include <algorithm>
#include <cctype>

namespace rtrace::plan {
namespace {

constexpr std::string_view kAnonymous = "(anonymous namespace)", kOperator = "operator",
                           kDecltype = "decltype";

bool is_word(char c) {
  return isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_word_at(std::string_view name, size_t at, std::string_view word) {
  const bool begins = at == 0 || !is_word(name[at - 1]);
  const size_t end = at + word.size();
  return begins && name.substr(at, word.size()) == word && (end == name.size() || !is_word(name[end]));
}

// Behind what closes the parenthesis there.
size_t behind_parenthesis(std::string_view name, size_t at) {
  size_t depth = 0;
  for (size_t i = at; i < name.size(); ++i) {
    if (name[i] == '(') ++depth;
    if (name[i] == ')' && --depth == 0) return i + 1;
  }
  return name.size();
}

}  // namespace

std::string_view without_parameters(std::string_view name) {
  auto close = name.rfind(')');
  if (close == std::string_view::npos) return name;
  size_t depth = 0;
  for (size_t i = close + 1; i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return name.substr(0, i);
  }
  return name;
}

std::string_view without_result(std::string_view name) {
  size_t begin = 0, angles = 0;
  for (size_t i = 0; i < name.size();) {
    if (name.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size();
    } else if (is_word_at(name, i, kDecltype) && i + kDecltype.size() < name.size()) {
      i = behind_parenthesis(name, i + kDecltype.size());
    } else if (angles == 0 && is_word_at(name, i, kOperator)) {
      return name.substr(begin);  // what follows may be "<<", "()" or a type with blanks
    } else if (angles == 0 && name[i] == '(') {
      return i > begin ? name.substr(begin) : name;
    } else if (name[i] == '(') {
      i = behind_parenthesis(name, i);
    } else {
      if (name[i] == '<') ++angles;
      if (name[i] == '>' && angles > 0) --angles;
      if (name[i] == ' ' && angles == 0) begin = i + 1;
      ++i;
    }
  }
  return name;
}

std::string without_abi_tags(std::string_view name) {
  std::string plain;
  for (size_t tag; (tag = name.find("[abi:")) != std::string_view::npos;) {
    plain += name.substr(0, tag);
    name.remove_prefix(std::min(name.find(']', tag), name.size() - 1) + 1);
  }
  return plain += name;
}

}  // namespace rtrace::plan
