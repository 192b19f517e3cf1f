#!/usr/bin/python3
"""Thousands of probes in several objects of a real program: each int3 is known to the handler that bridges it."""
import os
import signal
import subprocess
import unittest

import harness
from survival_test import engine_of

ROUNDS = int(os.environ.get("RTRACE_ROUNDS", "6"))
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


# Each line has it start children, around each of which all signals are blocked.
STARTER = """
import os, subprocess, sys
print("ready", flush=True)
for line in sys.stdin:
    for number in range(12):
        if number % 2:
            os.system("echo %d" % number)  # by posix_spawn
        else:
            print(subprocess.run(["echo", str(number)], stdout=subprocess.PIPE).stdout.decode(), end="", flush=True)
"""


class Perl(harness.Target):
    def __init__(self):
        super().__init__(["/usr/bin/perl", "-e", PROGRAM])
        self.expect("ready")

    def answer(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


def attach(target, mechanism, probes):
    ready, theirs = os.pipe()
    rtrace = subprocess.Popen(
        [harness.RTRACE, "-q", "--ready-fd=%d" % theirs, "-o", "/dev/null"] +
        ["--mechanism=" + mechanism, "-c"] + probes + ["-p", str(target.pid)],
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[theirs], env=harness.environment())
    os.close(theirs)
    if len(os.read(ready, 1)) != 1:
        raise harness.Failure("rtrace was never ready")
    os.close(ready)
    return rtrace


class ManySites(unittest.TestCase):
    def attach(self, target, mechanism):
        return attach(target, mechanism, PROBES)

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


class WhileChildrenAreStarted(unittest.TestCase):
    """Who puts the code back puts back what a call would block SIGTRAP at behind all else, or a section that begins in
    between ends at the next int3."""

    def killed(self, whom):
        with harness.Target(["/usr/bin/python3", "-S", "-E", "-c", STARTER]) as target:
            target.expect("ready")
            for number in range(ROUNDS):
                rtrace = attach(target, "breakpoint", ["-x", "[a-z]*@libc.so.*", "-x", "_Py*@MAIN"])
                try:
                    target.go()
                    for child in range(12):
                        if child == number % 12:
                            if whom == "both":
                                os.kill(rtrace.pid, signal.SIGSTOP)  # so that it cannot heal before it is killed
                            os.kill(engine_of(rtrace.pid), signal.SIGKILL)
                            if whom == "both":
                                rtrace.kill()
                                harness.wait_until(lambda: harness.tracer(target.pid) == 0, "no tracer is left")
                                repair = subprocess.Popen([harness.RTRACE, "--repair", "-p", str(target.pid)], text=True,
                                                          stderr=subprocess.PIPE, env=harness.environment())
                        self.assertEqual(target.process.stdout.readline(), "%d\n" % child)
                    if whom == "both":
                        said = repair.communicate(timeout=harness.PATIENCE)[1]
                        self.assertEqual(repair.returncode, 0, said)
                    rtrace.wait(harness.PATIENCE)
                finally:
                    rtrace.kill()
                    rtrace.wait()
                self.assertEqual(harness.altered_code(target.pid), [])
            target.process.stdin.close()
            self.assertEqual(target.process.wait(harness.PATIENCE), 0)

    def test_they_live_when_the_engine_is_killed(self):
        self.killed("engine")

    def test_they_live_when_both_processes_are_killed_and_the_process_is_repaired(self):
        self.killed("both")


if __name__ == "__main__":
    unittest.main()
