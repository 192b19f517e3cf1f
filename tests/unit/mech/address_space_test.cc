#include "rtrace/mech/address_space.h"

#include <gmock/gmock.h>
#include <sys/syscall.h>

#include <cstring>
#include <map>

#include "mech/targets.h"
#include "rtrace/base/mapping.h"
#include "tracee/child.h"

namespace rtrace::mech::address_space_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using tests::Child;
using tests::kTargets;
using tests::Pipe;
using tests::Target;
using tracee::Alive;
using tracee::Block;

constexpr size_t kTargetCount = std::size(kTargets);

std::span<const std::byte> file_bytes(VirtAddr address, size_t size) {
  return {reinterpret_cast<const std::byte*>(address.value), size};
}

std::string reason_of(const InstallAnswer& answer) {
  if (const auto* declined = std::get_if<Declined>(&answer)) return "declined: " + declined->reason;
  if (const auto* busy = std::get_if<Busy>(&answer)) return "busy: " + busy->reason;
  return "installed";
}

// A child that is stopped in front of its body.
class AddressSpaceTest : public testing::Test {
 protected:
  template <typename Body>
  void start(Body body) {
    child.emplace([this, body] { return go.wait() ? body() : 100; });
    tests::wait_until_in_syscall(pid(), SYS_read);
    ASSERT_TRUE(tests::seize_and_stop(pid()));
    space = std::make_unique<AddressSpace>(pid(), ledger);
  }
  pid_t pid() const { return child->pid(); }

  static Range slack() {
    return {tests::address_of(rtrace_test_slack), tests::address_of(rtrace_test_slack_end)};
  }
  static Range code() { return {kTargets[0].address(), slack().begin}; }
  std::string make_room() {
    return space->make_room(code(), kTargetCount, pid(), tracee::read_maps(pid()), slack());
  }
  void install_all() {
    ASSERT_EQ(make_room(), "");
    for (const Target& target : kTargets)
      ASSERT_EQ(reason_of(space->install(target.address(), file_bytes(target.address(), 15))), "installed")
          << target.name;
  }

  // Serves a task's hits by its address space until it ends. Its exit status.
  int run(AddressSpace& of, pid_t tid) {
    for (int signal = 0;;) {
      if (tracee::resume(tid, signal) == Alive::gone) return -1;
      const auto event = tracee::consume(tid, Block::yes);
      if (!event) return -2;
      const tracee::Stop stop = classify(event->status);
      signal = 0;
      if (const auto* exited = std::get_if<tracee::Exited>(&stop)) return exited->status;
      if (event->status.is_end()) return -3;
      if (const auto* delivery = std::get_if<tracee::SignalDelivery>(&stop)) signal = delivery->signal;
      if (std::holds_alternative<tracee::Trap>(stop) && !serve(of, tid)) return -4;
    }
  }
  bool serve(AddressSpace& of, pid_t tid) {
    auto regs = tracee::registers(tid);
    if (!regs) return false;
    const BreakpointSite* site = of.hit(*regs);
    if (site == nullptr || !of.pass(*site, *regs)) return false;
    ++hits[site->address];
    return tracee::set_registers(tid, *regs) == Alive::yes;
  }
  int run_child() {
    go.signal();
    const int status = run(*space, pid());
    child->reaped();
    return status;
  }
  void expect_each_was_hit() const {
    for (const Target& target : kTargets) {
      const auto found = hits.find(target.address());
      EXPECT_EQ(found == hits.end() ? 0 : found->second, tests::kCallsOfEach) << target.name;
    }
  }

  // Of the code in the child, the first byte that is not the file's.
  std::optional<VirtAddr> changed(const tracee::ProcessMemory& in) const {
    for (VirtAddr at = code().begin; at < slack().end; at = at + 1) {
      std::byte now{};
      if (in.read(at, {&now, 1}) != 1 || now != file_bytes(at, 1)[0]) return at;
    }
    return std::nullopt;
  }
  std::byte byte_at(VirtAddr address) const {
    std::byte byte{};
    EXPECT_EQ(space->memory().read(address, {&byte, 1}), 1u);
    return byte;
  }
  void write_byte(VirtAddr address, std::byte byte) const {
    ASSERT_EQ(space->memory().write(address, {&byte, 1}), 0);
  }
  size_t live_entries(pid_t of) const {
    size_t live = 0;
    for (size_t i = 0; i < table.used; ++i) live += table.patches[i].live != 0 && table.patches[i].pid == of;
    return live;
  }

