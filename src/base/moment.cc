#include "rtrace/base/moment.h"

#include <signal.h>
#include <unistd.h>

#include <array>

#include "rtrace/base/text.h"

namespace rtrace {
namespace {

constexpr std::array<std::string_view, kMoments> kNames = {
    "starting",  "waiting",    "stop-peeked", "registers-due", "registers-written",
    "held-back", "stepping",   "remote-call", "call-begun",    "call-under-way",
    "mapped",    "byte-write", "put-back",    "stop-all",      "detach"};

std::atomic<uint32_t> nowhere;
Moment fatal = Moment::starting;
uint64_t times_left = 0;
bool parent_too = false;

}  // namespace

std::string_view name_of(Moment moment) {
  const auto index = static_cast<size_t>(moment);
  return index < kNames.size() ? kNames[index] : "unknown";
}

namespace moment {

std::atomic<uint32_t>* internal::cell = &nowhere;
bool internal::deadly = false;

void keep_in(std::atomic<uint32_t>* cell) {
  internal::cell = cell != nullptr ? cell : &nowhere;
}

bool die_at(std::string_view when) {
  const auto words = split(when, ':');
  if (words.size() < 2 || words.size() > 3 || (words.size() == 3 && words[2] != "both")) return false;
  const auto times = parse_number(words[1]);
  if (!times || *times == 0) return false;
  for (unsigned index = 0; index < kMoments; ++index) {
    if (kNames[index] != words[0]) continue;
    fatal = static_cast<Moment>(index);
    times_left = *times;
    parent_too = words.size() == 3;
    internal::deadly = true;
    return true;
  }
  return false;
}

void internal::begin(Moment moment) {
  if (moment != fatal || --times_left != 0) return;
  if (parent_too) ::kill(getppid(), SIGKILL);
  ::kill(getpid(), SIGKILL);
}

}  // namespace moment
}  // namespace rtrace
