#include "rtrace/plan/filter.h"

#include <algorithm>

#include "filter_reader.h"
#include "rtrace/base/text.h"
#include "symbol_filter.h"

namespace rtrace::plan {
namespace {

// /proc/PID/maps marks what was unlinked since (proc(5)); the user means the file that was.
std::string_view without_deleted(std::string_view path) {
  static constexpr std::string_view kMark = " (deleted)";
  if (path.ends_with(kMark)) path.remove_suffix(kMark.size());
  return path;
}

void add_name(std::vector<std::string>& names, std::string_view name) {
  if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
}

// "libf-3.1" and "libf" of "libf-3.1.so.3.1".
void add_stems(std::vector<std::string>& names, std::string_view name) {
  auto suffix = name.find(".so");
  while (suffix != std::string_view::npos && suffix + 3 < name.size() && name[suffix + 3] != '.')
    suffix = name.find(".so", suffix + 1);
  if (suffix == std::string_view::npos || suffix == 0) return;
  std::string_view stem = name.substr(0, suffix);
  add_name(names, stem);
  auto dash = stem.rfind('-');
  if (dash == std::string_view::npos || dash + 1 == stem.size()) return;
  if (stem.find_first_not_of("0123456789.", dash + 1) == std::string_view::npos)
    add_name(names, stem.substr(0, dash));
}

}  // namespace

std::vector<std::string> ObjectNames::all() const {
  std::vector<std::string> names;
  std::string_view file = basename_of(without_deleted(path));
  add_name(names, soname);
  add_name(names, file);
  add_stems(names, soname);
  add_stems(names, file);
  return names;
}

FilterError::FilterError(std::string_view filter, size_t position, const std::string& message)
    : Error(caret_message("bad filter", filter, position, message)), position_(position) {}

bool library_matches(const Filter::Rule& rule, const ObjectNames& object) {
  if (rule.library_is_main) return object.main_program;
  if (rule.library.matches_everything()) return true;
  if (rule.library_is_path) {
    const std::string_view path = without_deleted(object.path);
    // Where /lib is a link to /usr/lib, ldd and people still name the one, and the kernel the other.
    const bool merged =
        path.starts_with("/usr/lib") || path.starts_with("/usr/bin") || path.starts_with("/usr/sbin");
    return rule.library.matches(path) || (merged && rule.library.matches(path.substr(4)));
  }
  auto names = object.all();
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return rule.library.matches(name); });
}

Filter Filter::parse(std::string_view text, Syntax syntax) {
  Filter filter;
  filter.text_ = text;
  filter.syntax_ = syntax;
  if (syntax == Syntax::ltrace) {
    filter.rules_ = read_ltrace_filter(text);
    return filter;
  }
  const std::vector<ObjectNames> nothing_mapped;
  FilterReader reader(text, nothing_mapped);
  filter.rules_ = reader.read();
  filter.ambiguous_ = reader.ambiguous();
  return filter;
}

Filter Filter::of_library(std::string_view pattern) {
  Filter filter;
  filter.text_ = "@" + std::string(pattern);
  const std::vector<ObjectNames> nothing_mapped;
  filter.rules_.push_back(FilterReader(pattern, nothing_mapped).read_library());
  return filter;
}

Filter Filter::resolved_for(const std::vector<ObjectNames>& mapped) const {
  if (!ambiguous_) return *this;
  Filter filter = *this;
  filter.rules_ = FilterReader(text_, mapped).read();
  return filter;
}

Filter Filter::only(size_t rule) const {
  Filter filter = *this;
  filter.ambiguous_ = false;
  filter.rules_ = {rules_.at(rule)};
  return filter;
}

bool Filter::matches(std::string_view symbol, const ObjectNames& object) const {
  return SymbolFilter(*this, object).matches(symbol);
}

bool Filter::may_match_in(const ObjectNames& object) const {
  return SymbolFilter(*this, object).may_match();
}

std::optional<std::vector<std::string>> Filter::literal_names(const ObjectNames& object) const {
  return SymbolFilter(*this, object).literal_names();
}

}  // namespace rtrace::plan