  Mapping shared = Mapping::shared(sizeof(PatchTable));
  PatchTable& table = *reinterpret_cast<PatchTable*>(shared.data());
  PatchLedger ledger{table};
  Pipe go;
  std::map<VirtAddr, size_t> hits;
  std::optional<Child> child;
  std::unique_ptr<AddressSpace> space;
};

TEST_F(AddressSpaceTest, EachCallIsMetOnceAndGoesAsIfThereWereNoInt3) {
  start(tests::wrong_answers);
  install_all();
  for (const Target& target : kTargets) {
    EXPECT_EQ(byte_at(target.address()), std::byte{arch::kInt3}) << target.name;
    const BreakpointSite* site = space->find(target.address());
    ASSERT_NE(site, nullptr);
    EXPECT_EQ(site->emulation.has_value(), target.emulated) << target.name;
    EXPECT_TRUE(site->copy) << target.name;
    EXPECT_EQ(site->saved, file_bytes(target.address(), 1)[0]);
  }
  EXPECT_EQ(run_child(), 0);
  expect_each_was_hit();
}

TEST_F(AddressSpaceTest, NothingIsWrittenOnceItIsAbandoned) {
  start(tests::wrong_answers);
  ASSERT_EQ(make_room(), "");
  space->abandon();
  for (const Target& target : kTargets)
    EXPECT_EQ(reason_of(space->install(target.address(), {})),
              "declined: the process has begun another program")
        << target.name;
  EXPECT_FALSE(space->raise_semaphore(code().begin));
  EXPECT_EQ(changed(space->memory()), std::nullopt);
  EXPECT_EQ(run_child(), 0);
  EXPECT_TRUE(hits.empty());
}

TEST_F(AddressSpaceTest, WithoutRoomOnlyWhatCanBeEmulatedGetsASite) {
  start(tests::wrong_answers);
  EXPECT_FALSE(space->has_room(code().begin, 1));
  for (const Target& target : kTargets)
    EXPECT_EQ(reason_of(space->install(target.address(), {})),
              target.emulated ? "installed" : "busy: no room for an out-of-line copy near it yet")
        << target.name;
  EXPECT_EQ(run_child(), 0);
  EXPECT_EQ(hits.size(), 3u);
}

TEST_F(AddressSpaceTest, WithoutRoomForWhatTheHandlerIsToldOnlyWhatCanBeEmulatedGetsASite) {
  start(tests::wrong_answers);
  ASSERT_EQ(make_room(), "");
  for (VirtAddr other{16}; space->foothold().table_has_room(1); other = other + 16)
    ASSERT_TRUE(space->foothold().add_site(space->memory(), other, other, std::byte{}, {}));
  for (const Target& target : kTargets)
    EXPECT_EQ(reason_of(space->install(target.address(), {})),
              target.emulated ? "installed" : "busy: no room for an out-of-line copy near it yet")
        << target.name;
  EXPECT_EQ(run_child(), 0);
}

TEST_F(AddressSpaceTest, ASecondInstallationFindsTheSiteOfTheFirst) {
  start(tests::wrong_answers);
  install_all();
  for (const Target& target : kTargets) {
    const auto answer = space->install(target.address(), file_bytes(target.address(), 15));
    ASSERT_TRUE(std::holds_alternative<Installed>(answer));
    EXPECT_EQ(std::get<Installed>(answer).site, space->find(target.address()));
  }
  EXPECT_EQ(space->size(), kTargetCount);
  EXPECT_EQ(live_entries(pid()), kTargetCount);
}

TEST_F(AddressSpaceTest, DeclinesWhatItMustNotTouch) {
  start(tests::wrong_answers);
  ASSERT_EQ(make_room(), "");
  const VirtAddr mov = kTargets[6].address(), lea = kTargets[3].address();
  std::array<std::byte, 7> other_file{};
  std::memcpy(other_file.data(), file_bytes(lea, 7).data(), 7);
  other_file[6] ^= std::byte{1};
  struct Row {
    VirtAddr address;
    std::span<const std::byte> expected;
    const char* reason;
  };
  const Row rows[] = {
      {tests::address_of(rtrace_test_int3), {}, "an int3 that is not ours"},
      {tests::address_of(rtrace_test_invalid), {}, "no valid instruction"},
      {VirtAddr{0x1000}, {}, "cannot be read"},
      {lea, other_file, "not the file's"},
      {mov, file_bytes(lea, 7), "not the file's"},
  };
  for (const Row& row : rows)
    EXPECT_THAT(reason_of(space->install(row.address, row.expected)),
                AllOf(HasSubstr("declined: "), HasSubstr(row.reason)));
  EXPECT_EQ(space->size(), 0u);
  EXPECT_EQ(live_entries(pid()), 0u);
  EXPECT_EQ(changed(space->memory()), std::nullopt);
  // Only the instruction itself has to be the file's.
  EXPECT_EQ(reason_of(space->install(lea, std::span(other_file).first(6))), "installed");
}

