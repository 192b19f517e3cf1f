#!/usr/bin/python3
"""Prototypes from debug information: no prototype file names these functions."""
import glob
import os
import re
import tempfile
import unittest

import harness


def squeezed(lines):
    """Without the blanks before results, and without addresses."""
    return [re.sub(r"0x[0-9a-f]{5,}", "ADDR", re.sub(r"\) +=", ") =", line)) for line in lines]


def trace(arguments, program, *words, env=None):
    before = dict(os.environ)
    os.environ.update(env or {})
    try:
        result = harness.run(arguments + ["--", harness.target(program)] + list(words))
    finally:
        os.environ.clear()
        os.environ.update(before)
    if result.status != 0:
        raise harness.Failure("status 0 expected\n%s" % result)
    return result


DESCRIBED = [
    'greet("hi", RED, { 1, 2 }, 1.500000) = <void>',
    "paint(BLUE) = BLUE",
    "paint(5) = 5",
    "length({ 1, { 2, { 3, nil } } }) = 3",
    "length({ 1, { 2, { 3, recurse^^ } } }) = 3",
    'copy({ "tea", { 3, 4 }, 1, -3 }) = { "tea", { 3, 4 }, 1, -3 }',
    'bytes("a\\0b", 3) = 3',
    'words("first", ADDR, nil) = 0',
    'say(3, "x=%d s=%s", 42, "text") = 3',
    "sum(1) = 1",
    "mean(1.000000, 2.000000, 3.000000) = 6.000000",
]
FUNCTIONS = "greet+paint+length+copy+bytes+words+say+sum+mean"


class Program(unittest.TestCase):
    def test_a_char_pointer_is_a_string(self):
        self.assertEqual(squeezed(trace(["-x", "greet"], "described").lines),
                         [DESCRIBED[0], "+++ exited (status 0) +++"])

    def test_every_type_of_c_is_shown_as_what_it_is(self):
        self.assertEqual(squeezed(trace(["-x", FUNCTIONS], "described").lines),
                         DESCRIBED + ["+++ exited (status 0) +++"])

    def test_attached_as_well(self):
        with harness.Target([harness.target("described"), "wait"]) as target:
            target.expect("ready")
            tracer = harness.Attached(["-x", FUNCTIONS], [target.pid])
            target.go()
            self.assertEqual(target.finish()[1], 0)
            self.assertEqual(squeezed(tracer.end().lines), DESCRIBED + ["+++ exited (status 0) +++"])

    def test_a_prototype_file_ranks_before_it(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("void greet(hex(long), int);\n")
            conf.flush()
            lines = squeezed(trace(["-F", conf.name, "-x", "greet"], "described").lines)
        self.assertEqual(lines[0], "greet(ADDR, 0) = <void>")

    def test_explain_says_where_the_prototype_comes_from(self):
        result = trace(["--explain", "-x", "greet"], "described")
        self.assertIn("prototype: debug info of " + harness.target("described"), result.stderr)

    def test_split_debug_information_is_declined_with_the_reason(self):
        result = trace(["--explain", "-x", "greet"], "described_gsplit")
        self.assertRegex(result.stderr, r"greet.*prototype: none \(compiled with -gsplit-dwarf: .*\.dwo")
        self.assertRegex(result.lines[0], r'^greet\("?')


class Reading(unittest.TestCase):
    """The C library's debug information has some thousand compile units."""

    def log(self, *arguments):
        result = trace(["-D", "proto:1", *arguments], "described")
        return [line for line in result.stderr.splitlines() if "reads the unit" in line]

    def test_only_the_units_that_are_needed_are_read(self):
        with harness.without_shipped_prototypes():
            lines = self.log("-x", "ffs@libc.so.6")
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], r"\.debug: reads the unit .*ffs")
        self.assertEqual(len(self.log("-x", "greet+paint+length")), 1)

    def test_a_table_of_counts_reads_none(self):
        self.assertEqual(self.log("-c", "-x", "ffs@libc.so.6"), [])


class Cxx(unittest.TestCase):
    def test_methods_references_and_classes_passed_by_reference(self):
        names = "_ZNK4shop4Item4costEi+_ZN4shop4Item5knownEib+_ZN4shop4lookERKNS_4ItemEOi+_ZN4shop4makeEi+" \
                "_ZN4shop4takeESt10unique_ptrIiSt14default_deleteIiEENS_4SizeE"
        lines = squeezed(trace(["-x", names], "described_cxx").lines)
        owned = r"\{[{} ,]*\{ 9 \}[} ]*\}"
        self.assertEqual(lines[0], "_ZNK4shop4Item4costEi({ 7, large }, 3) = 6")
        self.assertEqual(lines[1], "_ZN4shop4Item5knownEib(4, true) = true")
        self.assertEqual(lines[2], "_ZN4shop4lookERKNS_4ItemEOi({ 7, large }, 5) = 1")
        self.assertRegex(lines[3], r"^_ZN4shop4makeEi\(9\) = %s$" % owned)
        self.assertRegex(lines[4], r"^_ZN4shop4takeE.*\(%s, small\) = 9$" % owned)
        self.assertEqual(len(lines), 6)


class Library(unittest.TestCase):
    EXPECTED = 'spot_find("home", { 1, 2 }) = 105'

    def calls(self, arguments, program, **more):
        lines = squeezed(trace(arguments + ["-e", "spot_find@MAIN"], program, **more).lines)
        return [line.partition("->")[2] for line in lines if "spot_find" in line]

    def test_its_own_debug_information_describes_calls_from_outside(self):
        self.assertEqual(self.calls([], "spotter_bare"), [self.EXPECTED])

    def test_a_debug_file_beside_it_is_found_by_its_debuglink(self):
        folder = os.path.dirname(harness.target("apart/libspot.so"))
        env = {"LD_LIBRARY_PATH": folder}
        result = trace(["--explain", "-x", "spot_find"], "spotter_bare", env=env)
        self.assertEqual(squeezed(result.lines)[0].partition("(")[2], self.EXPECTED.partition("(")[2])
        self.assertIn("prototype: debug info of %s/libspot.debug" % folder, result.stderr)

    def test_else_the_caller_s_declaration_does(self):
        self.assertEqual(self.calls([], "spotter_declares"), [self.EXPECTED])

    def test_where_neither_has_any_the_arguments_are_guessed(self):
        # What is left in the other two registers is the C library's: a number, or by chance something like text.
        anything = r'(-?\d+|ADDR|"(\\.|[^"\\])*"(\.\.\.)?)'
        self.assertRegex(self.calls([], "spotter_both_bare")[0],
                         r'^spot_find\("home", ADDR, %s, %s\) = 105$' % (anything, anything))

    def test_a_debian_debug_package_is_found_by_the_build_id(self):
        self.assertTrue(glob.glob("/usr/lib/debug/.build-id/*/*.debug"), "libc6-dbg is not installed")
        with harness.without_shipped_prototypes():
            result = trace(["--explain", "-x", "ffs@libc.so.6"], "described")
        self.assertRegex(result.stderr, r"ffs@libc\.so\.6 at .*prototype: debug info of /usr/lib/debug/\.build-id/")
        self.assertIn("ffs@libc.so.6(102) = 2", squeezed(result.lines))


if __name__ == "__main__":
    unittest.main()
