#include "pages.h"

#include <asm/unistd.h>

#include "append.h"
#include "system.h"
#include "threads.h"

namespace rtrace::agent {
namespace {

__attribute__((noinline)) bool kernel_can_read_page(uint64_t page) {
  return kernel_can_read(page * kPage);
}

bool is_known(const Control& control, uint64_t page) {
  const auto* pages = reinterpret_cast<const uint64_t*>(once(control.pages));
  return pages != nullptr && __atomic_load_n(&pages[known_page(page)], __ATOMIC_RELAXED) == page;
}

__attribute__((noinline, cold)) bool becomes_known(const Reader& reader, uint64_t page) {
  if (Slot* slot = own_slot(reader.control))
    ask_within(reader.control, *slot, page);
  else
    ask(reader.control, page);
  return is_known(reader.control, page);
}

bool page_known(const Reader& reader, uint64_t page) {
  if (page == reader.sp / kPage) return true;
  if (page == 0 || page >= kUserEnd / kPage) return false;
  return is_known(reader.control, page) || becomes_known(reader, page);
}

const uint32_t* owner_of(const Reader& reader) {
  static constexpr uint32_t kNobody = kOwnerDied;
  const auto* shared = reinterpret_cast<const SharedHeader*>(once(reader.control.shared));
  return shared == nullptr ? &kNobody : &shared->owner;
}

bool page_readable(const Reader& reader, uint64_t page) {
  if (page == reader.sp / kPage) return true;
  return page_known(reader, page) &&
         rtrace_can_read(reinterpret_cast<const void*>(page * kPage), owner_of(reader)) != 0;
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
  if (address >= kUserEnd) return 0;
  const uint64_t end = address + size;
  for (uint64_t at = address; at < end; at = page_end(at))
    if (at / kPage != sp / kPage && !kernel_can_read_page(at / kPage)) return at - address;
  return size;
}

uint64_t string_bytes(const Reader& reader, uint64_t address, uint64_t bound) {
  uint64_t length = 0;
  while (length < bound) {
    const uint64_t at = address + length;
    if (at >= kUserEnd || !page_known(reader, at / kPage)) break;
    const uint64_t end = page_end(at) - at < bound - length ? page_end(at) : at + bound - length;
    const uint64_t here = rtrace_length_in_page(at, end, owner_of(reader));
    if (here <= end - at) return length + here;
    length += end - at;
  }
  return length;
}

bool load_word(const Reader& reader, uint64_t address, uint64_t& word) {
  return rtrace_load_word(reinterpret_cast<const void*>(address), owner_of(reader), &word) != 0;
}

}  // namespace rtrace::agent