TEST_F(AddressSpaceTest, SeveralAtOnceAreInstalledAsOneAfterTheOther) {
  start(tests::wrong_answers);
  ASSERT_EQ(make_room(), "");
  ASSERT_EQ(reason_of(space->install(kTargets[1].address(), {})), "installed");
  std::vector<AddressSpace::Wanted> wanted = {{tests::address_of(rtrace_test_invalid), {}}};
  for (const Target& target : kTargets)
    wanted.push_back({target.address(), file_bytes(target.address(), 15)});
  wanted.push_back(wanted.back());
  const auto answers = space->install_together(wanted);
  ASSERT_EQ(answers.size(), wanted.size());
  EXPECT_THAT(reason_of(answers[0]), HasSubstr("no valid instruction"));
  for (size_t i = 1; i < answers.size(); ++i) {
    ASSERT_EQ(reason_of(answers[i]), "installed") << i;
    BreakpointSite* site = space->find(wanted[i].address);
    ASSERT_EQ(std::get<Installed>(answers[i]).site, site) << i;
    EXPECT_TRUE(site->copy) << i;
  }
  EXPECT_EQ(space->size(), kTargetCount);
  EXPECT_EQ(live_entries(pid()), kTargetCount);
  EXPECT_EQ(run_child(), 0);
  expect_each_was_hit();
}

TEST_F(AddressSpaceTest, DeclinesWhereAnotherDebuggersInt3Stands) {
  start(tests::wrong_answers);
  write_byte(kTargets[0].address(), std::byte{arch::kInt3});
  EXPECT_THAT(reason_of(space->install(kTargets[0].address(), file_bytes(kTargets[0].address(), 15))),
              HasSubstr("an int3 that is not ours"));
}

TEST_F(AddressSpaceTest, NothingIsWrittenThatTheTableCannotHold) {
  start(tests::wrong_answers);
  ASSERT_EQ(make_room(), "");
  table.used = PatchTable::kCapacity;
  // The entry of the gadget's loan is free again.
  const std::byte any{};
  ASSERT_NE(ledger.publish(1, VirtAddr{1}, {&any, 1}, {&any, 1}), PatchLedger::kNone);
  EXPECT_THAT(reason_of(space->install(kTargets[0].address(), {})), HasSubstr("declined"));
  EXPECT_EQ(changed(space->memory()), std::nullopt);
}

TEST_F(AddressSpaceTest, RestoreGivesTheFilesBytesBack) {
  start(tests::wrong_answers);
  install_all();
  ASSERT_TRUE(changed(space->memory()));
  space->restore(space->memory());
  EXPECT_EQ(changed(space->memory()), std::nullopt);
  EXPECT_EQ(run_child(), 0);
  EXPECT_THAT(hits, IsEmpty());
}

TEST_F(AddressSpaceTest, RestoreLeavesAByteThatIsNotOursAlone) {
  start(tests::wrong_answers);
  install_all();
  const VirtAddr foreign = kTargets[2].address();
  write_byte(foreign, std::byte{0x90});
  space->restore(space->memory());
  EXPECT_EQ(byte_at(foreign), std::byte{0x90});
  EXPECT_EQ(changed(space->memory()), foreign);
  write_byte(foreign, file_bytes(foreign, 1)[0]);
  EXPECT_EQ(changed(space->memory()), std::nullopt);
}

TEST_F(AddressSpaceTest, WhatIsForgottenIsNeitherKnownNorWritten) {
  start(tests::wrong_answers);
  install_all();
  const VirtAddr first = kTargets[0].address(), last = kTargets[6].address();
  const VirtAddr copy = space->find(first)->copy;
  constexpr std::byte kOthers{0x90};
  write_byte(first, kOthers);
  space->forget({first, first + 1});
  EXPECT_EQ(space->find(first), nullptr);
  EXPECT_NE(space->find(last), nullptr);
  EXPECT_EQ(byte_at(first), kOthers) << "its memory is another object's by now";
  arch::Regs regs;
  regs.set_pc(copy);
  EXPECT_FALSE(space->to_program(regs).changed);
  space->forget_all();
  EXPECT_EQ(space->size(), 0u);
  EXPECT_EQ(live_entries(pid()), 0u);
}

