#include "rtrace/arch/prologue.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "copy.h"
#include "encoding.h"
#include "rtrace/base/error.h"

namespace rtrace::arch {
namespace {

struct Step {
  VirtAddr from;
  std::span<const std::byte> bytes;
  Insn insn;
  Encoding encoding;

  VirtAddr next() const { return from + insn.length; }
  bool call() const { return insn.kind == Insn::Kind::call || insn.kind == Insn::Kind::call_indirect; }
  // Kernel entries that are restarted with rip -= 2 (do_signal in the kernel's arch/x86); int 0x80 is one in
  // 64-bit code too.
  bool system_call() const { return insn.kind == Insn::Kind::syscall || encoding.is(0, 0xcd); }
};

bool falls_through(Insn::Kind kind) {
  return kind != Insn::Kind::jump && kind != Insn::Kind::jump_indirect && kind != Insn::Kind::ret &&
         kind != Insn::Kind::undefined;
}

// pause and endbr64 do nothing either, but no assembler pads with them: a function without a symbol may begin
// there.
bool is_padding(const Step& step) {
  if (step.insn.kind == Insn::Kind::int3) return true;
  return step.insn.kind == Insn::Kind::nop && !step.encoding.rep;
}

// Which instructions the jump overwrites, before any is moved.
class Survey {
 public:
  explicit Survey(const EntryCode& entry) : entry_(entry), at_(entry.from), end_(entry.from) {}

  std::optional<Refused> run();

  VirtAddr at() const { return at_; }
  VirtAddr end() const { return end_; }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::optional<Refused> take_next();
  std::optional<Refused> check_targets() const;
  std::optional<Refused> check_last() const;
  std::optional<Step> step_at(VirtAddr address) const;
  bool is_target(VirtAddr address) const;
  Refused refused(std::string_view reason, VirtAddr address) const {
    return {fmt::format("{}: {}", reason, disassemble(rest(address), address))};
  }
  std::span<const std::byte> rest(VirtAddr address) const {
    return entry_.bytes.subspan(std::min<uint64_t>(address - entry_.from, entry_.bytes.size()));
  }

  const EntryCode& entry_;
  VirtAddr at_, end_;
  bool reached_ = true;      // the instruction at `end_`, from those before it
  std::vector<Step> steps_;  // those that are reached
};

std::optional<Refused> Survey::run() {
  auto first = step_at(at_);
  if (first && first->insn.kind == Insn::Kind::nop && first->encoding.is(1, 0x1e) &&
      first->encoding.modrm == 0xfa)
    at_ = end_ = first->next();
  while (end_ < at_ + entry_.jump)
    if (auto reason = take_next()) return reason;
  if (auto reason = check_targets()) return reason;
  return check_last();
}

std::optional<Refused> Survey::take_next() {
  if (rest(end_).empty())
    return refused(fmt::format("only {} bytes up to the next function", end_ - at_), at_);
  auto step = step_at(end_);
  if (!step) return refused("no instruction that can be moved", end_);
  bool behind_function = end_ >= entry_.from + entry_.size;
  if (behind_function && !is_padding(*step))
    return refused(fmt::format("only {} bytes up to other code", end_ - at_), end_);
  reached_ = reached_ || is_target(end_);
  if (!reached_) {
    if (!is_padding(*step)) return refused("code that no instruction before it leads to", end_);
    end_ = std::min(step->next(), at_ + entry_.jump);
    return std::nullopt;
  }
  if (step->insn.kind == Insn::Kind::int3) return refused("an int3 of the program's own", end_);
  if (step->call() && step->next() < at_ + entry_.jump)
    return refused("its return address lies inside the jump", end_);
  end_ = step->next();
  reached_ = falls_through(step->insn.kind);
  steps_.push_back(*step);
  return std::nullopt;
}

// A call has to enter the function as any other does, so it may lead to the jump itself.
std::optional<Refused> Survey::check_targets() const {
  for (const Step& step : steps_) {
    VirtAddr target = step.insn.target.value_or(end_);
    if (target <= entry_.from || target >= end_) continue;
    bool to_a_step =
        std::any_of(steps_.begin(), steps_.end(), [&](const Step& each) { return each.from == target; });
    if (step.call() ? target > at_ : !to_a_step) return refused("it leads to inside the jump", step.from);
  }
  return std::nullopt;
}

std::optional<Refused> Survey::check_last() const {
  const Step& last = steps_.back();
  if (!last.system_call()) return std::nullopt;
  return refused("a system call that would be restarted inside the jump", last.from);
}

std::optional<Step> Survey::step_at(VirtAddr address) const {
  auto bytes = rest(address);
  auto insn = decode(bytes, address);
  if (!insn) return std::nullopt;
  bytes = bytes.first(insn->length);
  return Step{address, bytes, *insn, *parse_encoding(bytes)};
}

bool Survey::is_target(VirtAddr address) const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [&](const Step& step) { return !step.call() && step.insn.target == address; });
}

}  // namespace

bool ends_for_good(std::span<const std::byte> code, VirtAddr from) {
  bool goes_on = true;
  while (!code.empty()) {
    const auto insn = decode(code, from);
    if (!insn || insn->length > code.size()) return false;
    goes_on = falls_through(insn->kind);
    code = code.subspan(insn->length);
    from = from + insn->length;
  }
  return !goes_on;
}

bool is_padding(std::span<const std::byte> code, VirtAddr from, size_t size) {
  for (size_t at = 0; at < size;) {
    const auto rest = code.subspan(at);
    const auto insn = decode(rest, from + at);
    if (!insn) return false;
    const auto bytes = rest.first(insn->length);
    if (!is_padding({from + at, bytes, *insn, *parse_encoding(bytes)})) return false;
    at += insn->length;
  }
  return true;
}

std::optional<uint8_t> offset_in_copy(const Prologue& prologue, VirtAddr pc) {
  if (!prologue.range().contains(pc)) return std::nullopt;
  const auto begins = [&](const ResumePoint& point) { return point.address == pc && point.sp_adjust == 0; };
  const auto found = std::ranges::find_if(prologue.copy.points, begins);
  return found != prologue.copy.points.end() ? std::optional(found->offset) : std::nullopt;
}

std::variant<Prologue, Refused> relocate_prologue(const EntryCode& entry, VirtAddr to) {
  Survey survey(entry);
  if (auto refused = survey.run()) return *refused;
  Copy copy(to, {entry.from, survey.end()});
  for (const Step& step : survey.steps())
    if (Reason reason = copy.add(step.bytes, step.from, step.insn, step.encoding))
      return Refused{fmt::format("{}: {}", *reason, disassemble(step.bytes, step.from))};
  Prologue prologue;
  prologue.at = survey.at();
  prologue.covered = static_cast<uint8_t>(survey.end() - survey.at());
  prologue.calls = survey.steps().back().call();
  prologue.copy = copy.take();
  CHECK(prologue.copy.code.size() <= kMaxPrologue);
  return prologue;
}

}  // namespace rtrace::arch
