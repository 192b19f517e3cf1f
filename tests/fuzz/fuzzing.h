// What the fuzzers share: taking pieces off their input, and saying what must hold.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "rtrace/base/unique_fd.h"

namespace rtrace::fuzz {

// A broken promise ends the run as a crash does, so that libFuzzer keeps the input.
template <typename... Args>
void must_hold(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (condition) return;
  const std::string line = fmt::format(text, std::forward<Args>(args)...);
  std::fprintf(stderr, "broken promise: %s\n", line.c_str());
  std::abort();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  // Zeros where the input has ended.
  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    std::string_view bytes = take_bytes(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::string_view take_bytes(size_t most) {
    std::string_view bytes = rest_.substr(0, most);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view take_line() {
    std::string_view line = rest_.substr(0, rest_.find('\n'));
    rest_.remove_prefix(std::min(line.size() + 1, rest_.size()));
    return line;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

inline bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f; });
}

inline UniqueFd file_of(std::string_view bytes) {
  UniqueFd fd(memfd_create("fuzz", MFD_CLOEXEC));
  must_hold(::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "a memfd takes {} bytes", bytes.size());
  return fd;
}

}  // namespace rtrace::fuzz