TEST_F(AddressSpaceTest, WhatStandsInAnothersCodeIsPassedWithoutAnOwner) {
  start(tests::wrong_answers);
  install_all();
  const VirtAddr first = kTargets[0].address(), last = kTargets[6].address();
  for (VirtAddr address : {first, last}) {
    space->find(address)->probes.push_back({});
    space->find(address)->return_site = true;
  }
  space->forget({first, first + 1});
  EXPECT_THAT(space->strays(), testing::ElementsAre(first));
  EXPECT_TRUE(space->find(first)->stray);
  EXPECT_TRUE(space->find(first)->probes.empty());
  EXPECT_FALSE(space->find(first)->serves_other_than_probes());
  EXPECT_TRUE(space->is_code(first, file_bytes(first, arch::kMaxInsn)));
  EXPECT_FALSE(space->is_code(first, file_bytes(last, arch::kMaxInsn)));
  EXPECT_EQ(run_child(), 0);
  EXPECT_TRUE(hits.contains(first));
  space->restore(space->memory());
  space->drop_gone_strays();
  EXPECT_EQ(space->find(first), nullptr);
  EXPECT_NE(space->find(last), nullptr);
}

TEST_F(AddressSpaceTest, AThreadThatHasMetWhatWasTakenOutIsKnown) {
  start(tests::wrong_answers);
  install_all();
  const VirtAddr first = kTargets[0].address();
  const std::byte own = space->find(first)->saved;
  arch::Regs regs;
  regs.set_pc(first + 1);
  space->forget({first, first + 1});
  EXPECT_FALSE(space->met_removed(regs));
  space->take_out(first, own);
  EXPECT_EQ(byte_at(first), own);
  EXPECT_TRUE(space->met_removed(regs));
  regs.set_pc(first + 2);
  EXPECT_FALSE(space->met_removed(regs));
  ASSERT_EQ(reason_of(space->install(first, {})), "installed");
  regs.set_pc(first + 1);
  EXPECT_FALSE(space->met_removed(regs));
}

TEST_F(AddressSpaceTest, SitesOfReturnsGoWhereNoneIsAwaited) {
  start([] { return 0; });
  install_all();
  const VirtAddr idle = kTargets[0].address(), awaited = kTargets[1].address(), probe = kTargets[2].address(),
                 stood_in = kTargets[3].address();
  for (VirtAddr address : {idle, awaited, probe, stood_in}) space->find(address)->return_site = true;
  space->find(probe)->probes.push_back({});
  const BreakpointSite* site = space->find(stood_in);
  ASSERT_TRUE(site->copy) << "a target that is emulated serves for nothing here";
  space->give_up_returns({awaited}, std::vector{site->copy + 1});
  EXPECT_EQ(space->find(idle), nullptr);
  EXPECT_EQ(space->memory().read_value<std::byte>(idle), file_bytes(idle, 1)[0]);
  for (VirtAddr address : {awaited, probe, stood_in}) {
    EXPECT_NE(space->find(address), nullptr);
    EXPECT_EQ(space->memory().read_value<uint8_t>(address), 0xcc);
  }
  space->restore(space->memory());
}

TEST_F(AddressSpaceTest, EachInstructionOfACopyHasItsPlaceInTheProgram) {
  start(tests::wrong_answers);
  install_all();
  constexpr uint64_t kStack = 0x7ffd1000;
  for (const Target& target : kTargets) {
    const BreakpointSite& site = *space->find(target.address());
    ASSERT_FALSE(site.points.empty()) << target.name;
    size_t replays = 0;
    for (const arch::ResumePoint& point : site.points) {
      arch::Regs regs;
      regs.set_pc(site.copy + point.offset);
      regs.set_sp({kStack});
      EXPECT_TRUE(space->in_copy(regs.pc()));
      const auto translation = space->to_program(regs);
      EXPECT_TRUE(translation.changed) << target.name << "+" << int{point.offset};
      EXPECT_EQ(regs.pc(), point.address);
      EXPECT_TRUE(code().contains(regs.pc())) << target.name << "+" << int{point.offset};
      EXPECT_EQ(static_cast<int64_t>(regs.sp().value - kStack), point.sp_adjust);
      EXPECT_EQ(translation.replayed, point.address == target.address() ? &site : nullptr);
      replays += translation.replayed != nullptr;
    }
    EXPECT_GE(replays, 1u) << target.name << ": its first instruction is the site";
  }
}

