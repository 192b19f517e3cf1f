// First line: the filter, behind one character that says how it is read. The lines behind it: an object's
// SONAME, its path, and symbols that are matched in it.
#include "fuzzing.h"
#include "rtrace/plan/clone_name.h"
#include "rtrace/plan/filter.h"

namespace rtrace::plan {
namespace {

std::optional<Filter> read(char how, std::string_view text) {
  try {
    if (how == 'l') return Filter::of_library(text);
    return Filter::parse(text, how == 'c' ? Syntax::ltrace : Syntax::rtrace);
  } catch (const FilterError& error) {
    fuzz::must_hold(error.position() <= text.size(), "position {} of {}", error.position(), text.size());
    const std::string_view message = error.what();
    fuzz::must_hold(std::count(message.begin(), message.end(), '\n') == 2, "not three lines: {}", message);
    fuzz::must_hold(std::none_of(message.begin(), message.end(),
                                 [](char c) { return (c > 0 && c < ' ' && c != '\n') || c == 0x7f; }),
                    "control characters in a message");
    return std::nullopt;
  }
}

void check_match(const Filter& filter, const std::string& symbol, const ObjectNames& object) {
  if (!filter.matches(symbol, object)) return;
  fuzz::must_hold(filter.may_match_in(object), "{} matches where nothing may", symbol);
  const auto names = filter.literal_names(object);
  // With a function's own name the names of its parts and copies are looked up.
  const auto clone = clone_of(symbol);
  const auto is_it = [&](const std::string& name) {
    return name == symbol || (clone && name == clone->plain);
  };
  fuzz::must_hold(!names || std::any_of(names->begin(), names->end(), is_it),
                  "{} matches and is not among the names to look up", symbol);
}

}  // namespace
}  // namespace rtrace::plan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtrace;
  using namespace rtrace::plan;
  fuzz::Input input(data, size);
  const char how = input.take<char>();
  const auto filter = read(how, input.take_line());
  if (!filter) return 0;
  ObjectNames object;
  object.soname = input.take_line();
  object.path = "/lib/" + std::string(input.take_line());
  object.main_program = object.soname.empty();
  const Filter resolved = filter->resolved_for({object});
  for (int i = 0; i < 8 && !input.rest().empty(); ++i) {
    // With its NUL, for ASan's regexec() looks for one even where REG_STARTEND says the end.
    const std::string symbol(input.take_line());
    check_match(*filter, symbol, object);
    check_match(resolved, symbol, object);
  }
  return 0;
}
