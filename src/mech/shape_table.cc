#include "rtrace/mech/shape_table.h"

#include <cstring>

namespace rtrace::mech {
namespace {

std::vector<uint64_t> words_of(std::span<const agent::ShapeEntry> shapes) {
  std::vector<uint64_t> words(shapes.size_bytes() / sizeof(uint64_t));
  std::memcpy(words.data(), shapes.data(), shapes.size_bytes());
  return words;
}

void move(agent::Capture& capture, uint64_t first) {
  if (capture.shape != 0) capture.shape = static_cast<uint16_t>(capture.shape + first - 1);
}

}  // namespace

std::optional<ShapeTable::Place> ShapeTable::find(std::span<const agent::ShapeEntry> shapes) const {
  if (shapes.empty()) return Place{};
  const auto known = places_.find(words_of(shapes));
  if (known != places_.end()) return Place{known->second, {}};
  if (next_ + shapes.size() > agent::kMostShapeEntries) return std::nullopt;
  Place place{next_, {shapes.begin(), shapes.end()}};
  for (size_t at = 0; at < shapes.size(); ++at) {
    const size_t last = at + shapes[at].shape.count;
    while (at < last && at + 1 < shapes.size()) move(place.entries[++at].pointer.capture, next_);
  }
  return place;
}

void ShapeTable::add(const Place& place, std::span<const agent::ShapeEntry> shapes) {
  if (place.entries.empty()) return;
  places_.emplace(words_of(shapes), place.first);
  next_ += place.entries.size();
}

agent::CapturePlan moved(agent::CapturePlan plan, uint64_t first) {
  for (agent::Capture& capture : std::span(plan.captures).first(plan.count)) move(capture, first);
  return plan;
}

}  // namespace rtrace::mech
