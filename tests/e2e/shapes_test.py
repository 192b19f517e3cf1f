#!/usr/bin/python3
"""Every shape of argument and result, where the psABI puts it: prototypes from debug information, of both compilers,
and from a file. Expected is the very line."""
import re
import tempfile
import unittest

import harness

# name, the value as it is printed, the type in the language of prototype files (None: it has no words for it)
SHAPES = [
    ("t_bool", "true", "bool(uint8)"),
    ("t_char", "'x'", "char"),
    ("t_schar", "-5", "schar"),
    ("t_uchar", "200", "uint8"),
    ("t_short", "-300", "short"),
    ("t_ushort", "60000", "ushort"),
    ("t_int", "-70000", "int"),
    ("t_uint", "4000000000", "uint"),
    ("t_long", "-5000000000", "long"),
    ("t_ulong", "18446744073709551615", "ulong"),
    ("t_float", "1.500000", "float"),
    ("t_double", "-2.250000", "double"),
    ("t_longdouble", "3.750000", "longdouble"),
    ("t_int128", "-1267650600228229401496703205376", "int128"),
    ("t_int128_small", "-7", "int128"),
    ("t_uint128", "340282366920938463463374607431768211455", "uint128"),
    ("t_cfloat", "{ 1.000000, 2.000000 }", "complex(float)"),
    ("t_cdouble", "{ 3.000000, 4.000000 }", "complex(double)"),
    ("t_clongdouble", "{ 5.000000, 6.000000 }", "complex(longdouble)"),
    ("t_v4f", "[ 1.000000, 2.000000, 3.000000, 4.000000 ]", "vector(float, 4)"),
    ("t_v2l", "[ -1, 2 ]", "vector(long, 2)"),
    ("t_v2f", "[ 1.000000, 2.000000 ]", "vector(float, 2)"),
    ("t_v16c", "[ 1, 2, 3, -4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 ]", "vector(schar, 16)"),
    ("t_enum", "GREEN", "enum[uint](RED, GREEN=3)"),
    ("h_one_int", "{ 1 }", "struct(int)"),
    ("h_one_char", "{ 'a' }", "struct(char)"),
    ("h_char_short", "{ 'a', 2 }", "struct(char, short)"),
    ("h_three_chars", "{ [ 1, 2, 3 ] }", "struct(array(uint8, 3))"),
    ("h_three_ints", "{ 1, 2, 3 }", "struct(int, int, int)"),
    ("h_two_longs", "{ 1, 2 }", "struct(long, long)"),
    ("h_one_float", "{ 1.000000 }", "struct(float)"),
    ("h_two_floats", "{ 1.000000, 2.000000 }", "struct(float, float)"),
    ("h_three_floats", "{ 1.000000, 2.000000, 3.000000 }", "struct(float, float, float)"),
    ("h_four_floats", "{ 1.000000, 2.000000, 3.000000, 4.000000 }", "struct(float, float, float, float)"),
    ("h_one_double", "{ 1.000000 }", "struct(double)"),
    ("h_two_doubles", "{ 1.000000, 2.000000 }", "struct(double, double)"),
    ("h_double_long", "{ 1.000000, 2 }", "struct(double, long)"),
    ("h_long_double", "{ 1, 2.000000 }", "struct(long, double)"),
    ("h_float_int", "{ 1.000000, 2 }", "struct(float, int)"),
    ("h_int_float_double", "{ 1, 2.000000, 3.000000 }", "struct(int, float, double)"),
    ("h_double_float_int", "{ 1.000000, 2.000000, 3 }", "struct(double, float, int)"),
    ("h_float_double", "{ 1.000000, 2.000000 }", "struct(float, double)"),
    ("h_chars16", '{ "fifteen letters" }', "struct(string(array(char, 16)))"),
    ("h_chars17", '{ "sixteen letters!" }', "struct(string(array(char, 17)))"),
    ("h_three_longs", "{ 1, 2, 3 }", "struct(long, long, long)"),
    ("h_longdouble", "{ 1.000000 }", "struct(longdouble)"),
    ("h_longdouble_int", "{ 1.000000, 2 }", "struct(longdouble, int)"),
    ("h_nested", "{ { 1.000000, 2.000000 }, { 3, 4 } }", "struct(struct(float, float), struct(int, int))"),
    ("h_shorts", "{ [ 1, 2, 3, 4 ] }", "struct(array(short, 4))"),
    ("h_doubles", "{ [ 1.000000, 2.000000 ] }", "struct(array(double, 2))"),
    ("h_cfloat", "{ { 1.000000, 2.000000 } }", "struct(complex(float))"),
    ("h_vector", "{ [ 1.000000, 2.000000, 3.000000, 4.000000 ] }", "struct(vector(float, 4))"),
    ("h_vector_int", "{ [ 1.000000, 2.000000, 3.000000, 4.000000 ], 5 }", "struct(vector(float, 4), int)"),
    ("h_int128", "{ -1 }", "struct(int128)"),
    ("h_char_int128", "{ 'a', 2 }", "struct(char, int128)"),
    ("h_aligned", "{ 1 }", "struct[16, 16](long)"),
    ("h_pointer_length", '{ "text", 4 }', "struct(string, ulong)"),
    ("h_flexible", "{ 1, ? }", "struct[4, 4](int, @4 array(int, elt0))"),
    ("h_bits", "{ 5, -3 }", "struct(@0:0:3 uint, @0:3:5 int)"),
    ("h_bits_long", "{ -1, 2, 3 }", "struct[16, 8](@0:0:40 long, @4:8:20 int, @8 short)"),
    ("h_bits_floats", "{ 1.000000, 2.000000 }", "struct(float, float)"),
    ("h_function", "{ nil, 2 }", "struct(addr, int)"),
    ("h_packed_int", "{ 'a', 2 }", "struct[5, 1](char, @1 int)"),
    ("h_packed_chars", "{ 'a', \"bcd\" }", "struct(char, string(array(char, 4)))"),
    ("h_packed_bits", "{ 1, 1000000 }", "struct[5, 1](@0:0:5 uint, @0:5:30 uint)"),
    ("h_packed_longdouble", "{ 'a', 2.000000 }", "struct[17, 1](char, @1 longdouble)"),
    ("h_int_or_float", "{ 1065353216, 1.000000 }", "union(int, float)"),
    ("h_float_or_double", "{ 1.000000, 0.000000 }", "union(double, float)"),
    ("h_long_or_double", "{ 1, 0.000000 }", "union(long, double)"),
    ("h_longdouble_or_longs", "{ [ -9223372036854775808, 16383 ], 1.000000 }", "union(array(long, 2), longdouble)"),
    ("h_longdouble_or_double", "{ 1.000000, 0.000000 }", "union(double, longdouble)"),
    ("h_chars20", '{ "nineteen letters!!!", 1701734766 }', "union(string(array(char, 20)), int)"),
]

