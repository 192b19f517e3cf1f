#include "rtrace/mech/semaphores.h"

#include <limits>

namespace rtrace::mech {
namespace {

using Counter = uint16_t;

bool write_counter(const tracee::ProcessMemory& memory, VirtAddr semaphore, unsigned value) {
  const auto counter = static_cast<Counter>(value);
  return memory.write(semaphore, std::as_bytes(std::span(&counter, 1))) == 0;
}

}  // namespace

bool lower_semaphore(const tracee::ProcessMemory& memory, VirtAddr semaphore) {
  const auto now = memory.read_value<Counter>(semaphore);
  return now && *now > 0 && write_counter(memory, semaphore, *now - 1U);
}

bool Semaphores::raise(VirtAddr semaphore, const tracee::ProcessMemory& memory, Foothold& foothold,
                       PatchLedger& ledger) {
  if (raised_.contains(semaphore)) return true;
  const auto now = memory.read_value<Counter>(semaphore);
  if (!now || *now == std::numeric_limits<Counter>::max()) return false;
  if (!write_counter(memory, semaphore, *now + 1U)) return false;
  auto noted = PatchLedger::kNone;
  if (!foothold.add_semaphore(memory, semaphore)) noted = ledger.publish_semaphore(memory.pid(), semaphore);
  raised_.emplace(semaphore, noted);
  return true;
}

void Semaphores::lower(const tracee::ProcessMemory& memory, Foothold& foothold, PatchLedger& ledger) {
  for (const auto& [semaphore, noted] : raised_) {
    ledger.withdraw(noted);
    foothold.remove_semaphore(memory, semaphore);
    (void)lower_semaphore(memory, semaphore);
  }
  raised_.clear();
}

void Semaphores::lower_in(const tracee::ProcessMemory& child, const Foothold& foothold) const {
  for (const auto& [semaphore, noted] : raised_) {
    foothold.remove_semaphore_of(child, semaphore);
    (void)lower_semaphore(child, semaphore);
  }
}

void Semaphores::forget(Range range, const tracee::ProcessMemory& memory, Foothold& foothold,
                        PatchLedger& ledger) {
  std::erase_if(raised_, [&](const auto& one) {
    if (!range.contains(one.first)) return false;
    foothold.remove_semaphore(memory, one.first);
    ledger.withdraw(one.second);
    return true;
  });
}

void Semaphores::forget_all(PatchLedger& ledger) {
  for (const auto& [semaphore, noted] : raised_) ledger.withdraw(noted);
  raised_.clear();
}

Semaphores Semaphores::clone_for(pid_t child, PatchLedger& ledger) const {
  Semaphores twin;
  for (const auto& [semaphore, noted] : raised_)
    twin.raised_.emplace(semaphore,
                         noted == PatchLedger::kNone ? noted : ledger.publish_semaphore(child, semaphore));
  return twin;
}

}  // namespace rtrace::mech
