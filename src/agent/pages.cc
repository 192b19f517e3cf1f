#include "pages.h"

#include <asm/unistd.h>

#include "append.h"
#include "system.h"
#include "threads.h"

namespace rtrace::agent {
namespace {

// For where no tracer may be there to ask. rt_sigprocmask() copies the new mask before it looks at
// `how`: EFAULT where it cannot be read, EINVAL where it can, and nothing else happens (kernel/signal.c).
__attribute__((noinline)) bool kernel_can_read(uint64_t page) {
  constexpr long kEfault = -14;
  constexpr uint64_t kNoSuchHow = 0x7fffffff;
  return system_call(__NR_rt_sigprocmask, kNoSuchHow, page * kPage, 0, sizeof(uint64_t)) != kEfault;
}

bool is_known(const Control& control, uint64_t page) {
  const auto* pages = reinterpret_cast<const uint64_t*>(control.pages);
  return __atomic_load_n(&pages[known_page(page)], __ATOMIC_RELAXED) == page;
}

__attribute__((noinline, cold)) bool becomes_known(const Reader& reader, uint64_t page) {
  // A reader that names it would be one word too long for registers.
  if (Slot* slot = own_slot(reader.control))
    ask_within(reader.control, *slot, page);
  else
    ask(reader.control, page);
  return is_known(reader.control, page);
}

bool page_readable(const Reader& reader, uint64_t page) {
  if (page == reader.sp / kPage) return true;
  if (page == 0 || page >= kUserEnd / kPage) return false;
  if (!is_known(reader.control, page) && !becomes_known(reader, page)) return false;
  const auto& shared = *reinterpret_cast<const SharedHeader*>(reader.control.shared);
  return rtrace_can_read(reinterpret_cast<const void*>(page * kPage), &shared.owner) != 0;
}

constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0x8080808080808080;

uint64_t zero_bytes(uint64_t word) {
  return (word - kOnes) & ~word & kHighs;
}

// Up to and with the first NUL in [begin, end), which lies in one page; its length where there is none. Words
// are read whole, and aligned: they stay in the page.
RTRACE_ANY_MEMORY uint64_t length_in_page(uint64_t begin, uint64_t end) {
  uint64_t at = begin & ~uint64_t{7};
  const uint64_t before = (uint64_t{1} << (begin % 8 * 8)) - 1;
  uint64_t zeros = zero_bytes(*reinterpret_cast<const uint64_t*>(at) | before);
  while (zeros == 0) {
    at += 8;
    if (at >= end) return end - begin;
    zeros = zero_bytes(*reinterpret_cast<const uint64_t*>(at));
  }
  const uint64_t length = at + static_cast<uint64_t>(__builtin_ctzll(zeros)) / 8 + 1 - begin;
  return length < end - begin ? length : end - begin;
}

uint64_t page_end(uint64_t address) {
  return address / kPage * kPage + kPage;
}

}  // namespace

uint64_t readable_bytes(const Reader& reader, uint64_t address, uint64_t size) {
  if (size == 0 || address >= kUserEnd) return 0;
  if (size > kUserEnd - address) size = kUserEnd - address;
  const uint64_t end = address + size;
  for (uint64_t at = address; at < end; at = page_end(at))
    if (!page_readable(reader, at / kPage)) return at - address;
  return size;
}

uint64_t readable_bytes(uint64_t sp, uint64_t address, uint64_t size) {
  const uint64_t end = address + size;
  for (uint64_t at = address; at < end; at = page_end(at))
    if (at / kPage != sp / kPage && !kernel_can_read(at / kPage)) return at - address;
  return size;
}

uint64_t string_bytes(const Reader& reader, uint64_t address, uint64_t bound) {
  uint64_t length = 0;
  while (length < bound) {
    const uint64_t at = address + length;
    if (at >= kUserEnd || !page_readable(reader, at / kPage)) break;
    const uint64_t end = page_end(at) - at < bound - length ? page_end(at) : at + bound - length;
    const uint64_t here = length_in_page(at, end);
    length += here;
    if (here < end - at || *reinterpret_cast<const char*>(end - 1) == 0) break;
  }
  return length;
}

}  // namespace rtrace::agent
