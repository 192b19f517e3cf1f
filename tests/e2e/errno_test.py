#!/usr/bin/python3
"""The error of a failed call: what errno says in the thread that made it."""
import contextlib
import errno
import os
import re
import shutil
import sys
import tempfile
import unittest

import harness

CONF = """
errno fails_with(int);
errno(addr) lacks(int);
errno(long) counts(long);
errno open64(string, hex(int));
errno open(string, hex(int));
"""
MAIN = [
    "fails_with(2) = -1 ENOENT (No such file or directory)",
    "fails_with(0) = 0",
    "lacks(12) = nil ENOMEM (Cannot allocate memory)",
    "lacks(0) = ADDR",
    "counts(-1) = -1 ENOSPC (No space left on device)",
    "counts(255) = 255",
]
EXIT = "+++ exited (status 0) +++"


def squeezed(lines):
    return [re.sub(r"^\[pid \d+\] ", "", re.sub(r"0x[0-9a-f]{5,}", "ADDR", re.sub(r"\) +=", ") =", line)))
            for line in lines]


@contextlib.contextmanager
def prototypes():
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write(CONF)
        conf.flush()
        yield conf.name


def trace(arguments, command):
    with prototypes() as conf:
        result = harness.run(["-F", conf] + arguments + ["--"] + command)
    if result.status != 0:
        raise harness.Failure("status 0 expected\n%s" % result)
    return result


FUNCTIONS = ["-x", "fails_with+lacks+counts"]


class Fixture(unittest.TestCase):
    def check(self, name):
        self.assertEqual(squeezed(trace(FUNCTIONS, [harness.target(name)]).lines), MAIN + [EXIT])

    def test_with_a_dynamic_linker(self):
        self.check("errnos")

    def test_static(self):
        self.check("errnos_static")
        self.check("errnos_static_pie")

    def without_names(self, *names):
        """What a static program prints, and rtrace says, where those symbols have other names."""
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "errnos")
            shutil.copy(harness.target("errnos_static"), copy)
            with open(copy, "rb") as file:
                data = file.read()
            for name in names:
                # Names share their tails with longer ones.
                self.assertTrue(name + b"\0" in data, name)
                data = data.replace(name + b"\0", b"x" * len(name) + b"\0")
            with open(copy, "wb") as file:
                file.write(data)
            result = trace(["--explain"] + FUNCTIONS, [copy])
            return squeezed(result.lines), result.stderr

    def test_static_where_only_the_variable_has_a_name(self):
        lines, said = self.without_names(b"__errno_location")
        self.assertEqual(lines, MAIN + [EXIT])
        self.assertNotIn("errno cannot be found", said)

    def test_where_it_cannot_be_found_the_bare_result_is_shown_and_why(self):
        lines, said = self.without_names(b"__errno_location", b"errno")
        self.assertEqual(lines[:3], ["fails_with(2) = -1", MAIN[1], "lacks(12) = nil"])
        self.assertEqual(said.count("errno cannot be found"), 1, said)

    def test_musl(self):
        self.check("musl/errnos")

    def test_musl_static(self):
        self.check("musl/errnos_static")

    def test_attached(self):
        with harness.Target([harness.target("errnos"), "wait"]) as target, prototypes() as conf:
            target.expect("ready")
            tracer = harness.Attached(["-F", conf] + FUNCTIONS, [target.pid])
            target.go()
            self.assertEqual(target.finish()[1], 0)
            self.assertEqual(squeezed(tracer.end().lines), MAIN + [EXIT])

    def test_each_thread_has_its_own(self):
        lines = squeezed(trace(FUNCTIONS, [harness.target("errnos"), "threads"]).lines)[len(MAIN):]
        # A call whose line was broken by the other thread's is completed on one of its own.
        whole = [re.fullmatch(r"fails_with\((\d+)\) = -1 (\w+) \(.*\)", line) for line in lines]
        begun = [re.fullmatch(r"fails_with\((\d+) <unfinished \.\.\.>", line) for line in lines]
        ended = [re.fullmatch(r"<\.\.\. fails_with resumed> \) = -1 (\w+) \(.*\)", line) for line in lines]
        for call in filter(None, whole):
            self.assertEqual(getattr(errno, call.group(2)), int(call.group(1)))
        numbers = [int(call.group(1)) for call in filter(None, begun)]
        self.assertEqual(sorted(getattr(errno, call.group(1)) for call in filter(None, ended)), sorted(numbers))
        self.assertEqual(sorted([int(call.group(1)) for call in filter(None, whole)] + numbers), list(range(1, 41)))

    def test_a_namespace_has_a_c_library_of_its_own(self):
        lines = squeezed(trace(FUNCTIONS, [harness.target("errnos"), "namespace"]).lines)
        self.assertIn("fails_with@liberrnos.so(18) = -1 EXDEV (Invalid cross-device link)", lines)


class Programs(unittest.TestCase):
    MISSING = "/nonexistent/rtrace"

    def failed_open(self, command):
        lines = trace(["-e", "open64+open"], command).lines
        found = [line for line in squeezed(lines) if self.MISSING in line]
        self.assertTrue(found, "\n".join(lines[-20:]))
        for line in found:
            self.assertRegex(line, r'"%s", \w+\) = -1 ENOENT \(No such file or directory\)' % self.MISSING)

    def test_python(self):
        self.failed_open([sys.executable, "-c",
                          "try:\n open('%s')\nexcept FileNotFoundError:\n pass" % self.MISSING])

    def test_perl(self):
        self.failed_open(["perl", "-e", "open(my $f, '<', '%s') and die" % self.MISSING])


if __name__ == "__main__":
    unittest.main()
