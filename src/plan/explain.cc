#include "explain.h"

#include <algorithm>
#include <set>

#include "filter_reader.h"
#include "process_view.h"
#include "rtrace/base/text.h"
#include "rtrace/plan/clone_name.h"
#include "rtrace/plan/demangled_name.h"

namespace rtrace::plan {
namespace {

using elf::LoadedObject;
using ObjectList = std::vector<const LoadedObject*>;

constexpr size_t kNearest = 5;
constexpr size_t kObjects = 3;

std::string object_list(const ObjectList& objects) {
  std::vector<std::string> names;
  for (const LoadedObject* object : objects) names.push_back(object->name());
  return listed(names, kObjects);
}

// A pattern without its wildcards serves as the name to be near to.
std::string core_of(const Pattern& pattern) {
  if (const auto name = pattern.literal_name()) return std::string(without_parameters(*name));
  std::string core;
  for (char c : pattern.text())
    if (c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0) core += c;
  return core;
}

class NoMatch {
 public:
  NoMatch(const Request& request, const Objects& objects)
      : request_(request), objects_(objects), filter_(request.filter.resolved_for(names_of(objects))) {
    for (const LoadedObject& object : objects)
      if (filter_.may_match_in(names_of(object))) matching_.push_back(&object);
  }

  std::string explain() const {
    std::vector<std::string> clauses;
    if (matching_.empty()) {
      for (const Filter::Rule& rule : filter_.rules())
        if (rule.add) clauses.push_back(no_object(rule));
      return joined(clauses);
    }
    for (const Filter::Rule& rule : filter_.rules()) {
      if (!rule.add) continue;
      if (request_.kind == Request::Kind::entry) explain_entry(rule, clauses);
      if (request_.kind == Request::Kind::call) explain_call(rule, clauses);
    }
    if (request_.kind == Request::Kind::library)
      clauses.push_back(
          fmt::format("no mapped object calls {} through its PLT or GOT; -x with the same pattern shows "
                      "calls from inside too",
                      object_list(matching_)));
    return joined(clauses);
  }

 private:
  std::string no_object(const Filter::Rule& rule) const {
    if (const auto meant = objects_of(rule); !meant.empty())
      return fmt::format("the filter takes away again what it adds of {}", object_list(meant));
    if (rule.library_is_main) return "no main program is mapped";
    std::vector<std::string> names;
    for (const LoadedObject& object : objects_)
      for (std::string& name : names_of(object).all()) names.push_back(std::move(name));
    auto nearest = nearest_names(core_or_text(rule.library), names, kNearest);
    std::string text = rule.library_is_path
                           ? fmt::format("no mapped object has the path {}", rule.library.text())
                           : fmt::format("no mapped object is called {}", rule.library.text());
    if (rule.library_is_path) nearest = paths_of(basename_of(rule.library.text()));
    if (!nearest.empty()) return fmt::format("{}; nearest: {}", text, listed(nearest, kNearest));
    std::vector<std::string> mapped;
    for (const LoadedObject& object : objects_) mapped.push_back(object.name());
    return fmt::format("{}; mapped are {}", text, listed(mapped, 2 * kNearest));
  }

  static std::string core_or_text(const Pattern& pattern) {
    if (auto name = pattern.literal_name()) return *name;
    std::string text = pattern.text();
    std::erase_if(text, [](char c) { return c == '*' || c == '?' || c == '\\'; });
    return text;
  }

  // Mapped objects with the same file name, whatever their version.
  std::vector<std::string> paths_of(std::string_view file) const {
    std::string_view stem = file.substr(0, file.find(".so"));
    std::vector<std::string> paths;
    for (const LoadedObject& object : objects_)
      if (!stem.empty() && basename_of(object.path).starts_with(stem)) paths.push_back(object.path);
    return paths;
  }

  ObjectList objects_of(const Filter::Rule& rule) const {
    return all_that([&](const LoadedObject& o) { return library_matches(rule, names_of(o)); });
  }

