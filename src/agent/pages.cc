#include "pages.h"

#include <asm/unistd.h>

#include "system.h"

// What is read here is the program's, whatever a sanitizer knows of it.
#define RTRACE_ANY_MEMORY __attribute__((no_sanitize("address", "undefined")))

namespace rtrace::agent {
namespace {

constexpr uint64_t kUserEnd = (uint64_t{1} << 47) - kPage;
constexpr unsigned kAgeShift = 22;  // 1.4 ms at 3 GHz

// rt_sigprocmask() copies the new mask before it looks at `how`: EFAULT where it cannot be read, EINVAL where
// it can, and nothing else happens (kernel/signal.c).
__attribute__((noinline)) bool kernel_can_read(uint64_t page) {
  constexpr long kEfault = -14;
  constexpr uint64_t kNoSuchHow = 0x7fffffff;
  return system_call(__NR_rt_sigprocmask, kNoSuchHow, page * kPage, 0, sizeof(uint64_t)) != kEfault;
}

// The page is stored before the stamp, and each in one piece: a handler in between finds a page that was just
// seen to be readable.
bool page_readable(const Reader& reader, uint64_t page) {
  const Control& control = reader.control;
  Slot& slot = reader.slot;
  if (page == reader.sp / kPage) return true;
  if (page > reader.sp / kPage && reader.sp >= slot.stack_begin && page * kPage < slot.stack_end) return true;
  if (page == 0 || page >= kUserEnd / kPage) return false;
  if (control.cache_pages == 0) return kernel_can_read(page);
  const auto& shared = *reinterpret_cast<const SharedHeader*>(control.shared);
  const uint64_t stamp =
      __atomic_load_n(&shared.mappings, __ATOMIC_ACQUIRE) << 32 | (reader.ticks >> kAgeShift & 0xffffffff);
  PageKnown& known = slot.pages[page % kPagesKnown];
  if (known.page == page && known.stamp == stamp) return true;
  if (!kernel_can_read(page)) return false;
  __atomic_store_n(&known.page, page, __ATOMIC_RELAXED);
  asm volatile("" ::: "memory");
  __atomic_store_n(&known.stamp, stamp, __ATOMIC_RELAXED);
  return true;
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