# Registers that run out, and what is on the stack then: name, arguments, parameters of the prototype
ORDERS = [
    ("o_seven", "1, 2, 3, 4, 5, 6, 7", "int, int, int, int, int, int, int"),
    ("o_doubles", ", ".join("%d.000000" % i for i in range(1, 10)), ", ".join(["double"] * 9)),
    ("o_pair_does_not_fit", "1, 2, 3, 4, 5, { 6, 7 }, 8", "int, int, int, int, int, struct(long, long), int"),
    ("o_mixed_does_not_fit", ", ".join("%d.000000" % i for i in range(1, 9)) + ", { 9.000000, 10 }, 11",
     ", ".join(["double"] * 8) + ", struct(double, long), int"),
    ("o_wide_on_stack", "1, 2, 3, 4, 5, 6, 7, 8, 9", "int, int, int, int, int, int128, int128, int, int"),
    ("o_memory_between", "1, { 2, 3, 4 }, 5, 6.000000, 7.000000, 8",
     "int, struct(long, long, long), int, longdouble, double, int"),
    ("o_packed_behind_stack", "1, 2, 3, 4, 5, 6, 7, { 'h', 8.000000 }, 9",
     "int, int, int, int, int, int, int, struct[17, 1](char, @1 longdouble), int"),
    ("o_nothing", "1, { }, 2", "int, struct(), int"),
]
VECTORS = [
    ("t_v4d", "[ 1.000000, 2.000000, 3.000000, 4.000000 ]", "vector(double, 4)"),
    ("h_wide_vector", "{ [ 1.000000, 2.000000, 3.000000, 4.000000 ] }", "struct(vector(double, 4))"),
]
VARIADIC = ("v_sum(2) = 3", "int v_sum(int);\n")