  // Of those that the rule means by itself the ones of which the filter takes the name away.
  ObjectList taken_away(const Filter::Rule& rule, ObjectList having) const {
    std::erase_if(having, [&](const LoadedObject* o) {
      return !library_matches(rule, names_of(*o)) || filter_.matches(rule.symbol.text(), names_of(*o));
    });
    return having;
  }

  // C++ functions that would be meant if names were matched without parameters and scopes: some of them.
  std::vector<std::string> cxx_functions(const Filter::Rule& rule) const {
    std::vector<std::string> found;
    const std::string core = core_of(rule.symbol);
    if (rule.demangled || core.empty()) return found;
    for (const LoadedObject* object : matching_) {
      for (const elf::Symbol& symbol : object->file->functions()) {
        if (!symbol.name.starts_with("_Z") || symbol.name.find(core) == std::string_view::npos) continue;
        const auto name = demangle(symbol.name);
        if (!name) continue;
        const std::string_view path = without_parameters(without_result(*name));
        const std::string_view last = path.substr(path.rfind(':') + 1);  // npos + 1: all of it
        const bool known = std::find(found.begin(), found.end(), *name) != found.end();
        if (rule.symbol.matches(last) && !known) found.push_back(*name);
        if (found.size() == kNearest) return found;
      }
    }
    return found;
  }

  void explain_entry(const Filter::Rule& rule, std::vector<std::string>& clauses) const {
    const std::string& name = rule.symbol.text();
    auto definers = all_that([&](const LoadedObject& o) { return !o.file->find_function(name).empty(); });
    auto meant = definers;
    std::erase_if(meant, [&](const LoadedObject* o) { return !filter_.matches(name, names_of(*o)); });
    if (!meant.empty())
      return clauses.push_back(
          fmt::format("{} defines {}, and there was no time to probe it: it was loaded "
                      "at the very end",
                      object_list(meant), name));
    if (const auto taken = taken_away(rule, definers); !taken.empty())
      return clauses.push_back(fmt::format("{} {} {}, which the filter takes away again", object_list(taken),
                                           taken.size() == 1 ? "defines" : "define", name));
    bool everywhere = matching_.size() == objects_.size();
    std::string where = everywhere              ? "no mapped object"
                        : matching_.size() == 1 ? matching_[0]->name()
                                                : "none of " + object_list(matching_);
    bool single = !everywhere && matching_.size() == 1;
    clauses.push_back(rule.symbol.literal_name()
                          ? fmt::format("{} defines {}{}", where, single ? "no function " : "", name)
                          : fmt::format("{} defines {}function{}", where, single ? "no " : "a ",
                                        name.empty() ? "" : " that matches " + name));
    if (!definers.empty())
      clauses.push_back(fmt::format("{} defines it, which the filter leaves out", object_list(definers)));
    if (rule.symbol.literal_name()) clauses.push_back(cold_part(name));
    if (const auto functions = cxx_functions(rule); !functions.empty())
      return clauses.push_back(
          fmt::format("C++ names are matched whole, by patterns that hold a parenthesis or ::, as in {}",
                      listed(functions, kNearest)));
    clauses.push_back(no_names());
    clauses.push_back(overloads(rule));
    if (clauses.back().empty()) clauses.push_back(nearest_functions(rule));
    if (rule.symbol.literal_name() && definers.empty()) clauses.push_back(importers(name));
  }

  // All that is left of a function that was inlined or split.
  std::string cold_part(const std::string& name) const {
    for (const LoadedObject* object : matching_)
      if (!object->file->find_function(name + ".cold").empty())
        return fmt::format(
            "{} has only {}.cold, the part of it that is left after inlining; patterns match it when they "
            "name it exactly",
            object->name(), name);
    return {};
  }

