// What the terminal and the environment say about how to print.
#pragma once

#include <optional>
#include <string>

namespace rtrace::session {

enum class ColorChoice : uint8_t { automatic, always, never };

// Whether escape sequences are wanted in what goes to that -o: automatically only on a terminal that knows
// them, and where NO_COLOR (https://no-color.org) is not set.
bool color_wanted(ColorChoice choice, const std::string& output);

// Of what goes to that -o, where it is a terminal.
std::optional<unsigned> terminal_width_of(const std::string& output);

// Of LC_ALL, LC_CTYPE and LANG.
bool locale_is_utf8();

}  // namespace rtrace::session
