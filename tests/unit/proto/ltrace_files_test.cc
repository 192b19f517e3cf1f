// Files as ltrace 0.7.91 has them, one for each library: everything that its language has, in lines of our
// own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "rtrace/proto/parser.h"

namespace rtrace::proto::ltrace_files_test {
namespace {

constexpr const char* kTypes = R"(# Types that several files share.
typedef onoff = bool(int);
typedef perms = oct(uint);
typedef level = enum(DEBUG, INFO=5, NOTICE, WARNING=20, LOWEST=-1);
typedef kind = enum[ushort](NONE, FILE, PIPE=0x10, SOCKET=020);
typedef mask = bitvec(ulong);
typedef point = struct(int, hex(int));
typedef entry = struct;
typedef chain = entry*;
typedef entry = struct(string, level, chain, entry*);
typedef label = struct(ulong, string(array(char, 16)), hide(addr));
typedef counted = struct(int, array(point, elt1)*);
typedef table = array(string, zero)*;
)";

constexpr const char* kFunctions = R"(
; A semicolon begins a comment too.
import "libdemo.so-types";

# values
onoff demo_enabled(void);
perms demo_mode(string, perms);		; what stands here is ignored (even this)
mask demo_mask(mask, hex(mask*));
double demo_scale(float, double, +double*);
char demo_letter(char, short, ushort);
void demo_nothing();

# text
int demo_print(file, format);
int demo_print_at(+string, ulong, format);
ulong demo_copy(+string[retval], string[arg3], ulong);
string demo_old(string2, uint, string0);
string(int) demo_wide(string(array(int, arg2)*), ulong);
int demo_fixed(string[4], array(char, zero)*, string(array(char, zero(8))*));

# structs and arrays
int demo_move(point, point*, +point*);
entry* demo_first(chain, table);
int demo_label(label*, array(label, arg3)*, int);
int demo_sum(counted*, array(hex(int), 4), array(array(int, 2), zero(3))*);
point demo_origin();

# lenses around all of it
hex(point) demo_all_hex(hex(struct(int, octal(int), struct(int))), octal(array(int, 2)*));
void demo_guess(guess(long), hide(string), octal, hide(int));
function int demo_function(enum(A, B), enum[char](YES='y'));
)";

const std::map<std::string, std::string> kExpected = {
    {"demo_enabled", "onoff demo_enabled()"},
    {"demo_mode", "perms demo_mode(string, perms)"},
    {"demo_mask", "mask demo_mask(mask, hex(mask*))"},
    {"demo_scale", "double demo_scale(float, double, +double*)"},
    {"demo_letter", "char demo_letter(char, short, ushort)"},
    {"demo_nothing", "void demo_nothing()"},
    {"demo_print", "int demo_print(addr, format)"},
    {"demo_print_at", "int demo_print_at(+string, ulong, format)"},
    {"demo_copy", "ulong demo_copy(+string[retval], string[arg3], ulong)"},
    {"demo_old", "string demo_old(string[arg2], uint, +string[retval])"},
    {"demo_wide", "string(int) demo_wide(string(array(int, arg2)*), ulong)"},
    {"demo_fixed", "int demo_fixed(string[4], array(char, zero)*, string[8])"},
    {"demo_move", "int demo_move(point, point*, +point*)"},
    {"demo_first", "entry* demo_first(chain, table)"},
    {"demo_label", "int demo_label(label*, array(label, arg3)*, int)"},
    {"demo_sum", "int demo_sum(counted*, array(hex(int), 4), array(array(int, 2), zero(3))*)"},
    {"demo_origin", "point demo_origin()"},
    {"demo_all_hex",
     "hex(struct(int, hex(int))) demo_all_hex(hex(struct(int, oct(int), struct(int))), oct(array(int, 2)*))"},
    {"demo_guess", "void demo_guess(guess(long), hide(string), oct(uint), hide(int))"},
};

TEST(LtraceFiles, ThoseOfEachLibraryAreReadWhole) {
  Diagnostics diagnostics;
  Importer import = [&](std::string_view name) {
    EXPECT_EQ(name, "libdemo.so-types");
    return std::make_shared<const ParsedFile>(parse_conf(kTypes, "libdemo.so-types.conf", {}, diagnostics));
  };
  const ParsedFile file = parse_conf(kFunctions, "libdemo.so.conf", import, diagnostics);
  // Of all these lines one is none of the language: a key's value is a number.
  ASSERT_EQ(diagnostics.size(), 1U) << testing::PrintToString(diagnostics);
  EXPECT_THAT(diagnostics[0], testing::StartsWith("libdemo.so.conf:31: "));
  std::map<std::string, std::string> spelled;
  for (const auto& [name, prototype] : file.functions) spelled[name] = spell(*prototype);
  EXPECT_EQ(spelled, kExpected);
}

}  // namespace
}  // namespace rtrace::proto::ltrace_files_test
