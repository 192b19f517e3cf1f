#!/usr/bin/python3
"""Classes of the C++ library by their layout, what only C++ passes, and C++ names in filters."""
import re
import tempfile
import unittest

import harness

LINES = [
    r'lib::text("a\0b", "a string that is longer than the"..., "view", 7) = "a\0ba string that is longer than "...',
    'lib::numbers([ 1, 2, 3, 4... ], [ "one", "two" ], [ ]) = 0',
    "lib::nothing(1, { }, 2) = 3",
    "lib::tree({ 1, [ { 2, [ ] }, { 3, [ ] } ] }) = 1",
    'lib::wide("wide") = "wide"',
    'lib::title(8) = "no. 8"',
    "lib::Shop::stock({ 4 }, 5) = { 4, 5, 3 }",
    "lib::Shop::enlarge({ 4 }, 6) = { 10 }",
]
CALLED = ("text", "numbers", "nothing", "tree", "wide", "title", "Shop::stock", "Shop::enlarge")


def lines(*options):
    result = harness.run([*options, "--", harness.target("library")])
    if result.status != 0:
        raise harness.Failure("status 0 expected\n%s" % result)
    seen = [re.sub(r"\) +=", ") =", line) for line in result.lines[:-1]]
    # The parameter list of a demangled name, and an ABI tag: what stands before the arguments.
    return [re.sub(r"^(lib::[\w:]+)(\[abi:\w+\])?\(.*?\)(?: const)?\(", r"\1(", line) for line in seen], result.stderr


class Containers(unittest.TestCase):
    maxDiff = None

    def test_are_shown_as_what_they_hold(self):
        self.assertEqual(lines("-C", "-x", "+".join("lib::%s*@MAIN" % name for name in CALLED))[0], LINES)

    def test_a_prototype_file_can_say_so_too(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as conf:
            conf.write('[functions]\n_ZN3lib4treeERKNS_4TreeE = "int(T*)"\n[types]\nT = "struct(int, std_vector(T))"\n')
            conf.flush()
            seen, stderr = lines("-F", conf.name, "-C", "-x", "lib::tree*")
        self.assertEqual((seen, stderr), ([LINES[3]], ""))


class Names(unittest.TestCase):
    def named(self, *options):
        return [line.partition("(")[0] for line in lines("-C", *options)[0]]

    def test_with_colons_a_blank_or_a_parenthesis_match_demangled_names(self):
        for pattern in ("lib::tree", "lib::tree(lib::Tree const&)", "/lib::tr.*/", "/.*tree\\(.*Tree.*/", "*Tree const&*"):
            with self.subTest(pattern):
                self.assertIn("lib::tree", self.named("-x", pattern + "@MAIN"))

    def test_need_not_say_the_tags_that_the_library_puts_there(self):
        for pattern in ("lib::title", "lib::title(int)", "lib::title[abi:cxx11]", "lib::title[abi:cxx11](int)", "/lib::t.*le/"):
            with self.subTest(pattern):
                self.assertEqual(self.named("-x", pattern + "@MAIN"), ["lib::title"])

    def test_that_nothing_has_are_told_with_the_nearest(self):
        for pattern in ("lib::titel", "lib::title(char)", "lib::tite(int)"):
            with self.subTest(pattern):
                seen, stderr = lines("-x", pattern + "@MAIN")
                self.assertEqual(seen, [])
                self.assertRegex(stderr, r"(nearest names: lib::title[,;]|there is lib::title\(int\);)")

    def test_of_calls_match_as_well(self):
        for pattern in ("operator delete(void*, unsigned long)", "operator delete(*", "/operator delete\\(.*/"):
            with self.subTest(pattern):
                result = harness.run(["-e", pattern + "@MAIN", "--", harness.target("library")])
                self.assertRegex(result.trace, r"(?m)^library->_ZdlPvm\(")

    def test_are_demangled_by_explain_and_in_the_table(self):
        self.assertRegex(lines("-C", "--explain", "-x", "lib::nothing")[1],
                         r"(?m)^rtrace: -x lib::nothing: lib::nothing\(int, lib::Empty, int\) at 0x")
        result = harness.run(["-C", "-c", "-x", "lib::nothing", "--", harness.target("library")])
        self.assertRegex(result.trace, r"(?m)lib::nothing\(int, lib::Empty, int\)")


if __name__ == "__main__":
    unittest.main()
