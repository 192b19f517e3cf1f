#!/usr/bin/python3
"""Thousands of probes in several objects of a real program: each int3 is known to the handler that bridges it."""
import os
import signal
import subprocess
import unittest

import harness
from survival_test import engine_of

# Of each some hundred to a thousand, in the program and in two libraries.
PROBES = ["-x", "Perl_*@MAIN", "-x", "[a-z]*@libc.so.*", "-x", "[a-z]*@libm.so.*"]
# What it calls for a line: strings, hashes, formats, numbers, and a child.
PROGRAM = """
use POSIX; $| = 1; print "ready\\n";
while (my $line = <STDIN>) {
  my %h; $h{$_}++ for split //, $line x 3;
  my $all = join ",", map { sprintf "%s=%.2f", $_, sqrt $h{$_} } sort grep { /\\w/ } keys %h;
  print length($all), " ", POSIX::floor(length($line) / 2), " ", `echo child`;
}
"""
ANSWER = "13 1 child\n"


class Perl(harness.Target):
    def __init__(self):
        super().__init__(["/usr/bin/perl", "-e", PROGRAM])
        self.expect("ready")

    def answer(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


class ManySites(unittest.TestCase):
    def attach(self, target, mechanism):
        ready, theirs = os.pipe()
        rtrace = subprocess.Popen(
            [harness.RTRACE, "-q", "--ready-fd=%d" % theirs, "-o", "/dev/null"] +
            ["--mechanism=" + mechanism, "-c"] + PROBES + ["-p", str(target.pid)],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[theirs], env=harness.environment())
        os.close(theirs)
        self.assertEqual(len(os.read(ready, 1)), 1)
        os.close(ready)
        return rtrace

    def test_a_program_goes_on_when_both_processes_of_rtrace_are_killed(self):
        for mechanism in ("breakpoint", "trampoline"):
            with self.subTest(mechanism), Perl() as target:
                rtrace = self.attach(target, mechanism)
                try:
                    self.assertEqual(target.answer(), ANSWER)
                    self.assertGreater(len(harness.altered_code(target.pid)), 2)
                    engine = engine_of(rtrace.pid)
                    os.kill(rtrace.pid, signal.SIGSTOP)  # so that it cannot heal before it is killed
                    os.kill(engine, signal.SIGKILL)
                finally:
                    rtrace.kill()
                    rtrace.wait()
                for _ in range(3):
                    self.assertEqual(target.answer(), ANSWER)
                repaired = harness.run(["--repair", "-p", str(target.pid)], separate=False)
                self.assertEqual(repaired.status, 0, repaired)
                self.assertEqual(target.answer(), ANSWER)
                self.assertEqual(harness.altered_code(target.pid), [])
                target.process.stdin.close()
                self.assertEqual(target.process.wait(harness.PATIENCE), 0)

    def test_its_children_live_when_the_engine_is_killed(self):
        with Perl() as target:
            for mechanism in ("breakpoint", "trampoline"):
                rtrace = self.attach(target, mechanism)
                try:
                    self.assertEqual(target.answer(), ANSWER)
                    target.process.stdin.write("go\n")
                    target.process.stdin.flush()
                    os.kill(engine_of(rtrace.pid), signal.SIGKILL)
                    self.assertEqual(target.process.stdout.readline(), ANSWER)
                    rtrace.wait(harness.PATIENCE)
                finally:
                    rtrace.kill()
                    rtrace.wait()
                self.assertEqual(target.answer(), ANSWER)
                self.assertEqual(harness.altered_code(target.pid), [])


if __name__ == "__main__":
    unittest.main()
