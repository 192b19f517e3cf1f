// Colors of the text format: SGR escape sequences (ECMA-48, 8.3.117) around parts of a line.
#pragma once

#include <string>
#include <string_view>

namespace rtrace::sink {

inline constexpr std::string_view kNameColor = "\x1b[36m", kStringColor = "\x1b[32m",
                                  kErrorColor = "\x1b[31m", kPlain = "\x1b[0m";

// Columns that a terminal gives the text: bytes, but for the continuation bytes of UTF-8 and for our escape
// sequences. There are no others: control characters never come out raw.
size_t columns(std::string_view text);

// Puts the strings in what has been appended to `out` from `start` on into their color. Rendered text is
// scanned, so that it may have been cut anywhere.
void color_strings(std::string& out, size_t start);

}  // namespace rtrace::sink
