// Collects probe points; what is one place for the user becomes one point.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "rtrace/plan/name_rank.h"
#include "rtrace/plan/probe_point.h"

namespace rtrace::plan {

class PointSet {
 public:
  void add(ProbePoint point, const NameRank& rank);
  // By address, call sites before entries of the same address. Leaves the set empty.
  std::vector<ProbePoint> take();

 private:
  // Entries of one address are one point. Call sites are apart by name and caller, also where the callee's
  // entry stands for the call: the call tells whose slot it is made through. SDT probes are apart by name
  // too, for one may be part of several pairs.
  using Key = std::tuple<VirtAddr, ProbeKind, elf::ObjectId, bool, PairRole, std::string>;
  static Key key_of(const ProbePoint& point);

  struct Ranked {
    ProbePoint point;
    NameRank rank;
  };
  std::map<Key, Ranked> points_;
};

}  // namespace rtrace::plan
