#!/usr/bin/python3
"""Trampolines in a process that never rests: attaches, detaches, and deaths of rtrace at each moment.

trampoline_load_test.py [ROUNDS]: so many attaches under load, and kills of each kind (2); with 1 at a third of the moments.
"""
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import board
import harness
from survival_test import engine_of
from trampoline_test import COUNTING, LEAVES

ROUNDS = 2
FORETOLD = LEAVES + ["-x", "bsearch@libc.so.*"]
RECORDING = ["--mechanism=trampoline", "--where", "dur > 3600s"]


class Load(board.Target):
    """counts FILE: what is traced, how far it is, and whether all was right."""

    def __init__(self, folder):
        super().__init__("counts", folder)
        self.clean = harness.foreign_mappings(self.pid)

    def done(self):
        return self.words(2, 4)

    def moves_on(self):
        """Every thread has called again, and children and threads were made."""
        before, rounds = self.done(), self.word(6)
        harness.wait_until(lambda: all(b > a for a, b in zip(before, self.done())) and self.word(6) > rounds + 1,
                           "all threads go on")

    def is_clean(self):
        return not harness.altered_code(self.pid) and harness.foreign_mappings(self.pid) == self.clean

    def become_clean(self, said, patience=harness.PATIENCE):
        """`said` is what rtrace did: it stands beside what is left."""
        try:
            harness.wait_until(self.is_clean, "code and mappings are as they were", patience)
        except harness.Failure as failure:
            raise harness.Failure("%s: altered %s, mapped %s, where rtrace said %s" % (
                failure, harness.altered_code(self.pid), harness.foreign_mappings(self.pid), said)) from None


def jumps(pid):
    """Where near and short jumps of ours stand in the C library."""
    found = {0xe9: [], 0xeb: []}
    for path, _, begin, here, there in harness.mapped_code(pid):
        if "/libc.so" not in path:
            continue
        behind = 0
        for at in harness.differences(here, there):
            if at < behind:
                continue
            if here[at] in found:
                found[here[at]].append(begin + at)
            behind = at + (2 if here[at] == 0xeb else 5)
    return found[0xe9], found[0xeb]


class UnderLoad(unittest.TestCase):
    options = COUNTING
    leaves = LEAVES
    foretold = False  # something returns through the call in padding
    moments = (["stop-all:1", "detach:1", "waiting:1", "waiting:9", "stop-peeked:2", "registers-written:1"] +
               ["remote-call:%d" % n for n in range(1, 13)] + ["byte-write:%d" % n for n in range(1, 13, 2)])

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.load = Load(self.folder.name)
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(self.load.abandon)

    def attach(self, arguments=()):
        return harness.Attached(self.options + self.leaves + list(arguments), [self.load.pid])

    def is_wrapped(self):
        near, short = jumps(self.load.pid)
        return (len(near), len(short)) == (2 + self.foretold, 0) and self.is_foretold()

    def is_foretold(self):
        return len(harness.foretelling_calls(self.load.pid)) == self.foretold

    def end(self):
        self.assertEqual(self.load.end(), 0, "wrong results: %d" % self.load.word(1))

    def test_attach_and_detach_leave_every_byte_as_it_was(self):
        for _ in range(ROUNDS * 5):
            attached = self.attach(["-D", "session:1"])
            try:
                harness.wait_until(self.is_wrapped, "the functions are wrapped")
                before = self.load.done()
                self.load.moves_on()
                after = self.load.done()
            finally:
                result = attached.stop()
            self.assertEqual(result.status, 0, result)
            self.assertNotIn("not stopped", result.stderr)
            if self.options == COUNTING:
                calls = harness.Summary(result.trace).rows["labs@libc.so.6"]["calls"]
                self.assertGreaterEqual(calls, sum(after) - sum(before), result)
            self.load.become_clean(result)
        self.end()

    def kill(self, *whom, when=None):
        attached = self.attach()
        harness.wait_until(when or self.is_wrapped, "the functions are wrapped")
        pids = {"front": attached.process.pid, "engine": engine_of(attached.process.pid)}
        if len(whom) > 1:
            os.kill(pids["front"], signal.SIGSTOP)  # so that it cannot heal before it is killed
        for name in whom:
            os.kill(pids[name], signal.SIGKILL)
        attached.process.wait(harness.PATIENCE)
        attached.process.stdout.close()

    def test_it_survives_the_death_of_one_and_the_other_clears_away(self):
        for whom in ("front", "engine") * ROUNDS:
            with self.subTest(whom):
                self.kill(whom)
                self.load.become_clean("nothing, killed")
                self.load.moves_on()
        self.end()

    def test_it_survives_the_death_of_both_and_is_repaired(self):
        for _ in range(ROUNDS):
            self.kill("engine", "front")
            self.load.moves_on()
            self.assertTrue(self.is_wrapped())
            said = self.repair()
            self.load.moves_on()
            # What a stack shows may be older than its calls.
            harness.wait_until(lambda: "pages of rtrace stay" not in said or "stay" not in self.repair(),
                               "a later repair clears the pages away")
            self.assertTrue(self.load.is_clean(), (said, harness.foreign_mappings(self.load.pid)))
        self.end()

    def repair(self, statuses=(0,)):
        done = subprocess.run([harness.RTRACE, "--repair", "-p", str(self.load.pid)], capture_output=True, text=True,
                              timeout=harness.PATIENCE, check=False)
        self.assertIn(done.returncode, statuses, done.stderr)
        return done.stderr

    def die_at(self, moment, both):
        """Attaches, and has rtrace die at that moment, or be ended where it does not come to it."""
        os.environ["RTRACE_DIE_AT"] = moment + (":both" if both else "")
        try:
            rtrace = subprocess.Popen([harness.RTRACE, "-o", "/dev/null"] + self.options + self.leaves + ["-p", str(self.load.pid)],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=harness.environment())
        finally:
            del os.environ["RTRACE_DIE_AT"]
        harness.wait_until(lambda: rtrace.poll() is not None or self.is_wrapped(), "it dies or traces")
        if rtrace.poll() is None:
            self.load.moves_on()
            rtrace.send_signal(signal.SIGINT)
        return rtrace.communicate(timeout=harness.PATIENCE)[1].decode(errors="replace")

    def test_it_survives_a_death_at_any_moment(self):
        for moment in self.moments[::3 if ROUNDS == 1 else 1]:
            for both in (False, True):
                said = self.die_at(moment, both)
                with self.subTest(moment=moment, both=both):
                    self.load.moves_on()
                    if both:
                        subprocess.run([harness.RTRACE, "--repair", "-p", str(self.load.pid)], capture_output=True,
                                       timeout=harness.PATIENCE, check=True)
                    self.load.become_clean(said, 20)
                    self.load.moves_on()
        self.end()

    def test_the_next_tracer_clears_away_what_a_dead_one_has_left(self):
        self.kill("engine", "front")
        attached = self.attach()
        harness.wait_until(self.is_wrapped, "the functions are wrapped")
        self.load.moves_on()
        result = attached.stop()
        self.assertEqual(result.status, 0, result)
        self.assertIn("a tracer died in it", result.stderr)
        self.load.become_clean(result)
        self.end()


