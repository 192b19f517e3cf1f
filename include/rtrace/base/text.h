// Small things about names and numbers that several modules need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrace {

// The demangled name of an Itanium-ABI symbol, else nullopt: also where it would be longer than
// kMaxDemangled.
std::optional<std::string> demangle(std::string_view symbol);
inline constexpr size_t kMaxDemangled = 65536;

// Appends `text` with everything that is not printable as octal escapes, for the text may be the tracee's
// choice and a terminal obeys control characters. Well-formed UTF-8 stays where `utf8` says so.
void append_printable(std::string& out, std::string_view text, bool utf8);

// The length of the well-formed UTF-8 sequence at the front (Unicode 15, table 3-7), 0 where there is none or
// where it is a C1 control, which terminals obey like an escape sequence.
size_t utf8_sequence(std::string_view text);
// The same for text that goes to a terminal: 0 also for what turns round what follows or is not seen
// (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069, U+FEFF).
size_t printable_sequence(std::string_view text);

// "WHAT: message", the text on a line of its own, and under it a caret at the place. Two newlines, no other
// control characters.
std::string caret_message(std::string_view what, std::string_view text, size_t position,
                          const std::string& message);

// The text after the last '/'.
std::string_view basename_of(std::string_view path);

std::vector<std::string_view> split(std::string_view text, char separator);
// The same parts, each given to `take`.
template <typename Take>
void for_each_part(std::string_view text, char separator, Take take) {
  for (;;) {
    const auto end = text.find(separator);
    take(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

// Decimal, 0x hexadecimal or 0 octal, the whole word; nullopt otherwise or on overflow.
std::optional<uint64_t> parse_number(std::string_view word);

// "5ms", "1.5s", "200us", "800ns" as nanoseconds; what is less than one is dropped. nullopt otherwise or on
// overflow.
std::optional<uint64_t> parse_duration(std::string_view word);

// "1 thread", "2 threads".
std::string counted(size_t count, std::string_view what);

// The next multiple of `align`, which is not 0.
constexpr uint64_t align_up(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

// Levenshtein distance, for "did you mean". Gives up with `limit + 1` where it would be more than `limit`.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit);

// The candidates nearest to `name`, best first, at most `count`; those with nothing in common are left out.
// Words between underscores count, so that mysql_send_query is near mysql_real_query.
std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& candidates,
                                       size_t count);

}  // namespace rtrace
