"""Comparing a trace with what the program counted itself.

A program prints its pid, waits for a line or the end of its standard input, and prints at its end a line
`FUNCTION ENTERED RETURNED` for each function that it knows to have called. The trace must show as many calls, no more
and no less; what was entered and never returned must be shown with `<no return ...>`; and the program must print and
end as it does without rtrace.
"""
import collections
import re
import subprocess
import unittest

import harness

OTHER = re.compile(r"(?:\[pid +\d+\] )?(?:---|\+\+\+) ")


class Counts:
    """Of one function: how often it was entered, returned, and shown to be left for good."""

    def __init__(self, entered=0, returned=0, left=0):
        self.entered, self.returned, self.left = entered, returned, left

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return "%d entered, %d returned, %d left" % (self.entered, self.returned, self.left)


def line_pattern(names):
    name = r"(?:[\w.-]+->)?(?P<%%s>%s)(?:@[^\s(]+)?" % "|".join(names)
    return re.compile(r"(?:\[pid +\d+\] )?(?:" + name % "name" + r"\((?P<arguments>.*?)|"
                      r"<\.\.\. " + name % "resumed" + r" resumed> )\)? *"
                      r"(?:(?P<left><no return \.\.\.>)|<unfinished \.\.\.>|(?P<result>= .*))$")


def of_trace(result, names, check=None):
    """Of each function that was entered. `check` is asked about the match of each line."""
    found, pattern = collections.defaultdict(Counts), line_pattern(names)
    for line in result.lines:
        if OTHER.match(line):
            continue
        match = pattern.match(line)
        if not match:
            raise harness.Failure("a line of no known form: " + line)
        counts = found[match.group("name") or match.group("resumed")]
        counts.entered += bool(match.group("name"))
        counts.returned += bool(match.group("result"))
        counts.left += bool(match.group("left"))
        if check and not check(match):
            raise harness.Failure("wrong: " + line)
    return dict(found)


def of_program(text):
    return {name: Counts(int(entered), int(returned), int(entered) - int(returned))
            for name, entered, returned in re.findall(r"(?m)^(\w+) (\d+) (\d+)$", text)}


def said(stdout):
    """What a program printed, without its pid."""
    return re.sub(r"\Apid \d+\n", "", stdout)


class Counted(unittest.TestCase):
    """Of programs that count; what differs from program to program is in the three attributes."""
    functions = ()
    conf = harness.PROGRAMS
    check = staticmethod(lambda match: True)

    def options(self, kind="-x"):
        words = ["-F", self.conf] if self.conf else []
        return words + [word for name in self.functions for word in (kind, name)]

    def untraced(self, words):
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, env=harness.environment(), timeout=harness.PATIENCE, check=False)
        return said(done.stdout), done.returncode

    def compare(self, result, stdout, status, plain):
        self.assertEqual((stdout, status), plain, result)
        names = [name.partition("@")[0] for name in self.functions]
        self.assertEqual(of_trace(result, names, self.check), of_program(stdout), result)

    def launched(self, words, kind="-x"):
        plain = self.untraced(words)
        result = harness.run(self.options(kind) + ["--"] + words)
        self.compare(result, said(result.stdout), result.status, plain)

    def attached(self, words):
        plain = self.untraced(words)
        with harness.Target(words) as process:
            process.expect("pid ")
            rtrace = harness.Attached(self.options(), [process.pid])
            try:
                process.go()
                stdout, status = process.finish()
                result = rtrace.end()
            finally:
                rtrace.abandon()
        self.assertEqual(result.status, 0, result)
        self.compare(result, stdout, status, plain)