class ThroughPadding(UnderLoad):
    """memcpy(), whose fourth byte mempcpy() jumps to: a short jump at its entry, to one in the padding near it. And bsearch(),
    through which its callback may throw."""
    leaves = FORETOLD + ["-x", "memcpy@libc.so.*"]
    foretold = True
    moments = ["detach:1"] + ["byte-write:%d" % n for n in range(1, 16)]

    def is_wrapped(self):
        near, short = jumps(self.load.pid)
        return len(short) > 0 and len(near) == 3 + len(short) and self.is_foretold()

    def park_between_the_jumps(self):
        """A thread has made the short one, and not yet the other; the process is stopped."""
        near, short = jumps(self.load.pid)
        with open("/proc/%d/mem" % self.load.pid, "rb", buffering=0) as memory:
            distances = [memory.seek(at + 1) and int.from_bytes(memory.read(1), "little", signed=True) for at in short]
        hops = {at + 2 + distance for at, distance in zip(short, distances)}
        self.assertLessEqual(hops, set(near))
        thread = sorted(os.listdir("/proc/%d/task" % self.load.pid), key=int)[1]  # of those that only call
        for hop in hops:  # of two memcpy() the program uses one
            done = subprocess.run([harness.target("park"), thread, "%x" % hop], capture_output=True, text=True,
                                  timeout=harness.PATIENCE, check=False)
            if done.returncode == 0:
                return thread, hop
        self.fail("no thread came by (%d); the program: %s" % (done.returncode, self.load.process.poll()))

    def pcs_of_stopped(self):
        """Nothing while one still runs: to its stop, which a repair has interrupted."""
        tasks = "/proc/%d/task" % self.load.pid
        words = {task: harness.read_text("%s/%s/syscall" % (tasks, task)).split()[-1] for task in os.listdir(tasks)}
        return None if "running" in words.values() else {task: int(word, 16) for task, word in words.items()}

    def test_who_stands_between_the_jumps_finds_the_other(self):
        self.kill("engine", "front", when=self.is_wrapped)
        thread, hop = self.park_between_the_jumps()
        # Perhaps not all: it is stopped, and cannot be led out.
        said = self.repair((0, 1))
        near, short = jumps(self.load.pid)
        self.assertEqual(short, [], said)
        # It may not be the only one there, and where another is elsewhere in what is ours the hop stays too, which is said.
        pcs = harness.wait_until(self.pcs_of_stopped, "all threads are stopped as before")
        found = (said, thread, hex(hop), {task: hex(pc) for task, pc in pcs.items()})
        if hop in pcs.values():
            self.assertIn(hop, near, found)
        if hop in near:
            self.assertIn("could not be yet", said, found)
        os.kill(self.load.pid, signal.SIGCONT)
        self.load.moves_on()
        harness.wait_until(lambda: "stay" not in self.repair() and self.load.is_clean(), "nothing is left")
        self.end()


class RecordedUnderLoad(UnderLoad):
    """Each call, of which none is selected for output."""
    options = RECORDING
    leaves = FORETOLD
    foretold = True


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        ROUNDS = int(sys.argv.pop(1))
    unittest.main()
