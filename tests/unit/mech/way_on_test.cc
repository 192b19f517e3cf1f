#include "../../../src/mech/way_on.h"

#include <gtest/gtest.h>

namespace rtrace::mech::way_on_test {
namespace {

constexpr VirtAddr kEntry{0x401000}, kSiteCopy{0x500000}, kTo{0x600000};

// push %rbp (1 byte), mov %rsp,%rbp (3), sub (4): the copy has them two bytes further on from the second.
arch::Prologue prologue(uint64_t behind_entry = 0) {
  arch::Prologue made;
  made.at = kEntry + behind_entry;
  made.covered = 8;
  made.copy.points = {{0, made.at, 0}, {3, made.at + 1, 0}, {6, made.at + 4, 0}, {10, made.at + 8, 0}};
  return made;
}

// The first instruction, a call of two parts, and the jump back.
BreakpointSite site() {
  BreakpointSite made;
  made.address = kEntry;
  made.copy = kSiteCopy;
  made.copy_size = 12;
  made.points = {{0, kEntry, 0}, {2, kEntry, 8}, {7, kEntry + 1, 0}};
  return made;
}

VirtAddr from(VirtAddr pc, uint64_t behind_entry = 0) {
  return way_on(pc, site(), prologue(behind_entry), kTo);
}

TEST(WayOn, WhoHasNotMetTheBreakpointOrIsAboutToBeSeenThereStays) {
  EXPECT_EQ(from(kEntry), kEntry);
  EXPECT_EQ(from(kEntry + 1), kEntry + 1);
}

TEST(WayOn, WhoHasMetItAndRunsItsCopyGoesOnInTheWrappersCopy) {
  EXPECT_EQ(from(kSiteCopy), kTo);
  EXPECT_EQ(from(kSiteCopy + 7), kTo + 3);
  EXPECT_EQ(from(kSiteCopy, 4), kTo);  // the endbr64 that is in front of the jump has no effect
}

TEST(WayOn, APlaceWithAnotherStackOrNoneStays) {
  for (uint64_t at : {1u, 2u, 3u, 8u, 11u}) EXPECT_EQ(from(kSiteCopy + at), kSiteCopy + at) << at;
}

TEST(WayOn, WhoIsInsideGoesOnAtTheSameInstruction) {
  EXPECT_EQ(from(kEntry + 4), kTo + 6);
  EXPECT_EQ(from(kEntry + 4, 4), kTo);
  for (uint64_t at : {2u, 3u, 5u, 7u})
    EXPECT_EQ(from(kEntry + at), kEntry + at) << at;  // no instruction's beginning
}

TEST(PlaceInProgram, IsWhereTheStackIsTheSame) {
  EXPECT_EQ(place_in_program(kSiteCopy, site()), kEntry);
  EXPECT_EQ(place_in_program(kSiteCopy + 7, site()), kEntry + 1);
  for (uint64_t at : {1u, 2u, 3u, 8u, 11u})
    EXPECT_EQ(place_in_program(kSiteCopy + at, site()), VirtAddr{}) << at;
}

TEST(WayOn, WhoIsElsewhereStays) {
  for (const VirtAddr pc : {kEntry + 8, kEntry + 100, kTo, VirtAddr{0x1000}}) EXPECT_EQ(from(pc), pc);
}

TEST(WayOn, WhatTheCopyLeadsToBehindWhatIsCoveredIsGoneToAtOnce) {
  BreakpointSite branch = site();
  branch.points.back().address = kEntry + 0x40;
  EXPECT_EQ(way_on(kSiteCopy + 7, branch, prologue(), kTo), kEntry + 0x40);
}

TEST(WayOn, OfASiteWithoutACopyTheFirstBytesOfMemoryAreNotOne) {
  BreakpointSite emulated = site();
  emulated.copy = {};
  EXPECT_EQ(way_on({2}, emulated, prologue(), kTo), VirtAddr{2});
  EXPECT_EQ(way_on(kEntry + 4, emulated, prologue(), kTo), kTo + 6);
}

}  // namespace
}  // namespace rtrace::mech::way_on_test
