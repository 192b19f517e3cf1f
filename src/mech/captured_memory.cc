#include "rtrace/mech/captured_memory.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "rtrace/arch/placement.h"

namespace rtrace::mech {
namespace {

std::optional<uint64_t> source_value(const agent::Capture& capture, const arch::Regs& entry,
                                     const uint64_t* result, std::span<const std::byte> stack) {
  switch (capture.source) {
    case agent::Capture::Source::integer_register:
      return entry.integer_argument(capture.index);
    case agent::Capture::Source::result:
      if (result == nullptr) return std::nullopt;
      return *result;
    case agent::Capture::Source::stack_slot: {
      uint64_t value = 0;
      if (stack.size() < (size_t{capture.index} + 1) * sizeof value) return std::nullopt;
      std::memcpy(&value, stack.data() + size_t{capture.index} * sizeof value, sizeof value);
      return value;
    }
  }
  return std::nullopt;
}

uint64_t length_of(const agent::Capture& capture, const arch::Regs& entry, const uint64_t* result) {
  uint64_t held = 0;
  switch (capture.length) {
    case agent::Capture::Length::fixed:
    case agent::Capture::Length::string:
      return capture.bound;
    case agent::Capture::Length::argument:
    case agent::Capture::Length::argument_int:
    case agent::Capture::Length::argument_unsigned:
      held = entry.integer_argument(capture.length_index);
      break;
    case agent::Capture::Length::unknown:
      return 0;
    case agent::Capture::Length::result:
    case agent::Capture::Length::result_int:
    case agent::Capture::Length::result_unsigned:
      held = result != nullptr ? *result : 0;
      break;
  }
  const uint64_t count = agent::counted_by(capture.length, held);
  if (count > capture.bound) return static_cast<int64_t>(count) < 0 ? 0 : capture.bound;
  return std::min<uint64_t>(count * capture.scale, capture.bound);
}

}  // namespace

void CapturedMemory::clear() {
  pieces_.clear();
  bytes_.clear();
  held_.clear();
  live_ = nullptr;
}

// Pieces never cross a page, so that an unmapped page costs only what lies in it.
void CapturedMemory::want(VirtAddr address, size_t size) {
  while (size > 0) {
    const size_t in_page = std::min<size_t>(size, arch::kPageSize - address.value % arch::kPageSize);
    pieces_.push_back({address, nullptr, in_page, 0});
    address = address + in_page;
    size -= in_page;
  }
}

void CapturedMemory::want(const agent::CapturePlan& plan, const arch::Regs& entry, const uint64_t* result,
                          std::span<const std::byte> stack) {
  for (size_t i = 0; i < plan.count; ++i) {
    const agent::Capture& capture = plan.captures[i];
    auto pointer = source_value(capture, entry, result, stack);
    // The first page is never mapped (vm.mmap_min_addr), and the upper half belongs to the kernel.
    if (!pointer || *pointer < arch::kPageSize || *pointer >> 47 != 0) continue;
    want(VirtAddr{*pointer}, length_of(capture, entry, result));
  }
}

void CapturedMemory::fetch(const tracee::ProcessMemory& memory) {
  size_t total = 0;
  for (const auto& piece : pieces_) total += piece.size;
  bytes_.resize(total);
  size_t offset = 0;
  for (auto& piece : pieces_) {
    piece.out = bytes_.data() + offset;
    piece.got = 0;
    offset += piece.size;
  }
  memory.read_gathered(pieces_);
}

void CapturedMemory::hold(VirtAddr address, std::span<const std::byte> bytes) {
  held_.push_back({address, bytes});
}

// What is known from there on, up to the end of one piece.
std::span<const std::byte> CapturedMemory::known_from(VirtAddr at) const {
  for (const auto& piece : pieces_)
    if (piece.address <= at && at < piece.address + piece.got)
      return {piece.out + (at - piece.address), piece.got - (at - piece.address)};
  for (const Held& held : held_)
    if (held.address <= at && at < held.address + held.bytes.size())
      return held.bytes.subspan(at - held.address);
  return {};
}

size_t CapturedMemory::read(VirtAddr address, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const auto known = known_from(address + done);
    if (known.empty()) break;
    const size_t count = std::min(out.size() - done, known.size());
    std::memcpy(out.data() + done, known.data(), count);
    done += count;
  }
  if (done < out.size() && live_ != nullptr) done += live_->read(address + done, out.subspan(done));
  return done;
}

}  // namespace rtrace::mech