  std::string no_names() const {
    auto stripped =
        std::count_if(matching_.begin(), matching_.end(), [](auto* o) { return o->file->stripped(); });
    if (stripped == 0) return "if it is in the source, it was inlined: inlined functions have no symbol";
    if (matching_.size() == 1 && matching_[0]->file->is_from_memory())
      return fmt::format("{} could be read from memory only, where static functions have no names",
                         matching_[0]->name());
    if (matching_.size() == 1)
      return fmt::format("{} is stripped, so its static functions have no names", matching_[0]->name());
    return fmt::format("{} of {} objects {} stripped, so their static functions have no names", stripped,
                       matching_.size(), stripped == 1 ? "is" : "are");
  }

  // Those of which the pattern, a regular expression, matches a part; else the nearest.
  static std::string names_to_take(const Pattern& pattern, const std::vector<std::string>& names,
                                   const std::vector<std::string>& first = {}) {
    std::set<std::string> in_part;
    for (const std::string& name : names)
      if (pattern.found_in(name) && !pattern.matches(name)) in_part.insert(name);
    if (!in_part.empty())
      return fmt::format("{} matches a part of {}; patterns match whole names, so it wants .* at its ends",
                         pattern.text(), listed({in_part.begin(), in_part.end()}, kNearest));
    std::vector<std::string> nearest = first;
    for (std::string& name : nearest_names(core_of(pattern), names, 2 * kNearest))
      if (nearest.size() < kNearest && std::find(nearest.begin(), nearest.end(), name) == nearest.end())
        nearest.push_back(std::move(name));
    return nearest.empty() ? std::string() : "nearest names: " + listed(nearest, kNearest);
  }

  // As the rule's pattern would name it.
  static std::string name_for(const Filter::Rule& rule, std::string_view symbol) {
    symbol = symbol.substr(0, symbol.find('@'));
    const auto demangled = rule.demangled ? demangle(symbol) : std::nullopt;
    if (!demangled) return std::string(symbol);
    return without_abi_tags(without_parameters(without_result(*demangled)));
  }

  // Functions of that name, with other parameters.
  std::string overloads(const Filter::Rule& rule) const {
    const auto name = rule.symbol.literal_name();
    if (!rule.demangled || !name || name->find('(') == std::string::npos) return {};
    const std::string core = core_of(rule.symbol);
    std::set<std::string> found;
    for (const LoadedObject* object : matching_)
      for (const elf::Symbol& symbol : object->file->functions())
        if (name_for(rule, symbol.name) == core)
          found.insert(without_abi_tags(
              without_result(demangle(symbol.name.substr(0, symbol.name.find('@'))).value_or(""))));
    return found.empty() ? "" : "there is " + listed({found.begin(), found.end()}, kNearest);
  }

  // What others import from the object says what its interface is, so those names come first.
  std::string nearest_functions(const Filter::Rule& rule) const {
    std::vector<std::string> defined;
    for (const LoadedObject* object : matching_)
      for (const elf::Symbol& symbol : object->file->functions())
        if (!is_cold_part(symbol.name)) defined.push_back(name_for(rule, symbol.name));
    return names_to_take(rule.symbol, defined, nearest_imports(core_of(rule.symbol)));
  }

  // Of names that are imported at all few are near, so that few are looked up.
  std::vector<std::string> nearest_imports(const std::string& core) const {
    std::vector<std::string> imported;
    for (const LoadedObject& object : objects_)
      for (const auto& import : object.file->imports()) imported.emplace_back(import.name);
    std::vector<std::string> nearest = nearest_names(core, imported, imported.size());
    std::vector<std::string> found;
    for (size_t i = 0; i < nearest.size() && found.size() < kNearest; ++i)
      if (is_imported(nearest[i])) found.push_back(std::move(nearest[i]));
    return found;
  }

  bool is_imported(const std::string& name) const {
    return std::any_of(matching_.begin(), matching_.end(), [&](const LoadedObject* object) {
      return object->file->find_exported(name) &&
             std::any_of(objects_.begin(), objects_.end(), [&](const LoadedObject& other) {
               return other.id != object->id && imports(other, name);
             });
    });
  }

