#include "rtrace/base/memory.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace rtrace {
namespace {
constexpr uint64_t kPage = 4096;
}

void Memory::read_gathered(std::span<Piece> pieces) const {
  for (Piece& piece : pieces) piece.got = read(piece.address, {piece.out, piece.size});
}

std::optional<Memory::CString> Memory::read_c_string(VirtAddr address, size_t limit) const {
  CString result;
  bool any = false;
  while (result.text.size() < limit) {
    // Never across a page border: what lies behind it may not be mapped, and must not fail what lies before.
    VirtAddr at = address + result.text.size();
    std::byte chunk[256];
    size_t want =
        std::min({sizeof chunk, limit - result.text.size(), static_cast<size_t>(kPage - at.value % kPage)});
    size_t got = read(at, std::span(chunk, want));
    if (got == 0) break;
    any = true;
    const auto* text = reinterpret_cast<const char*>(chunk);
    if (const void* nul = std::memchr(text, 0, got)) {
      result.text.append(text, static_cast<const char*>(nul));
      result.terminated = true;
      return result;
    }
    result.text.append(text, got);
    if (got < want) break;
  }
  if (!any && limit > 0) return std::nullopt;
  return result;
}

void BufferMemory::add(VirtAddr address, std::span<const std::byte> bytes) {
  pieces_[address].assign(bytes.begin(), bytes.end());
}

void BufferMemory::add(VirtAddr address, std::string_view bytes) {
  add(address, std::as_bytes(std::span(bytes)));
}

size_t BufferMemory::read(VirtAddr address, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    VirtAddr at = address + done;
    auto piece = pieces_.upper_bound(at);
    if (piece == pieces_.begin()) break;
    --piece;
    uint64_t offset = at - piece->first;
    if (offset >= piece->second.size()) break;
    size_t count = std::min(out.size() - done, static_cast<size_t>(piece->second.size() - offset));
    std::memcpy(out.data() + done, piece->second.data() + offset, count);
    done += count;
  }
  return done;
}

}  // namespace rtrace
