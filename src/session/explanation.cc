#include "explanation.h"

#include <algorithm>

#include "rtrace/arch/insn.h"
#include "rtrace/base/text.h"

namespace rtrace::session {
namespace {

constexpr size_t kAliases = 3;

// "push rbp": the bytes before the words would tell a reader nothing here.
std::string instruction(std::span<const std::byte> code, VirtAddr address) {
  const std::string text = arch::disassemble(code.first(std::min(code.size(), arch::kMaxInsn)), address);
  const auto words = text.find("  ");
  return words == std::string::npos ? text : text.substr(words + 2);
}

std::string passing(const mech::BreakpointSite& site, std::span<const std::byte> code) {
  const std::string displaced =
      code.empty() ? "the instruction there" : "'" + instruction(code, site.address) + "'";
  if (site.emulation) return displaced + " is emulated";
  if (site.copy) return displaced + " runs out of line";
  return displaced + " is stepped over";
}

std::string other_names(const plan::ProbePoint& point, const Options& options) {
  if (point.aliases.empty()) return {};
  std::string text = "; also called ";
  const size_t shown = std::min(point.aliases.size(), kAliases);
  for (size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + shown_name(point.aliases[i], options);
  if (point.aliases.size() > shown) text += fmt::format(" and {} more", point.aliases.size() - shown);
  return text;
}

}  // namespace

std::string shown_name(const std::string& symbol, const Options& options) {
  const auto demangled = options.text.demangle ? demangle(symbol) : std::nullopt;
  return demangled.value_or(symbol);
}

std::string explain_armed(const Probe& probe, const plan::ProbePoint& point, const mech::BreakpointSite& site,
                          std::span<const std::byte> code, const Options& options) {
  decode::ProbeLabel label = probe.label;
  label.name = shown_name(label.name, options);
  std::string text = fmt::format("{} at {}: breakpoint; {}; {}; prototype: {}", label.text(), point.address,
                                 point.reason, passing(site, code), probe.prototype);
  if (probe.prototype.starts_with("none")) text += "; four arguments are guessed";
  if (point.tail_jump) text += "; it counts where the called function is then entered";
  if (point.no_return) text += "; it is jumped to, so its return is not seen";
  return text + other_names(point, options);
}

}  // namespace rtrace::session
