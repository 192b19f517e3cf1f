// rtrace's own log: by topic, to stderr, off unless `-D TOPIC[:LEVEL]` asks. The only global state there is.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace rtrace::log {

enum class Topic { elf, loader, plan, tracee, mech, event, proto, decode, sink, session, kCount };

// 0 is off, 1 says what was done, 2 also each stop, 3 everything.
int level(Topic topic);
void set_level(Topic topic, int level);

// "mech,elf:2", "all", or ltrace's octal mask ("077"). Throws Error that names the word it did not know.
void configure(std::string_view topics);

void write(Topic topic, const std::string& line);

}  // namespace rtrace::log

#define RTRACE_LOG(topic, at_level, ...)                                              \
  do {                                                                                \
    if (::rtrace::log::level(::rtrace::log::Topic::topic) >= (at_level)) [[unlikely]] \
      ::rtrace::log::write(::rtrace::log::Topic::topic, ::fmt::format(__VA_ARGS__));  \
  } while (false)
