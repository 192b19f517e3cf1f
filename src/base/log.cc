#include "rtrace/base/log.h"

#include <unistd.h>

#include <array>

#include "rtrace/base/error.h"
#include "rtrace/base/text.h"

namespace rtrace::log {
namespace {

constexpr size_t kTopics = static_cast<size_t>(Topic::kCount);
constexpr std::array<std::string_view, kTopics> kNames = {"elf",   "loader", "plan",   "tracee", "mech",
                                                          "event", "proto",  "decode", "sink",   "session"};
std::array<int, kTopics> levels{};

void configure_one(std::string_view word) {
  int level = 1;
  std::string_view name = word;
  if (auto colon = word.find(':'); colon != std::string_view::npos) {
    name = word.substr(0, colon);
    auto number = parse_number(word.substr(colon + 1));
    if (!number || *number > 9) throw Error::make("-D {}: the level is a number from 0 to 9", word);
    level = static_cast<int>(*number);
  } else if (parse_number(word)) {
    levels.fill(*parse_number(word) == 0
                    ? 0
                    : 1);  // ltrace's octal mask: its bits name its own sources, so any bit is all
    return;
  }
  bool known = name == "all";
  for (size_t i = 0; i < kTopics; ++i) {
    if (name != "all" && name != kNames[i]) continue;
    levels[i] = level;
    known = true;
  }
  if (!known) throw Error::make("-D {}: no such topic; topics are all, {}", word, fmt::join(kNames, ", "));
}

}  // namespace

int level(Topic topic) {
  return levels[static_cast<size_t>(topic)];
}
void set_level(Topic topic, int level) {
  levels[static_cast<size_t>(topic)] = level;
}

void configure(std::string_view topics) {
  for (std::string_view word : split(topics, ',')) configure_one(word);
}

void write(Topic topic, const std::string& line) {
  std::string text = fmt::format("rtrace[{}] {}: ", getpid(), kNames[static_cast<size_t>(topic)]);
  append_printable(text, line, false);
  text += '\n';
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace rtrace::log