  std::string importers(const std::string& name) const {
    auto who = all_that([&](const LoadedObject& o) { return imports(o, name); });
    if (who.empty()) return "no mapped object imports it either";
    return fmt::format("{} {} it, but nothing mapped defines it yet", object_list(who),
                       who.size() == 1 ? "imports" : "import");
  }

  void explain_call(const Filter::Rule& rule, std::vector<std::string>& clauses) const {
    const std::string& name = rule.symbol.text();
    const auto callers_of = all_that([&](const LoadedObject& o) { return imports(o, name); });
    if (const auto taken = taken_away(rule, callers_of); !taken.empty())
      return clauses.push_back(fmt::format("{} {} {}, which the filter takes away again", object_list(taken),
                                           taken.size() == 1 ? "imports" : "import", name));
    std::string callers = matching_.size() == 1
                              ? matching_[0]->name() + " calls no"
                              : fmt::format("none of {} objects calls an", matching_.size());
    if (!rule.symbol.literal_name()) {
      std::string what = rule.symbol.matches_everything() ? "" : " that matches " + name;
      clauses.push_back(fmt::format("{} imported function{}", callers, what));
    } else {
      clauses.push_back(fmt::format("{} imported function {}", callers, name));
      for (const LoadedObject* object : matching_)
        if (!object->file->find_function(name).empty()) {
          clauses.push_back(
              fmt::format("{} defines it itself, and calls inside an object pass no PLT: -x {} shows them",
                          object->name(), name));
          break;
        }
      auto others = all_that([&](const LoadedObject& o) { return imports(o, name) && !is_matching(o); });
      if (!others.empty())
        clauses.push_back(
            fmt::format("{} {} it", object_list(others), others.size() == 1 ? "imports" : "import"));
    }
    std::vector<std::string> called;
    for (const LoadedObject* object : matching_)
      for (const auto& import : object->file->imports()) called.push_back(name_for(rule, import.name));
    clauses.push_back(names_to_take(rule.symbol, called));
  }

  template <typename Predicate>
  ObjectList all_that(Predicate predicate) const {
    ObjectList found;
    for (const LoadedObject& object : objects_)
      if (predicate(object)) found.push_back(&object);
    return found;
  }

  bool is_matching(const LoadedObject& object) const {
    return std::find(matching_.begin(), matching_.end(), &object) != matching_.end();
  }

  const Request& request_;
  const Objects& objects_;
  Filter filter_;
  ObjectList matching_;
};

}  // namespace

std::string listed(const std::vector<std::string>& words, size_t limit) {
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), limit); ++i) text += (i ? ", " : "") + words[i];
  if (words.size() > limit) text += fmt::format(" and {} more", words.size() - limit);
  return text;
}

std::string joined(const std::vector<std::string>& clauses) {
  std::string text;
  for (const std::string& clause : clauses)
    if (!clause.empty()) text += (text.empty() ? "" : "; ") + clause;
  return text;
}

bool imports(const LoadedObject& object, std::string_view name) {
  return object.file->imports_any(std::span(&name, 1));
}

// A version is looked for in the object that defined it when the importing one was linked; where the
// exporting one has none, it serves all (glibc, elf/dl-lookup.c, check_match).
std::vector<std::string> imports_for(const LoadedObject& object, const LoadedObject& from) {
  const std::string_view definer = from.file->defines_versions() ? from.file->soname() : std::string_view{};
  std::vector<std::string> names;
  names.reserve(object.file->imports().size());
  for (const auto& import : object.file->imports())
    if (definer.empty() || import.from.empty() || import.from == definer) names.emplace_back(import.name);
  return names;
}

std::string explain_no_match(const Request& request, const Objects& objects) {
  if (request.kind == Request::Kind::sdt) return explain_no_sdt_match(request.sdt, objects);
  return NoMatch(request, objects).explain();
}

}  // namespace rtrace::plan
