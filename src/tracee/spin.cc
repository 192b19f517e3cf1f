#include "rtrace/tracee/spin.h"

#include <time.h>

#include <algorithm>

namespace rtrace::tracee {
namespace {

constexpr uint64_t kLongest = 60'000;  // ns: twice what a stop took with a tracer that stays awake

uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

bool SpinChoice::next() {
  if (left_ == 0) return true;
  --left_;
  return false;
}

void SpinChoice::found() {
  hope_ = std::min(hope_ + 1, kSure);
  if (hope_ == kSure) pause_ = kFirstPause;
}

void SpinChoice::gave_up() {
  hope_ -= kPenalty;
  if (hope_ >= 0) return;
  hope_ = 0;
  left_ = pause_;
  pause_ = std::min(pause_ * 2, kLongestPause);
}

PeekAnswer Spin::peek(Block block) {
  found_awake_ = false;
  if (!elsewhere_ || block == Block::no || !choice_.next()) return peek_any(block);
  const uint64_t end = now() + kLongest;
  do {
    const PeekAnswer answer = peek_any(Block::no);
    if (!answer.event && !answer.no_children) continue;
    choice_.found();
    found_awake_ = true;
    return answer;
  } while (now() < end);
  choice_.gave_up();
  return peek_any(block);
}

}  // namespace rtrace::tracee