TEST_F(AddressSpaceTest, WhatIsNotInACopyIsNotTranslated) {
  start(tests::wrong_answers);
  install_all();
  const BreakpointSite& lea = *space->find(kTargets[3].address());
  const VirtAddr places[] = {kTargets[0].address(), kTargets[0].address() + 1, lea.copy + 1,
                             space->foothold().gadget(), VirtAddr{0}};
  for (VirtAddr place : places) {
    arch::Regs regs;
    regs.set_pc(place);
    regs.set_sp({0x7000});
    const auto translation = space->to_program(regs);
    EXPECT_FALSE(translation.changed) << fmt::format("{}", place);
    EXPECT_EQ(translation.replayed, nullptr);
    EXPECT_EQ(regs.pc(), place);
    EXPECT_EQ(regs.sp().value, 0x7000u);
  }
}

TEST_F(AddressSpaceTest, RoomComesAndGoesWithoutATrace) {
  start(tests::wrong_answers);
  const std::string maps = fmt::format("/proc/{}/maps", pid());
  const std::string before = tracee::read_file(maps);
  ASSERT_EQ(make_room(), "");
  EXPECT_TRUE(space->has_room(code().begin, kTargetCount));
  EXPECT_TRUE(space->foothold().gadget());
  EXPECT_EQ(changed(space->memory()), std::nullopt) << "the slack was only on loan";
  const std::string with_room = tracee::read_file(maps);
  EXPECT_NE(with_room, before);
  for (const auto& entry : tracee::parse_maps(with_room))
    EXPECT_FALSE(entry.writable && entry.executable) << entry.path;
  ASSERT_EQ(make_room(), "");
  EXPECT_EQ(tracee::read_file(maps), with_room) << "there was enough";

  EXPECT_EQ(space->unmap_copies(pid(), slack()), "");
  EXPECT_EQ(tracee::read_file(maps), before);
  EXPECT_FALSE(space->foothold().exists());
  EXPECT_FALSE(space->foothold().stands_in(space->memory()));
  EXPECT_TRUE(space->foothold().existed()) << "for children that were forked until then";
  EXPECT_EQ(changed(space->memory()), std::nullopt);
  EXPECT_EQ(live_entries(pid()), 0u);
  EXPECT_EQ(run_child(), 0);
}

TEST_F(AddressSpaceTest, MoreRoomIsMappedWithTheGadgetOfTheFirst) {
  start(tests::wrong_answers);
  ASSERT_EQ(make_room(), "");
  const VirtAddr gadget = space->foothold().gadget();
  EXPECT_EQ(space->make_room(code(), 4096, pid(), tracee::read_maps(pid()), {}), "");
  EXPECT_TRUE(space->has_room(code().begin, 4096));
  EXPECT_EQ(space->foothold().gadget(), gadget);
  EXPECT_EQ(run_child(), 0);
}

TEST_F(AddressSpaceTest, RoomForTheFirstSitesIsOneMapping) {
  start(tests::wrong_answers);
  const size_t before = tracee::read_maps(pid()).size();
  ASSERT_EQ(make_room(), "");
  EXPECT_EQ(tracee::read_maps(pid()).size(), before + 1);
  install_all();
  EXPECT_EQ(space->make_room(code(), 4096, pid(), tracee::read_maps(pid()), {}), "") << "the table moves";
  space->restore(space->memory());
  EXPECT_EQ(space->unmap_copies(pid(), slack()), "");
  EXPECT_EQ(tracee::read_maps(pid()).size(), before);
  EXPECT_EQ(run_child(), 0);
}

TEST_F(AddressSpaceTest, WithoutSlackThereIsNoRoomAndNothingChanges) {
  start(tests::wrong_answers);
  const Range too_small{slack().begin, slack().begin + 8};
  for (Range range : {Range{}, too_small})
    EXPECT_THAT(space->make_room(code(), 1, pid(), tracee::read_maps(pid()), range),
                HasSubstr("16 bytes to spare"));
  EXPECT_EQ(changed(space->memory()), std::nullopt);
  EXPECT_EQ(run_child(), 0);
}

