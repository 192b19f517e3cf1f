#include "debuginfod.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "helper_program.h"
#include "rtrace/base/error.h"
#include "rtrace/base/text.h"

namespace rtrace::session {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kProgram = "debuginfod-find";
constexpr milliseconds kLongest{10'000};

milliseconds limit() {
  const char* text = getenv("DEBUGINFOD_TIMEOUT");
  const auto seconds = text != nullptr ? parse_number(text) : std::nullopt;
  if (!seconds || *seconds == 0 || *seconds > 10) return kLongest;
  return milliseconds(*seconds * 1000);
}

std::string hex_of(std::span<const std::byte> build_id) {
  std::string text;
  for (std::byte byte : build_id) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

Debuginfod::Answer ask_program(const std::string& id, milliseconds left) {
  ProgramAnswer answer = run_program({kProgram, "debuginfo", id}, left);
  if (answer.error != 0) return {{}, fmt::format("{}: {}", kProgram, strerror(answer.error))};
  if (!answer.status)
    return {{}, fmt::format("{} had no answer within {} s", kProgram, (left.count() + 999) / 1000)};
  std::string& text = answer.text;
  text.resize(std::min(text.size(), text.find('\n')));
  if (*answer.status != 0 || text.empty() || text[0] != '/')
    return {{}, "debuginfod knows no debug file for it"};
  return {text, {}};
}

}  // namespace

bool Debuginfod::has_servers() {
  const char* servers = getenv("DEBUGINFOD_URLS");
  return servers != nullptr && *servers != 0;
}

Debuginfod::Answer Debuginfod::ask(std::span<const std::byte> build_id) {
  if (!has_servers() || build_id.empty() || build_id.size() > 64) return {};
  if (!left_) left_ = limit();
  if (left_->count() <= 0) return {{}, "debuginfod took too long before, and is not asked again"};
  const auto begin = Clock::now();
  Answer answer = ask_program(hex_of(build_id), *left_);
  *left_ -= std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
  return answer;
}

}  // namespace rtrace::session
