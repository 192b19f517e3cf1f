#include "point_set.h"

#include <algorithm>
#include <utility>

namespace rtrace::plan {
namespace {

void add_alias(ProbePoint& point, const std::string& name) {
  auto& aliases = point.aliases;
  if (name != point.name && std::find(aliases.begin(), aliases.end(), name) == aliases.end())
    aliases.push_back(name);
}

// What is shown goes by the better name; what was found under either stays.
void merge(ProbePoint& into, const ProbePoint& from) {
  add_alias(into, from.name);
  for (const std::string& alias : from.aliases) add_alias(into, alias);
  if (into.slot != from.slot) into.slot = {};
  if (into.caller.empty()) into.caller = from.caller;
  if (into.prototype_object.empty()) into.prototype_object = from.prototype_object;
  for (RequestIndex request : from.requests)
    if (std::find(into.requests.begin(), into.requests.end(), request) == into.requests.end())
      into.requests.push_back(request);
  std::sort(into.requests.begin(), into.requests.end());
}

}  // namespace

PointSet::Key PointSet::key_of(const ProbePoint& point) {
  const bool named = point.kind == ProbeKind::sdt || point.kind == ProbeKind::plt;
  return {point.address,          point.kind, point.caller_object,
          point.only_from_caller, point.pair, named ? point.name : std::string()};
}

void PointSet::add(ProbePoint point, const NameRank& rank) {
  auto [at, is_new] = points_.try_emplace(key_of(point), Ranked{point, rank});
  if (is_new) return;
  Ranked& known = at->second;
  if (rank < known.rank) {
    std::swap(known.point, point);
    known.rank = rank;
  }
  merge(known.point, point);
}

std::vector<ProbePoint> PointSet::take() {
  std::vector<ProbePoint> points;
  points.reserve(points_.size());
  for (auto& [key, ranked] : points_) {
    auto& aliases = ranked.point.aliases;
    std::sort(aliases.begin(), aliases.end());
    aliases.erase(std::unique(aliases.begin(), aliases.end()), aliases.end());
    points.push_back(std::move(ranked.point));
  }
  points_.clear();
  return points;
}

}  // namespace rtrace::plan