// A child that forks one of its own, which calls the targets and whose exit status becomes the child's.
int fork_and_call() {
  const pid_t pid = fork();
  if (pid == 0) _exit(tests::wrong_answers());
  int status = 0;
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

class ForkedAddressSpace : public AddressSpaceTest {
 protected:
  // The fork child, in its first stop. The parent runs on.
  pid_t fork_child() {
    go.signal();
    EXPECT_EQ(tracee::resume(pid()), Alive::yes);
    const auto event = tracee::consume(pid(), Block::yes);
    EXPECT_TRUE(event && std::holds_alternative<tracee::NewTask>(classify(event->status)));
    const auto forked = static_cast<pid_t>(*tracee::event_message(pid()));
    const auto first = tracee::consume(forked, Block::yes);
    EXPECT_TRUE(first && std::holds_alternative<tracee::Interrupted>(classify(first->status)));
    return forked;
  }
  void install(std::span<const Target> targets) {
    for (const Target& target : targets)
      ASSERT_EQ(reason_of(space->install(target.address(), file_bytes(target.address(), 15))), "installed");
  }
  int finish_parent() {
    const int status = run(*space, pid());
    child->reaped();
    return status;
  }
};

TEST_F(ForkedAddressSpace, ACloneServesTheForkChildByItself) {
  start(fork_and_call);
  install_all();
  const pid_t forked = fork_child();
  auto clone = space->clone_for(forked);
  EXPECT_EQ(clone->size(), kTargetCount);
  EXPECT_EQ(clone->foothold().gadget(), space->foothold().gadget());
  EXPECT_EQ(live_entries(forked), kTargetCount);
  arch::Regs regs;
  regs.set_pc(space->find(kTargets[0].address())->copy);
  EXPECT_EQ(clone->to_program(regs).replayed, clone->find(kTargets[0].address()));
  EXPECT_EQ(run(*clone, forked), 0);
  expect_each_was_hit();
  clone.reset();
  EXPECT_EQ(live_entries(forked), 0u);
  EXPECT_EQ(live_entries(pid()), kTargetCount);
  EXPECT_EQ(finish_parent(), 0);
}

TEST_F(ForkedAddressSpace, AForkAmidInstallingMakesAChildThatHasAllTheSame) {
  start(fork_and_call);
  ASSERT_EQ(make_room(), "");
  const std::span all(kTargets);
  install(all.first(kTargetCount / 2));
  const pid_t forked = fork_child();
  install(all.subspan(kTargetCount / 2));
  auto clone = space->clone_for(forked);
  EXPECT_EQ(run(*clone, forked), 0);
  expect_each_was_hit();
  clone.reset();
  EXPECT_EQ(finish_parent(), 0);
}

TEST_F(ForkedAddressSpace, WhatWasMappedSinceTheForkIsMappedInTheChildToo) {
  start(fork_and_call);
  ASSERT_EQ(make_room(), "");
  const std::span all(kTargets);
  install(all.first(kTargetCount / 2));
  const pid_t forked = fork_child();
  const tracee::ProcessMemory its(forked);
  EXPECT_TRUE(space->foothold().is_whole_in(its));
  // The parent waits for its child by now.
  ASSERT_EQ(tracee::resume(pid()), Alive::yes);
  ASSERT_EQ(tracee::interrupt(pid()), Alive::yes);
  ASSERT_TRUE(tracee::consume(pid(), Block::yes));
  ASSERT_EQ(space->make_room(code(), 4096, pid(), tracee::read_maps(pid()), {}), "") << "the table moves";
  install(all.subspan(kTargetCount / 2));
  EXPECT_FALSE(space->foothold().is_whole_in(its));
  EXPECT_TRUE(space->complete_child(its, forked));
  EXPECT_TRUE(space->foothold().is_whole_in(its));
  EXPECT_EQ(tracee::read_maps(forked).size(), tracee::read_maps(pid()).size()) << "the old table is gone";
  auto clone = space->clone_for(forked);
  EXPECT_EQ(run(*clone, forked), 0);
  expect_each_was_hit();
  clone.reset();
  EXPECT_EQ(finish_parent(), 0);
}

TEST_F(ForkedAddressSpace, AForkChildThatIsNotFollowedRunsWithCleanCode) {
  start(fork_and_call);
  install_all();
  const pid_t forked = fork_child();
  const tracee::ProcessMemory its(forked);
  space->restore(its);
  EXPECT_EQ(changed(its), std::nullopt);
  EXPECT_TRUE(changed(space->memory())) << "the parent keeps its sites";
  ASSERT_EQ(tracee::detach(forked), Alive::yes);
  EXPECT_EQ(finish_parent(), 0);
  EXPECT_THAT(hits, IsEmpty());
}

}  // namespace
}  // namespace rtrace::mech::address_space_test
