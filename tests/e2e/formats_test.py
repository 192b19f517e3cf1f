#!/usr/bin/python3
"""Calls whose arguments a format tells, by trampolines: each argument reaches the function, however many lie in memory."""
import re
import subprocess
import unittest

import harness

FAMILY = ["snprintf", "swprintf", "fprintf", "sscanf", "__isoc99_sscanf"]
TRACED = [word for name in FAMILY for word in ("-x", name + "@libc.so.*")]


def comparable(lines):
    """Each thread's lines, the threads in the order of their first, without what differs from run to run.

    A thread's end may be reported after the next call of one that has joined it: a line cut by that is put together."""
    threads = {}
    for line in lines:
        thread, rest = re.fullmatch(r"(?:\[pid +(\d+)\] )?(.*)", line).groups()
        shown = threads.setdefault(thread, [])
        end = re.fullmatch(r"<\.\.\. \S+ resumed> (.*)", rest)
        if end and shown and shown[-1].endswith(" <unfinished ...>"):
            whole = shown[-1].removesuffix("<unfinished ...>") + end.group(1)
            shown[-1] = re.sub(r" *\) +=", ") =", whole)  # which stands in a column of its own
        else:
            shown.append(re.sub(r"0x[0-9a-f]{6,}", "ADDRESS", rest))
    return list(threads.values())


class Formats(unittest.TestCase):
    def counted(self, way, rounds):
        result = harness.run(["-c", "--mechanism=trampoline"] + TRACED + [harness.target("formats"), way, str(rounds)],
                             separate=True)
        self.assertEqual(result.status, 0, result)
        self.assertNotIn("no trampoline", result.stderr)
        words = result.stdout.split()
        calls = {name: int(number) for name, number in zip(words[::2], words[1::2]) if number != "0"}
        if "sscanf" in calls:
            calls["__isoc99_sscanf"] = calls.pop("sscanf")
        seen = {name.partition("@")[0]: row["calls"] for name, row in harness.Summary(result.trace).rows.items()}
        self.assertEqual(seen, calls, result)
        return calls

    def test_every_argument_is_passed_on(self):
        self.assertEqual(self.counted("passing", 2000)["snprintf"], 12000)

    def test_exceptions_jumps_and_the_end_of_threads_pass(self):
        self.assertEqual(self.counted("leaving", 500)["fprintf"], 2000)

    def test_lines_are_those_of_breakpoints(self):
        for way in ("passing", "leaving"):
            with self.subTest(way):
                shown = []
                for mechanism in ("breakpoint", "trampoline"):
                    result = harness.run(["--mechanism=" + mechanism] + TRACED + [harness.target("formats"), way, "20"])
                    self.assertEqual(result.status, 0, result)
                    self.assertNotIn("no trampoline", result.stderr)
                    shown.append(comparable(result.lines))
                self.assertGreater(sum(map(len, shown[0])), 60)
                self.assertEqual(*shown)

    def test_a_program_of_debian_s(self):
        words = ["seq", "-f", "%g", "20000"]
        plain = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        result = harness.run(["-c", "--mechanism=trampoline", "-x", "printf@libc.so.*", "-x", "__printf_chk@libc.so.*"] + words,
                             separate=True)
        self.assertEqual((result.status, result.stdout), (0, plain))
        self.assertNotIn("no trampoline", result.stderr)
        self.assertEqual(sum(row["calls"] for row in harness.Summary(result.trace).rows.values()), 20000, result)


if __name__ == "__main__":
    unittest.main()
