// Collects probe points; what is one place for the user becomes one point.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "rtrace/plan/probe_point.h"

namespace rtrace::plan {

// How well a name suits an address that has several: the literal pattern's name first, a function before a
// clone of another, global before local and weak, fewest leading underscores, the alphabet.
struct NameRank {
  bool not_literal = false;
  bool clone = false;
  bool not_global = false;
  size_t underscores = 0;
  std::string name;
  auto operator<=>(const NameRank&) const = default;
};

NameRank rank_of(std::string_view name, bool literal, bool clone, bool global);

class PointSet {
 public:
  void add(ProbePoint point, const NameRank& rank);
  // By address, call sites before entries of the same address. Leaves the set empty.
  std::vector<ProbePoint> take();

 private:
  // Entries of one address are one point. Call sites are apart by name and caller, except where the callee's
  // entry stands for the call: from there the names of one address cannot be told apart, and one call must
  // stay one. SDT probes are apart by name too, for one may be part of several pairs.
  using Key = std::tuple<VirtAddr, ProbeKind, elf::ObjectId, bool, PairRole, std::string>;
  static Key key_of(const ProbePoint& point);

  struct Ranked {
    ProbePoint point;
    NameRank rank;
  };
  std::map<Key, Ranked> points_;
};

}  // namespace rtrace::plan
