// Rules of a filter that find nothing where others of it do.
#include <algorithm>

#include "explain.h"
#include "rtrace/plan/plan.h"
#include "symbol_filter.h"

namespace rtrace::plan {
namespace {

using elf::LoadedObject;

constexpr size_t kPatterns = 8;

bool is_matched_in(const Request& request, const Filter& filter, const LoadedObject& object) {
  const SymbolFilter symbols(filter, names_of(object));
  if (!symbols.may_match()) return false;
  const auto matches = [&](const auto& symbol) { return symbols.matches(symbol.name); };
  if (request.kind == Request::Kind::call) return std::ranges::any_of(object.file->imports(), matches);
  const auto names = symbols.literal_names();
  if (!names) return std::ranges::any_of(object.file->functions(), matches);
  return std::ranges::any_of(*names, [&](const std::string& name) {
    return std::ranges::any_of(object.file->find_function(name), matches) ||
           std::ranges::any_of(object.file->find_clones(name), matches);
  });
}

}  // namespace

std::string explain_part_without_match(const Request& request, const Objects& objects) {
  if (request.kind != Request::Kind::entry && request.kind != Request::Kind::call) return {};
  std::vector<ObjectNames> names;
  for (const LoadedObject& object : objects) names.push_back(names_of(object));
  const Filter filter = request.filter.resolved_for(names);
  if (std::ranges::count(filter.rules(), true, &Filter::Rule::add) < 2) return {};
  std::vector<Request> without;
  for (size_t i = 0; i < filter.rules().size(); ++i) {
    if (!filter.rules()[i].add) continue;
    Request one = request;
    one.filter = filter.only(i);
    if (std::ranges::none_of(objects,
                             [&](const auto& object) { return is_matched_in(one, one.filter, object); }))
      without.push_back(std::move(one));
  }
  if (without.size() == 1) return explain_no_match(without[0], objects);
  std::vector<std::string> patterns;
  for (const Request& one : without) patterns.push_back(one.filter.rules()[0].symbol.text());
  return patterns.empty() ? "" : "nothing matches " + listed(patterns, kPatterns);
}

}  // namespace rtrace::plan
