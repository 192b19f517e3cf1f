#!/usr/bin/python3
"""Libraries come and go all the time, beside a thread at full speed: attaching, detaching and dying in the midst of it
harm nobody, and of a launched program every call is counted.

comings_test.py [ROUNDS]: of each kind, 6 if not said.
"""
import os
import random
import signal
import sys
import tempfile
import unittest

import board
import harness

ROUNDS = 6
# Two of ours, one of which is a dependency of another; what is large, and opens others with it.
OBJECTS = [harness.target("libplugin_a.so"), harness.target("libwith_dependency.so"), "libdw.so.1", "libstdc++.so.6"]
SOME = ["-x", "malloc", "-x", "free", "-x", "strtoull*", "-x", "plugin_work", "-x", "dlopen", "-x", "dlclose"]


class Comings(board.Words, harness.Target):
    def __init__(self, folder, before=()):
        path = os.path.join(folder, "board")
        harness.Target.__init__(self, [*before, harness.target("comings"), path, *OBJECTS])
        self.expect("pid ")
        board.Words.__init__(self, path)

    def wait_for(self, more):
        """Until so many more objects have been opened, and the other thread has gone on."""
        opened, rounds = self.word(2), self.word(4)
        harness.wait_until(lambda: self.process.poll() is not None or
                           (self.word(2) >= opened + more and self.word(4) > rounds), "libraries come and go")


class Amid(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def rounds(self, options, leave):
        with Comings(self.folder) as comings:
            for round_ in range(ROUNDS):
                rtrace = harness.Attached(["-F", harness.CONF, *options], [comings.pid])
                try:
                    comings.wait_for(self.random.randrange(4))
                    leave(rtrace, comings)
                finally:
                    rtrace.abandon()
                self.assertIsNone(comings.process.poll(), "round %d" % round_)
                comings.wait_for(1)
            board.Words.end(comings)
            rest, status = comings.finish()
            self.assertEqual((status, comings.word(1)), (0, 0), rest)

    def detach(self, rtrace, comings):
        result = rtrace.stop()
        self.assertEqual(result.status, 0, result.stderr)
        self.assertNotRegex(result.stderr, "lost|died|unmapped", comings.pid)

    def die(self, rtrace, comings):
        for pid in (harness.tracer(comings.pid), rtrace.process.pid):
            os.kill(pid, signal.SIGKILL)
        rtrace.end()
        harness.wait_until(lambda: harness.tracer(comings.pid) == 0, "nobody traces it")

    def test_attached_and_detached_by_breakpoints(self):
        self.rounds(["--mechanism=breakpoint", *SOME], self.detach)

    def test_attached_and_detached_by_trampolines_in_all_of_libc(self):
        self.rounds(["--mechanism=trampoline", "-c", "-x", "*@libc.so.6", "-x", "plugin_work"], self.detach)

    def test_attached_and_detached_in_the_default_way(self):
        self.rounds(SOME, self.detach)

    def test_both_processes_killed(self):
        self.rounds(["-c", *SOME], self.die)

    def test_every_call_of_what_comes_and_goes_is_counted(self):
        for mechanism in ("breakpoint", "trampoline"):
            output = os.path.join(self.folder, mechanism)
            words = [harness.RTRACE, "-q", "--mechanism=" + mechanism, "-c", "-o", output, "-F", harness.CONF, "-x", "plugin_work", "--"]
            with self.subTest(mechanism), Comings(self.folder, words) as comings:
                comings.wait_for(30)
                board.Words.end(comings)
                rest, status = comings.finish()
                self.assertEqual((status, comings.word(1)), (0, 0), rest)
                summary = harness.Summary(harness.read_text(output))
                self.assertEqual(summary.total["calls"], comings.word(3), summary.rows)
            os.unlink(os.path.join(self.folder, "board"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ROUNDS = int(sys.argv.pop())
    unittest.main()
