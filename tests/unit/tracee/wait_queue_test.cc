#include "rtrace/tracee/wait_queue.h"

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <set>

#include "tracee/child.h"

namespace rtrace::tracee::wait_queue_test {
namespace {

using tests::Child;
using tests::Pipe;

// Children that are seized before they meet their first int3.
class WaitQueueTest : public testing::Test {
 protected:
  template <typename Body>
  void start(size_t count, Body body) {
    for (size_t i = 0; i < count; ++i) {
      children.push_back(std::make_unique<Child>([&] { return go.wait() ? body() : 1; }));
      ASSERT_EQ(seize(children.back()->pid()), 0);
      tasks[children.back()->pid()] = 0;
    }
    for (size_t i = 0; i < count; ++i) go.signal();
    for (const auto& [tid, seen] : tasks) wait_for_stop(tid);
  }
  static void wait_for_stop(pid_t tid) {
    while (!peek(tid)) sched_yield();
  }

  Pipe go;
  std::vector<std::unique_ptr<Child>> children;
  std::map<pid_t, size_t> tasks;  // and the number of the last event of each
  WaitQueue queue;
};

TEST_F(WaitQueueTest, OfManyTasksThatStopConstantlyNoneWaitsForEver) {
  constexpr size_t kTasks = 6, kEvents = 600;
  start(kTasks, [] {
    for (;;) asm volatile("int3");
    return 0;
  });
  size_t longest = 0;
  for (size_t number = 1; number <= kEvents; ++number) {
    const PeekAnswer answer = queue.next(tasks, Block::yes);
    ASSERT_TRUE(answer.event);
    ASSERT_TRUE(std::holds_alternative<Trap>(classify(answer.event->status)));
    size_t& last = tasks.at(answer.event->tid);
    longest = std::max(longest, number - last);
    last = number;
    ASSERT_EQ(resume(answer.event->tid), Alive::yes);
    wait_for_stop(answer.event->tid);
  }
  for (const auto& [tid, last] : tasks) longest = std::max(longest, kEvents - last);
  // A round by the kernel's order, a round by our own, and the eight events before the first look.
  EXPECT_LE(longest, 2 * kTasks + 8);
}

TEST_F(WaitQueueTest, AnEventThatWasHandledElsewhereIsForgotten) {
  Pipe end;
  start(3, [&] {
    asm volatile("int3");
    return end.wait() ? 0 : 1;
  });
  // Nobody is resumed: the kernel names the same task again and again until the queue asks for itself.
  std::optional<WaitEvent> event;
  std::set<pid_t> unseen;
  for (const auto& [tid, seen] : tasks) unseen.insert(tid);
  for (int i = 0; i < 8; ++i) event = queue.next(tasks, Block::no).event;
  ASSERT_TRUE(event);
  unseen.erase(event->tid);
  const pid_t elsewhere = *unseen.rbegin();
  ASSERT_TRUE(consume(elsewhere, Block::no));
  ASSERT_EQ(resume(elsewhere), Alive::yes);
  queue.forget(elsewhere);
  for (int i = 0; i < 20; ++i) {
    event = queue.next(tasks, Block::no).event;
    ASSERT_TRUE(event);
    EXPECT_NE(event->tid, elsewhere);
  }
}

TEST_F(WaitQueueTest, NothingToReportIsToldFromNobodyToWaitFor) {
  start(1, [] {
    asm volatile("int3");
    pause();
    return 0;
  });
  const pid_t tid = children[0]->pid();
  ASSERT_EQ(queue.next(tasks, Block::no).event->tid, tid);
  ASSERT_EQ(resume(tid), Alive::yes);
  PeekAnswer answer = queue.next(tasks, Block::no);
  EXPECT_FALSE(answer.event);
  EXPECT_FALSE(answer.no_children);
  children.clear();
  answer = queue.next(std::map<pid_t, size_t>(), Block::yes);
  EXPECT_FALSE(answer.event);
  EXPECT_TRUE(answer.no_children);
}

}  // namespace
}  // namespace rtrace::tracee::wait_queue_test
