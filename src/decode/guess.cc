#include "guess.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "rtrace/base/text.h"
#include "scalars.h"
#include "utf8.h"

namespace rtrace::decode {
namespace {

constexpr size_t kShortestText = 3;
// Below vm.mmap_min_addr's default, and above what user space has (47 bits), nothing is ever mapped.
constexpr uint64_t kLowest = 0x10000;
constexpr uint64_t kHighest = uint64_t{1} << 47;

bool is_printable(std::string_view text, bool may_end_inside_a_character) {
  while (!text.empty()) {
    auto c = static_cast<unsigned char>(text.front());
    if ((c >= ' ' && c < 0x7f) || c == '\n' || c == '\t' || c == '\r') {
      text.remove_prefix(1);
      continue;
    }
    size_t length = utf8_sequence(text);
    if (length == 0) return may_end_inside_a_character && is_cut_utf8(text);
    text.remove_prefix(length);
  }
  return true;
}

const proto::Type& guessed_type() {
  static const proto::TypeRef kType = proto::make_integer(8, true);
  return *kType;
}

}  // namespace

std::optional<Value> guess_text(uint64_t address, const Memory& memory, const Limits& limits) {
  if (address < kLowest || address >= kHighest) return std::nullopt;
  const size_t wanted = std::max(limits.string, kShortestText) + 1;
  auto text = memory.read_c_string({address}, wanted);
  if (!text || text->text.size() < kShortestText) return std::nullopt;
  // Text that goes on behind what is shown counts as terminated: what was seen of it is long enough.
  bool goes_on = !text->terminated && text->text.size() == wanted;
  if ((!text->terminated && !goes_on) || !is_printable(text->text, goes_on)) return std::nullopt;
  Value value;
  value.kind = Value::Kind::string;
  value.cut = text->text.size() > limits.string;
  value.bytes = std::move(text->text);
  if (value.cut) value.bytes.resize(limits.string);
  value.raw = address;
  return value;
}

std::vector<Argument> guess_arguments(const arch::Regs& regs, const Memory& memory, const Limits& limits) {
  std::vector<Argument> arguments(kGuessed);
  for (unsigned i = 0; i < kGuessed; ++i) {
    uint64_t raw = regs.integer_argument(i);
    arguments[i].value = guess_value(raw, memory, limits);
    arguments[i].type = arguments[i].value.kind == Value::Kind::string ? "string" : kGuessedType;
  }
  return arguments;
}

Value guess_value(uint64_t raw, const Memory& memory, const Limits& limits) {
  auto text = guess_text(raw, memory, limits);
  return text ? std::move(*text) : integral_value(guessed_type(), raw, proto::Lens::guess);
}

Value guess_result(const arch::Regs& exit) {
  return integral_value(guessed_type(), exit.result(), proto::Lens::guess);
}

Value changed(const Value& before, Value after) {
  if (before == after) return after;
  Value value;
  value.kind = Value::Kind::changed;
  value.members.push_back(before);
  value.members.push_back(std::move(after));
  return value;
}

}  // namespace rtrace::decode
