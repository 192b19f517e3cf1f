// What it costs the C library to compile a regular expression, told before it does.
#pragma once

#include <cstddef>
#include <string_view>

namespace rtrace {

// About how many nodes its compiled form has (glibc 2.36, regcomp.c). It copies what an interval or a `+`
// stands behind (parse_dup_op), so that nested ones multiply: `((a{255}){255}){255}` and thirty `+` in a row
// take gigabytes. And within a loop it takes twice as long for each piece that may be passed in two ways
// without a character (calc_eclosure_iter), such as `a*?` or `(a*|b*)`: a million nodes where those are many.
// `flags` are regcomp's.
size_t regex_size(std::string_view text, int flags);

// Behind the ']' of the bracket expression at `at`, in which a backslash is a character like others (POSIX,
// XBD 9.3.5); npos where it does not end.
size_t behind_bracket(std::string_view text, size_t at);

}  // namespace rtrace
