// First line: an expression of --where. Behind it: the values of a call that it is asked of.
#include "fuzzing.h"
#include "rtrace/sink/where.h"

namespace rtrace::sink {
namespace {

std::optional<Where> read(std::string_view text) {
  try {
    return Where::parse(text);
  } catch (const WhereError& error) {
    fuzz::must_hold(error.position() <= text.size(), "position {} of {}", error.position(), text.size());
    const std::string_view message = error.what();
    fuzz::must_hold(std::count(message.begin(), message.end(), '\n') == 2, "not three lines: {}", message);
    fuzz::must_hold(std::none_of(message.begin(), message.end(),
                                 [](char c) { return (c > 0 && c < ' ' && c != '\n') || c == 0x7f; }),
                    "control characters in a message");
    return std::nullopt;
  }
}

decode::Value value_from(fuzz::Input& input, int depth) {
  decode::Value value;
  value.kind = static_cast<decode::Value::Kind>(input.take<uint8_t>() %
                                                (static_cast<int>(decode::Value::Kind::error_result) + 1));
  const auto bits = input.take<uint8_t>();
  value.is_signed = (bits & 1) != 0;
  value.cut = (bits & 2) != 0;
  value.size = (bits & 4) != 0 ? 16 : 8;
  value.raw = input.take<uint64_t>();
  value.high = value.size == 16 ? input.take<uint64_t>() : 0;
  value.number = static_cast<long double>(input.take<int32_t>());
  value.bytes = value.text = std::string(input.take_line());
  for (int i = depth > 0 ? input.take<uint8_t>() % 3 : 0; i > 0; --i) {
    value.members.push_back(value_from(input, depth - 1));
    value.members.back().name = "m";
  }
  return value;
}

}  // namespace
}  // namespace rtrace::sink

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtrace;
  using namespace rtrace::sink;
  fuzz::Input input(data, size);
  const std::string text(input.take_line());
  const auto where = read(text);
  if (!where) return 0;
  std::vector<decode::Argument> arguments;
  for (const char* name : {"path", "buf", "", "size"}) arguments.push_back({name, "", value_from(input, 2)});
  const decode::Value result = value_from(input, 1);
  CallFacts facts;
  facts.name = "open";
  facts.duration = input.take<uint64_t>();
  facts.at_entry = std::span(arguments).first(2);
  facts.at_return = std::span(arguments).subspan(2);
  facts.result = &result;
  facts.error = input.take<uint8_t>();
  const auto [holds, cut] = where->holds(facts);
  fuzz::must_hold(!holds || !cut, "true and not known: {}", text);
  // Whatever it asks, it cannot be true together with its negation.
  const auto negated = read("!(" + text + ")");
  fuzz::must_hold(!negated || !holds || !negated->holds(facts).holds, "true and false: {}", text);
  return 0;
}
