// Where shapes (agent/abi.h) stand in a recorder's table. What is alike stands there once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "rtrace/agent/recorder.h"

namespace rtrace::mech {

class ShapeTable {
 public:
  struct Place {
    uint64_t first = 0;
    // What is to be written there; empty where it stands there already.
    std::vector<agent::ShapeEntry> entries;
  };
  // The first of `shapes` is number 1 to those, and to the plan. nullopt where there is no room.
  std::optional<Place> find(std::span<const agent::ShapeEntry> shapes) const;
  // It has been written.
  void add(const Place& place, std::span<const agent::ShapeEntry> shapes);

 private:
  std::map<std::vector<uint64_t>, uint64_t> places_;  // by their words
  uint64_t next_ = 1;
};

// The plan, where its shapes begin at number `first`.
agent::CapturePlan moved(agent::CapturePlan plan, uint64_t first);

}  // namespace rtrace::mech