def expected(shapes, orders):
    return (["%s(1, %s, 2) = %s" % (name, value, value) for name, value, _ in shapes] +
            ["%s(%s) = <void>" % (name, arguments) for name, arguments, _ in orders])


def prototypes(shapes, orders):
    return "".join(["%s %s(int, %s, int);\n" % (words, name, words) for name, _, words in shapes] +
                   ["void %s(%s);\n" % (name, parameters) for name, _, parameters in orders])


def lines(program, patterns, *options):
    result = harness.run(["-A", "16", "-x", patterns, *options, "--", harness.target(program)])
    if result.status != 0:
        raise harness.Failure("status 0 expected\n%s" % result)
    return [re.sub(r"\) +=", ") =", line) for line in result.lines][:-1], result.stderr


# Where the compilers do not agree, and the psABI is on GCC's side or says nothing.
DISAGREED = ("h_flexible", "o_wide_on_stack")
AGREED_SHAPES = [row for row in SHAPES if row[0] not in DISAGREED]
AGREED_ORDERS = [row for row in ORDERS if row[0] not in DISAGREED]
AGREED = "[thov]_*@MAIN" + "".join("-" + name for name in DISAGREED)


class Shapes(unittest.TestCase):
    maxDiff = None
    compiler = "gcc"
    patterns = "[thov]_*@MAIN-h_flexible"
    shapes = AGREED_SHAPES
    orders = ORDERS

    def wanted(self):
        return expected(self.shapes, self.orders) + [VARIADIC[0]]

    def test_enough_of_them(self):
        self.assertGreaterEqual(len(SHAPES) + len(ORDERS), 60)

    def test_prototypes_from_debug_information(self):
        self.assertEqual(lines("shapes_" + self.compiler, self.patterns)[0], self.wanted())

    def test_prototypes_from_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write(prototypes(self.shapes, self.orders) + VARIADIC[1])
            conf.flush()
            seen, stderr = lines("shapes_" + self.compiler, self.patterns, "-F", conf.name)
        self.assertEqual((seen, stderr), (self.wanted(), ""))


class ShapesOfClang(Shapes):
    compiler = "clang"
    patterns = AGREED
    orders = AGREED_ORDERS


class Disagreement(unittest.TestCase):
    def test_is_refused_with_the_reason(self):
        for compiler, name, reason in (("gcc", "h_flexible", "compilers differ .* flexible array"),
                                       ("clang", "h_flexible", "compilers differ .* flexible array"),
                                       ("clang", "o_wide_on_stack", "Clang before version 18 .* __int128")):
            with self.subTest(compiler=compiler, name=name):
                result = harness.run(["--explain", "-x", name + "@MAIN", "--", harness.target("shapes_" + compiler)])
                self.assertRegex(result.stderr, r"%s .*prototype: none \(%s" % (name, reason))

    def test_gcc_passes_a_flexible_array_in_registers(self):
        row = [row for row in SHAPES if row[0] == "h_flexible"]
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write(prototypes(row, []))
            conf.flush()
            self.assertEqual(lines("shapes_gcc", "h_flexible", "-F", conf.name)[0], expected(row, []))


def processor_has_avx():
    with open("/proc/cpuinfo") as info:
        return re.search(r"^flags\s.*\bavx\b", info.read(), re.M) is not None


@unittest.skipUnless(processor_has_avx(), "the processor has no registers of 32 bytes")
class WideVectors(unittest.TestCase):
    """Only GCC records in the debug information that it was allowed to use AVX."""
    maxDiff = None

    def wanted(self):
        return expected(AGREED_SHAPES, AGREED_ORDERS) + [VARIADIC[0]] + expected(VECTORS, [])

    def test_prototypes_from_debug_information(self):
        self.assertEqual(lines("shapes_gcc_avx", AGREED)[0], self.wanted())

    def test_prototypes_from_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write(prototypes(AGREED_SHAPES + VECTORS, AGREED_ORDERS) + VARIADIC[1])
            conf.flush()
            self.assertEqual(lines("shapes_clang_avx", AGREED, "-F", conf.name)[0], self.wanted())

    def test_what_the_debug_information_does_not_say_is_refused_with_the_reason(self):
        result = harness.run(["--explain", "-x", "t_v4d@MAIN", "--", harness.target("shapes_clang_avx")])
        self.assertRegex(result.stderr, r"t_v4d .*prototype: none \(vectors of 32 bytes .* -mavx only")


if __name__ == "__main__":
    unittest.main()
