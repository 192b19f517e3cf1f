#include "rtrace/mech/shape_table.h"

#include <gtest/gtest.h>

namespace rtrace::mech::shape_table_test {
namespace {

using agent::ShapeEntry;

agent::Pointer pointer_to(uint16_t shape) {
  agent::Pointer pointer;
  pointer.capture.shape = shape;
  return pointer;
}

ShapeEntry shape_of(uint16_t pointers, uint32_t stride = 8) {
  agent::Shape shape;
  shape.stride = stride;
  shape.count = pointers;
  return {.shape = shape};
}

// Two that point at each other, the second at nothing besides.
std::vector<ShapeEntry> circle() {
  return {shape_of(1),
          {.pointer = pointer_to(3)},
          shape_of(2),
          {.pointer = pointer_to(1)},
          {.pointer = pointer_to(0)}};
}

TEST(ShapeTable, GivesShapesTheNumbersOfTheirPlace) {
  ShapeTable table;
  const std::vector<ShapeEntry> first = {shape_of(0)};
  table.add(*table.find(first), first);
  const auto place = table.find(circle());
  ASSERT_TRUE(place);
  EXPECT_EQ(place->first, 2U);
  ASSERT_EQ(place->entries.size(), 5U);
  EXPECT_EQ(place->entries[1].pointer.capture.shape, 4);
  EXPECT_EQ(place->entries[3].pointer.capture.shape, 2);
  EXPECT_EQ(place->entries[4].pointer.capture.shape, 0);
  EXPECT_EQ(place->entries[2].shape.count, 2);
}

TEST(ShapeTable, HasWhatIsAlikeOnce) {
  ShapeTable table;
  const auto first = table.find(circle());
  table.add(*first, circle());
  const auto again = table.find(circle());
  EXPECT_EQ(again->first, first->first);
  EXPECT_TRUE(again->entries.empty());
  EXPECT_EQ(table.find(std::vector{shape_of(0)})->first, first->first + 5);
}

TEST(ShapeTable, HasRoomForNone) {
  const auto place = ShapeTable().find({});
  ASSERT_TRUE(place);
  EXPECT_TRUE(place->entries.empty());
}

TEST(ShapeTable, EndsWhereNumbersEnd) {
  ShapeTable table;
  for (uint32_t stride = 1; stride < agent::kMostShapeEntries; ++stride) {
    const std::vector shapes = {shape_of(0, stride)};
    const auto place = table.find(shapes);
    ASSERT_TRUE(place);
    table.add(*place, shapes);
  }
  EXPECT_FALSE(table.find(circle()));
  EXPECT_TRUE(table.find(std::vector{shape_of(0, 1)}));
}

TEST(ShapeTable, MovesAPlansCaptures) {
  agent::CapturePlan plan;
  plan.count = 2;
  plan.captures[1].shape = 3;
  plan = moved(plan, 100);
  EXPECT_EQ(plan.captures[0].shape, 0);
  EXPECT_EQ(plan.captures[1].shape, 102);
}

}  // namespace
}  // namespace rtrace::mech::shape_table_test
