#!/usr/bin/python3
"""What passes calls that are counted inside the process: exceptions, the end of threads, jumps, switched stacks, forks.

passing_test.py [ROUNDS]: so many attaches to a process that does all of that (3).
"""
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import board
import harness
from leaving_test import kill_both
from survival_test import engine_of

ROUNDS = 3
LIBC = ["qsort", "bsearch", "read", "pause", "pthread_cond_wait"]
NAMES = [name + "@libc.so.6" for name in LIBC] + ["through"]
TRACED = [word for name in LIBC for word in ("-x", name + "@libc.so.*")] + ["-x", "through"]


def counted(mechanism, way, count):
    words = ["-c", "--explain", "--mechanism=" + mechanism] + TRACED
    result = harness.run(words + [harness.target("passes"), way, str(count)], patience=4 * harness.PATIENCE)
    return result, {name: row["calls"] for name, row in harness.Summary(result.trace).rows.items()}


def breakpoints_said(stderr):
    return re.findall(r"^rtrace: (\S+): a breakpoint, no trampoline: (.*)$", stderr, re.M)


class Passing(unittest.TestCase):
    def expect(self, way, count, calls):
        """All right, each call counted, and none by a breakpoint."""
        result, seen = counted("trampoline", way, count)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(breakpoints_said(result.stderr), [], result)
        self.assertEqual({name: seen.get(name) for name in calls}, calls, result)
        return result, seen

    def test_exceptions_are_caught_above_wrapped_calls(self):
        n = 100000
        self.expect("throwing", n, {"qsort@libc.so.6": 2 * n, "bsearch@libc.so.6": n, "through": 2 * n})

    def test_threads_that_wait_in_wrapped_calls_are_cancelled(self):
        n = 600
        _, seen = self.expect("cancelling", n, {"pause@libc.so.6": n // 3, "pthread_cond_wait@libc.so.6": n // 3})
        self.assertGreaterEqual(seen["read@libc.so.6"], n // 3)

    def test_threads_exit_from_wrapped_calls(self):
        self.expect("exiting", 1000, {"qsort@libc.so.6": 1000})

    def test_wrapped_calls_are_left_by_longjmp(self):
        self.expect("jumping", 1000, {"qsort@libc.so.6": 1000})

    def test_stacks_are_switched_and_moved_inside_wrapped_calls(self):
        self.expect("switching", 20, {"qsort@libc.so.6": 160})

    def test_calls_on_switched_stacks_return_when_the_engine_was_killed_amid_them(self):
        """Some began after its death: nothing records them, and no thread's stack shows them."""
        for _ in range(ROUNDS):
            with subprocess.Popen([harness.target("passes"), "switching", "4000"]) as program:
                rtrace = harness.Attached(["--mechanism=trampoline", "-x", "qsort@libc.so.*"], [program.pid])
                os.kill(engine_of(rtrace.process.pid), signal.SIGKILL)
                rtrace.process.wait(harness.PATIENCE)
                rtrace.process.stdout.close()
                self.assertIsNone(program.poll(), "it has ended too soon for this test, or died")
                self.assertEqual(program.wait(harness.PATIENCE), 0)

    def test_children_that_are_made_inside_a_wrapped_call_return_from_it(self):
        self.expect("forking", 30, {"qsort@libc.so.6": 30})

    def test_the_program_finds_its_own_frames_and_one_or_two_more(self):
        result, _ = self.expect("tracing", 1, {"qsort@libc.so.6": 1})
        untraced = subprocess.run([harness.target("passes"), "tracing", "1"], capture_output=True, text=True,
                                  check=True).stdout
        depth = [len(text.splitlines()) for text in (untraced, result.stdout)]
        self.assertIn(depth[1] - depth[0], (1, 2), (untraced, result.stdout))
        own = [re.findall(r"passes\(([^)]*)\)", text) for text in (untraced, result.stdout)]
        self.assertEqual(own[0], own[1])

    def test_lines_tell_the_same_calls(self):
        words = ["--mechanism=trampoline"] + TRACED + [harness.target("passes"), "throwing", "400"]
        result = harness.run(words)
        self.assertEqual((result.status, breakpoints_said(result.stderr)), (0, []), result)
        begun = [sum(name + "(" in line for line in result.lines) for name in (NAMES[0], NAMES[1], NAMES[-1])]
        self.assertEqual(begun, [800, 400, 800], result)

    def test_the_counts_are_those_of_breakpoints(self):
        for way, count in (("throwing", 400), ("exiting", 40), ("jumping", 40), ("switching", 2), ("forking", 3)):
            with self.subTest(way):
                results = [counted(mechanism, way, count) for mechanism in ("breakpoint", "trampoline")]
                self.assertEqual([result.status for result, _ in results], [0, 0], results[1][0])
                self.assertEqual(results[0][1], results[1][1], results[1][0])


class UnderLoad(unittest.TestCase):
    def test_attach_and_detach_while_everything_passes(self):
        self.attach_and_detach(["-c"], lambda trace: harness.Summary(trace).rows["qsort@libc.so.6"]["calls"])

    def test_and_while_lines_are_made_of_it(self):
        self.attach_and_detach([], lambda trace: trace.count(" qsort@libc.so.6("))

    def test_open_calls_that_no_stack_shows_keep_what_they_return_to(self):
        for options in (["-c"], []):
            with self.subTest(options), self.under_load("parked") as (load, words):
                before = self.kilobytes(load.pid, "VmSize")
                for _ in range(ROUNDS):
                    attached = harness.Attached(options + ["--mechanism=trampoline", "-x", "qsort@libc.so.*"], [load.pid])
                    self.moves_on(words, 4)
                    self.assertEqual(attached.stop().status, 0)
                    self.moves_on(words, 4)
                # Room for records goes all the same.
                self.assertLess(self.kilobytes(load.pid, "VmSize") - before, ROUNDS * 160 * 1024)

    def test_of_both_that_died_nobody_keeps_records(self):
        with self.under_load("parked") as (load, words):
            harness.wait_until(lambda: "stay mapped in it for good" in self.orphan_and_repair(load.pid),
                               "both died while the call was open, not just between two of them")
            self.assertLess(self.kilobytes(load.pid, "RssShmem"), 100)
            self.moves_on(words, 4)

    def orphan_and_repair(self, pid):
        """What --repair says of one whose ring is in use, and whose two tracers died."""
        attached = harness.Attached(["--mechanism=trampoline", "-x", "qsort@libc.so.*", "-x", "memset@libc.so.*"], [pid])
        harness.wait_until(lambda: self.kilobytes(pid, "RssShmem") > 200, "a ring is in use")
        kill_both(attached)
        return harness.run(["--repair", "-p", str(pid)], separate=False).stderr

    @staticmethod
    def kilobytes(pid, field):
        status = harness.read_text("/proc/%d/status" % pid)
        return int(next(line for line in status.splitlines() if line.startswith(field + ":")).split()[1])

    def test_both_die_and_the_code_is_repaired_while_everything_passes(self):
        with self.under_load() as (load, words):
            for _ in range(ROUNDS):
                attached = harness.Attached(["-c", "--mechanism=trampoline"] + TRACED, [load.pid])
                self.moves_on(words)
                engine = engine_of(attached.process.pid)
                os.kill(attached.process.pid, signal.SIGSTOP)  # so that it cannot heal
                os.kill(engine, signal.SIGKILL)
                os.kill(attached.process.pid, signal.SIGKILL)
                attached.process.wait(harness.PATIENCE)
                attached.process.stdout.close()
                self.moves_on(words)
                done = subprocess.run([harness.RTRACE, "--repair", "-p", str(load.pid)], capture_output=True, text=True,
                                      check=False, timeout=harness.PATIENCE)
                # Somebody is always inside: then the pages stay, and that is said.
                self.assertTrue(done.returncode == 0 or "still inside" in done.stderr, done)
                self.assertFalse(harness.altered_code(load.pid))
                self.moves_on(words)

    @contextlib.contextmanager
    def under_load(self, way="under-load"):
        with tempfile.TemporaryDirectory() as folder:
            load = harness.Target([harness.target("passes"), way, folder + "/board"])
            self.addCleanup(load.abandon)
            load.expect("pid ")
            words = board.Words(folder + "/board")
            yield load, words
            words.end()
            self.assertEqual(load.finish()[1], 0, "went wrong: %#x" % words.word(1))

    def attach_and_detach(self, options, sorts):
        with self.under_load() as (load, words):
            for _ in range(ROUNDS):
                attached = harness.Attached(options + ["--explain", "--mechanism=trampoline"] + TRACED, [load.pid])
                try:
                    self.moves_on(words)
                finally:
                    result = attached.stop()
                self.assertEqual(result.status, 0, result)
                self.assertEqual(breakpoints_said(result.stderr), [], result)
                self.assertGreater(sorts(result.trace), 0, result)
                self.assertFalse(harness.altered_code(load.pid))
                self.moves_on(words)

    def moves_on(self, words, first=0):
        before = words.words(2 + first, 5 - first)
        harness.wait_until(lambda: all(b > a + 2 for a, b in zip(before, words.words(2 + first, 5 - first))),
                           "all threads go on")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        ROUNDS = int(sys.argv.pop(1))
    unittest.main()
