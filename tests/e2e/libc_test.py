#!/usr/bin/python3
"""Functions of the C library, each called with known arguments: the line of the trace is what its man page says.

The programs are targets/libc/*.c. Behind each call stands the line expected of it:

    strnlen("hello", 3);  //= strnlen("hel", 3) = 3

in the order of the calls; every call of the main program is in the trace and nothing else. Addresses are ADDR there, and
what differs from run to run or from system to system is {number}, {octal}, {word}, {string}, {pointer}, {any} or {cwd}.
"""
import difflib
import glob
import os
import re
import tempfile
import unittest

import harness

SOURCES = os.path.join(harness.HERE, "targets", "libc")
PLACEHOLDERS = {
    "number": r"-?\d+",
    "octal": r"0[0-7]*",
    "word": r"\w+",
    "string": r'"(?:[^"\\]|\\.)*"(?:\.\.\.)?',
    "pointer": r"(?:ADDR|-1|0xf+)",
    "any": r".*",
    "cwd": "AT_FDCWD",
}
# Of how many different functions the lines are, at the least.
FUNCTIONS = 700
# What comes before and after main().
AROUND_MAIN = r"__libc_start_main\(|<... __libc_start_main|__cxa_finalize\("


def expected_lines(name):
    text = harness.read_text(os.path.join(SOURCES, name + ".c"))
    return re.findall(r"//= (.*)$", text, re.M)


def pattern(line):
    """The line as a regular expression."""
    parts = re.split(r"\{(%s)\}" % "|".join(PLACEHOLDERS), line)
    return "".join(PLACEHOLDERS[part] if i % 2 else re.escape(part) for i, part in enumerate(parts))


def normalised(line):
    line = re.sub(r"^\[pid +\d+\] ", "", line)
    line = re.sub(r"\b0x[0-9a-f]{5,16}\b", "ADDR", line)
    return re.sub(r"\) +=", ") =", line)


def function(line):
    return line.partition("(")[0]


def compared(expected, found):
    """What is different, call by call."""
    wrong = []
    matcher = difflib.SequenceMatcher(None, [function(line) for line in expected],
                                      [function(line) for line in found], False)
    for kind, low, high, first, last in matcher.get_opcodes():
        if kind == "equal":
            pairs = zip(expected[low:high], found[first:last])
            wrong += ["expected %s\n   found %s" % pair for pair in pairs if not re.fullmatch(pattern(pair[0]), pair[1])]
        else:
            wrong += ["expected " + line for line in expected[low:high]] + ["   found " + line for line in found[first:last]]
    return wrong


def programs():
    return sorted(os.path.basename(path)[:-2] for path in glob.glob(os.path.join(SOURCES, "*.c")))


class Libc(unittest.TestCase):
    def differences(self, name):
        with tempfile.TemporaryDirectory() as folder:
            result = harness.run(["-b", "--", harness.target("libc_" + name)], cwd=folder)
        self.assertEqual(result.status, 0, result)
        found = [normalised(line) for line in result.lines]
        self.assertEqual(found[-1:], ["+++ exited (status 0) +++"])
        found = [line for line in found[:-1] if not re.match(AROUND_MAIN, line)]
        return compared(expected_lines(name), found)

    def test_every_call_is_shown_as_its_man_page_says(self):
        for name in programs():
            with self.subTest(program=name):
                wrong = self.differences(name)
                if wrong:
                    self.fail("\n" + "\n".join(wrong))

    def test_enough_functions_are_called(self):
        names = {function(line) for name in programs() for line in expected_lines(name)}
        self.assertGreaterEqual(len(names), FUNCTIONS)

    def test_every_function_has_a_shipped_prototype(self):
        """Else a guess might have looked right by chance."""
        known = set()
        for path in glob.glob(os.path.join(harness.SOURCE, "conf", "lib[cm]", "*.conf")) + glob.glob(
                os.path.join(harness.SOURCE, "conf", "lib[cm].so.conf")):
            for line in harness.read_text(path).splitlines():
                if not line.startswith(("#", "typedef", "import")):
                    known.update(re.findall(r"[\w)*\]] (\w+)\(", line))
        for name in programs():
            for line in expected_lines(name):
                self.assertTrue(function(line) in known, line)


if __name__ == "__main__":
    unittest.main()
