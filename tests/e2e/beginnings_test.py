#!/usr/bin/python3
"""Attaching at random moments of a program's beginning and end, where libraries come, handlers are set, processes fork.

beginnings_test.py [ROUNDS [SEED]]: so many of each program (4). The seed is printed; the moments are the machine's affair.

Whatever the moment, the program must print what it prints untraced and end with status 0, and rtrace must end by itself
and say nothing but what it did: that the process had ended before is an answer.
"""
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest

import harness

ROUNDS = 4
SEED = random.SystemRandom().randrange(1 << 32)
SHELL = "for i in 1 2 3 4 5 6 7 8; do /bin/true; echo $i; done | /usr/bin/sort -r | /usr/bin/tail -n 1"
PROGRAMS = {
    "sort": (["/usr/bin/sort", "-n"], "3\n1\n2\n", "1\n2\n3\n"),
    "sh": (["/bin/sh", "-c", SHELL], "", "1\n"),
    "perl": (["/usr/bin/perl", "-MPOSIX", "-e", 'print join(",", sort map { $_ * 2 } 1..5), floor(2.5), "\\n"'], "",
             "10,2,4,6,82\n"),
    "python3": (["/usr/bin/python3", "-c", "import json, re; print(json.dumps(re.findall('a.', 'abacad')))"], "",
                '["ab", "ac", "ad"]\n'),
    "ruby": (["/usr/bin/ruby", "-e", 'puts((1..5).map { |i| i * i }.join(","))'], "", "1,4,9,16,25\n"),
}
# What the C library's beginnings are made of.
BUSY = "malloc+free+calloc+realloc+memcpy+strlen+strcmp+getenv+sigaction+setlocale+fork+execve+read+write"
GONE = re.compile(r"cannot attach to .*(no such process|has ended|is a zombie)")


def environment():
    return dict(harness.environment(), LD_BIND_NOW="1" if random.randrange(4) == 0 else "")


class Beginnings(unittest.TestCase):
    def setUp(self):
        self.took = {}

    def start(self, name):
        words, given, _ = PROGRAMS[name]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment())
        self.addCleanup(self.forget, process)
        process.stdin.write(given)
        process.stdin.close()
        process.stdin = None
        return process

    @staticmethod
    def forget(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def duration(self, name):
        """How long it takes untraced."""
        if name not in self.took:
            begin = time.monotonic()
            self.start(name).communicate(timeout=harness.PATIENCE)
            self.took[name] = time.monotonic() - begin
        return self.took[name]

    def attach(self, pid, folder):
        words = [harness.RTRACE, "-o", os.path.join(folder, "trace"), "-x", BUSY,
                 "--mechanism=" + (harness.MECHANISM or random.choice(("auto", "breakpoint", "trampoline")))]
        words += random.choice(([], ["-f"], ["-c"], ["-f", "-c"], ["-e", "*"], ["-ttT", "-w", "3"]))
        return words + ["-p", str(pid)]

    def round(self, name):
        moment = random.uniform(0, 1.1 * self.duration(name))
        with tempfile.TemporaryDirectory() as folder:
            process = self.start(name)
            end = time.monotonic() + moment
            while time.monotonic() < end and process.poll() is None:
                pass
            words = self.attach(process.pid, folder)
            rtrace = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True, env=harness.environment(), timeout=harness.PATIENCE, check=False)
            out, err = process.communicate(timeout=harness.PATIENCE)
        harness.without_mechanism(rtrace.stderr)  # counts them
        told = "%s\nafter %.1f ms of %.1f; status %d\n%s\nthe program: status %d\n%s%s" % (
            " ".join(words), 1e3 * moment, 1e3 * self.duration(name), rtrace.returncode, rtrace.stderr, process.returncode,
            out, err)
        self.assertEqual((out, err, process.returncode), (PROGRAMS[name][2], "", 0), told)
        if rtrace.returncode != 0:
            self.assertRegex(rtrace.stderr, GONE, told)

    def rounds(self, name):
        if not os.path.exists(PROGRAMS[name][0][0]):
            self.skipTest("no " + name)
        for _ in range(ROUNDS):
            self.round(name)

    def test_sort(self):
        self.rounds("sort")

    def test_sh(self):
        self.rounds("sh")

    def test_perl(self):
        self.rounds("perl")

    def test_python3(self):
        self.rounds("python3")

    def test_ruby(self):
        self.rounds("ruby")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        ROUNDS = int(sys.argv.pop(1))
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        SEED = int(sys.argv.pop(1))
    random.seed(SEED)
    print("seed %d" % SEED, file=sys.stderr)
    unittest.main()
