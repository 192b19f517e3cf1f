#!/usr/bin/python3
"""How lines look: colors, characters of UTF-8, names of members, and the longest line."""
import os
import pty
import re
import subprocess
import tempfile
import unittest

import harness

CALLS = harness.target("calls_now")
COLOR = "\x1b["


def uncolored(text):
    return re.sub("\x1b\\[[0-9;]*m", "", text)


def on_terminal(words, variables):
    """What rtrace writes to a terminal, in an environment that says nothing about colors but that."""
    environment = {name: value for name, value in harness.environment().items() if name not in ("NO_COLOR", "TERM")}
    reader, terminal = pty.openpty()
    with os.fdopen(reader, "rb", 0) as screen:
        process = subprocess.Popen([harness.RTRACE, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=terminal, env={**environment, **variables})
        os.close(terminal)
        text = b""
        try:
            while True:
                text += screen.read(65536)
        except OSError:  # EIO: the last writer has gone
            pass
        return text.decode(), process.wait(harness.PATIENCE)


class Table(unittest.TestCase):
    def test_fits_the_terminal_it_is_printed_on_and_is_whole_elsewhere(self):
        words = ["-c", "-F", harness.CONF, "-x", "greet+add", "--", CALLS]
        whole = harness.run(words).lines[0].split()
        for columns in (60, 80, 200):
            text, _ = on_terminal(words, {"COLUMNS": str(columns)})
            rows = text.splitlines()
            self.assertIn("greet@libfixture.so", text)
            self.assertLessEqual(max(map(len, rows[:-1])), columns, text)
            self.assertEqual(rows[0].split() == whole, columns == 200, text)


class Color(unittest.TestCase):
    WORDS = ["-F", harness.CONF, "-x", "greet+add", "--", CALLS]

    def test_always_colors_names_and_strings_and_columns_stay(self):
        plain = harness.run(["--color=never", *self.WORDS]).trace
        colored = harness.run(["--color=always", *self.WORDS]).trace
        self.assertNotIn("\x1b", plain)
        self.assertEqual(uncolored(colored), plain)
        self.assertIn('\x1b[36mgreet@libfixture.so\x1b[0m(\x1b[32m"hello"\x1b[0m)', colored)

    def test_auto_means_a_terminal_and_no_other_place_and_no_color_is_honoured(self):
        self.assertNotIn("\x1b", harness.run(self.WORDS).trace)
        for variables, expected in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
                                    ({"TERM": "dumb"}, False)):
            text, status = on_terminal(self.WORDS, variables)
            self.assertEqual(status, 0)
            self.assertIn("greet@libfixture.so", text)
            self.assertEqual(COLOR in text, expected, variables)

    def test_failures_are_colored_as_such(self):
        text = harness.run(["--color=always", "-e", "open64+open+openat@MAIN", "--", "/usr/bin/perl", "-e",
                            'open(F, "<", "/nowhere/at/all")']).trace
        self.assertIn("= \x1b[31m-1 ENOENT (No such file or directory)\x1b[0m", text)

    def test_what_the_program_says_is_never_obeyed(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("int inner(string);\n")
            conf.flush()
            for options in (["--color=always"], ["--color=always", "--utf8"]):
                text = harness.run([*options, "-F", conf.name, "-x", "inner", "--", harness.target("hostile"),
                                    "values"]).trace
                self.assertNotIn("\x1b", uncolored(text))
                self.assertIn("\\033[2J", text)


class Utf8(unittest.TestCase):
    def puts(self, *options, locale="C.UTF-8"):
        environment = dict(harness.environment(), LC_ALL=locale)
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as out, \
                tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("int unlink(string);\nint unlinkat(int, string, int);\n")
            conf.flush()
            subprocess.run([harness.RTRACE, "-o", out.name, "-F", conf.name, *options, "-e", "unlink+unlinkat@MAIN", "--",
                            "/bin/rm", "-f", "/nowhere/gr\u00f6\u00dfe\u009b"], env=environment, stdin=subprocess.DEVNULL,
                           check=True)
            return out.read()

    def test_as_they_are_only_when_asked_and_only_where_the_locale_is_one_of_utf8(self):
        self.assertIn("gr\u00f6\u00dfe\\302\\233", self.puts("--utf8"))
        self.assertIn("gr\\303\\266\\303\\237e", self.puts())
        self.assertIn("gr\\303\\266\\303\\237e", self.puts("--utf8", locale="C"))


class Structs(unittest.TestCase):
    WORDS = ["-x", "spot_find", "--", harness.target("spotter_bare")]

    def test_members_have_their_names_when_asked(self):
        self.assertIn("{ row=1, column=2 }", harness.run(["--struct-names", *self.WORDS]).trace)
        self.assertIn("{ 1, 2 }", harness.run(self.WORDS).trace)


class MaxLine(unittest.TestCase):
    def test_a_line_ends_there(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("int inner(string);\n")
            conf.flush()
            for most in (100, 6000):
                words = ["-F", conf.name, "-s", "10000", "-x", "inner", "--max-line=%d" % most, "--color=always",
                         "--", harness.target("hostile"), "values"]
                longest = max(len(uncolored(line)) for line in harness.run(words).lines)
                self.assertLessEqual(longest, most + 100)
                self.assertGreaterEqual(longest, most)


if __name__ == "__main__":
    unittest.main()
