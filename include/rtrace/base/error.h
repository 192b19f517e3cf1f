// What stops an operation (a launch, an attach, a parse, a load) is an Error; expected absence is an
// optional, a dead tracee a return value, a refusal a variant that carries its reason.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace rtrace {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}

  template <typename... Args>
  static Error make(fmt::format_string<Args...> text, Args&&... args) {
    return Error(fmt::format(text, std::forward<Args>(args)...));
  }

  // "<context>: <errno text>". The errno comes first so that nothing evaluated for the message can change it.
  template <typename... Args>
  static Error from_errno(int error_number, fmt::format_string<Args...> text, Args&&... args) {
    Error error(fmt::format(text, std::forward<Args>(args)...) + ": " + errno_text(error_number));
    error.errno_ = error_number;
    return error;
  }

  // 0 where the error did not come from a system call.
  int error_number() const { return errno_; }

 private:
  static std::string errno_text(int error_number);
  int errno_ = 0;
};

[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& detail);

}  // namespace rtrace

// A broken invariant of rtrace itself. On in release builds. The optional detail is an fmt format and its
// arguments.
#define CHECK(condition, ...)                                                                \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::rtrace::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
