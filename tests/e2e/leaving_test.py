#!/usr/bin/python3
"""What is left in a process that rtrace has let go of, and in its children: nothing."""
import os
import re
import signal
import struct
import subprocess
import tempfile
import unittest

import board
import harness
from survival_test import engine_of

ROUNDS = 5


def kill_both(attached):
    """The one that is seen first, so that it cannot heal before it is killed."""
    os.kill(attached.process.pid, signal.SIGSTOP)
    engine = engine_of(attached.process.pid)
    os.kill(engine, signal.SIGKILL)
    os.kill(attached.process.pid, signal.SIGKILL)
    attached.process.wait(harness.PATIENCE)
    attached.process.stdout.close()
    harness.wait_until(lambda: (harness.read_text("/proc/%d/stat" % engine) or ") Z").rpartition(")")[2].split()[0] == "Z",
                       "the engine has ended")


def repair(pid):
    return harness.run(["--repair", "-p", str(pid)], separate=False)


class Brood(unittest.TestCase):
    """Children that are forked while rtrace arms, traces and leaves: each lives on in memory of its own."""
    BIT = 1 << (signal.SIGTRAP - 1)

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.target = board.Target("brood", self.folder.name)
        self.addCleanup(self.target.abandon)
        self.clean = harness.foreign_mappings(self.target.pid)

    def catches(self, pid):
        status = harness.read_text("/proc/%d/status" % pid)
        caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
        return int(caught.split()[1], 16) & self.BIT != 0

    def left_in(self, pid):
        left = [line for line in harness.foreign_mappings(pid) if line not in self.clean]
        left += ["a handler for SIGTRAP"] if self.catches(pid) else []
        return left + ["%s %s" % place for place in harness.altered_code(pid)]

    def rest(self, whether):
        struct.pack_into("=Q", self.target.board, 8, whether)
        harness.wait_until(lambda: self.target.words(3, 2) == ((1, 1) if whether else (0, 0)), "forking stops or goes on")

    def leaves_nothing(self, options):
        for _ in range(ROUNDS):
            attached = harness.Attached(options, [self.target.pid])
            made = self.target.word(2)
            harness.wait_until(lambda: self.target.word(2) > made + 20, "children are made meanwhile")
            result = attached.stop()
            self.rest(True)
            self.assertEqual(result.status, 0, result)
            for pid in [self.target.pid] + [int(word) for word in self.target.words(8, 240) if word]:
                self.assertEqual(self.left_in(pid), [], (pid, self.target.pid, result))
            self.rest(False)
        self.assertEqual(self.target.end(), 0)

    def test_children_by_breakpoints(self):
        self.leaves_nothing(["--mechanism=breakpoint", "-x", "labs@libc.so.*"])

    def test_children_by_trampolines(self):
        self.leaves_nothing(["-c", "--mechanism=trampoline", "-x", "labs@libc.so.*", "-x", "strtol@libc.so.*"])

    def test_followed_children(self):
        self.leaves_nothing(["-f", "-x", "labs@libc.so.*"])

    def test_followed_children_are_traced_whenever_they_were_forked(self):
        """In the middle of the attach too, when their parent has no probe yet, or some of them, or all."""
        for _ in range(4 * ROUNDS):
            attached = harness.Attached(["-f", "--mechanism=breakpoint", "-x", "labs@libc.so.*"], [self.target.pid])
            self.rest(True)
            children = [int(word) for word in self.target.words(8, 240) if word]
            followed = {pid for pid in children if harness.tracer(pid) != 0}
            for pid in followed:
                os.kill(pid, signal.SIGUSR1)

            def unseen():
                seen = re.findall(r"labs@libc\.so\.6\(-(\d+)", "\n".join(attached.lines_so_far()))
                return followed - {int(pid) for pid in seen}

            try:
                harness.wait_until(lambda: not unseen(), "each of %s has called it" % followed)
            finally:
                result = attached.stop()
            self.assertNotIn("not followed", result.stderr)
            self.rest(False)
        self.assertEqual(self.target.end(), 0)

    def test_children_inside_a_call_are_put_right_together_when_the_engine_is_killed(self):
        """Each keeps its pages, which is waited for: once for all of them, not for one after the other."""
        conf = os.path.join(self.folder.name, "brood.conf")
        with open(conf, "w") as file:
            file.write("long make_child(long);\n")
        attached = harness.Attached(["-F", conf, "-c", "--mechanism=trampoline", "-x", "make_child@MAIN"],
                                    [self.target.pid])
        made = self.target.word(2)
        harness.wait_until(lambda: self.target.word(2) > made + 240, "all children are made inside of it")
        self.rest(True)
        os.kill(engine_of(attached.process.pid), signal.SIGKILL)
        attached.process.wait(harness.PATIENCE)
        attached.process.stdout.close()
        self.assertRegex(attached.notices(), r"processes (\d+, ){4}\d+ and \d+ more: .* pages of rtrace stay mapped in them")
        for pid in [self.target.pid] + [int(word) for word in self.target.words(8, 240) if word]:
            self.assertEqual(harness.altered_code(pid), [], (pid, self.target.pid, attached.notices()))
        self.assertEqual(self.target.end(), 0)

    def test_calls_that_are_made_all_the_time(self):
        self.leaves_nothing(["-x", "waitpid@libc.so.*", "-x", "kill@libc.so.*"])


class Lingering(unittest.TestCase):
    """Calls that do not return: what they will return to stays, of each session, and is nobody's any more."""
    SESSIONS = 6

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.target = board.Target("lingers", folder.name)
        self.addCleanup(self.target.abandon)

    def moves_on(self):
        calls = self.target.word(3)
        harness.wait_until(lambda: self.target.word(3) > calls + 1000, "it goes on")

    def one_more_waits(self, number):
        struct.pack_into("=Q", self.target.board, 8, number)
        harness.wait_until(lambda: self.target.word(2) == number, "a thread is made")
        thread = max(os.listdir("/proc/%d/task" % self.target.pid), key=int)
        # read(2) of a pipe.
        harness.wait_until(lambda: harness.read_text("/proc/%d/task/%s/syscall" % (self.target.pid, thread))
                           .startswith("0 "), "it waits")

    def session(self, number):
        attached = harness.Attached(["-c", "--mechanism=trampoline", "-x", "read@libc.so.*", "-x", "labs@libc.so.*"],
                                    [self.target.pid])
        self.one_more_waits(number)
        result = attached.stop()
        self.assertEqual(result.status, 0, result)
        return result

    def die(self):
        attached = harness.Attached(["--mechanism=breakpoint", "-x", "labs@libc.so.*", "-x", "read@libc.so.*"],
                                    [self.target.pid])
        self.moves_on()
        kill_both(attached)
        self.moves_on()

    def test_what_a_dead_tracer_has_left_goes_with_the_next_one(self):
        """A thread needs it when that one attaches, and has ended when it leaves."""
        clean = harness.foreign_mappings(self.target.pid)
        options = ["-c", "--mechanism=trampoline", "-x", "labs@libc.so.*"]
        attached = harness.Attached(options + ["-x", "read@libc.so.*"], [self.target.pid])
        self.one_more_waits(1)
        kill_both(attached)
        attached = harness.Attached(options, [self.target.pid])
        struct.pack_into("=Q", self.target.board, 32, 1)
        harness.wait_until(lambda: len(os.listdir("/proc/%d/task" % self.target.pid)) == 1, "the thread ends")
        result = attached.stop()
        self.assertIn("a tracer died in it", result.stderr)
        self.assertEqual((harness.altered_code(self.target.pid), harness.foreign_mappings(self.target.pid)), ([], clean), result)
        self.assertEqual(self.target.end(), 0)

    def test_who_survives_says_that_pages_stay(self):
        for number, whom in enumerate(("front end", "engine"), 1):
            with self.subTest(whom):
                attached = harness.Attached(["-c", "--mechanism=trampoline", "-x", "read@libc.so.*"], [self.target.pid])
                self.one_more_waits(number)
                os.kill(attached.process.pid if whom == "front end" else engine_of(attached.process.pid), signal.SIGKILL)
                attached.process.wait(harness.PATIENCE)
                attached.process.stdout.close()
                harness.wait_until(lambda: re.search("process %d: .* pages of rtrace stay mapped in it" % self.target.pid,
                                                     attached.notices()), "it is said")
                harness.wait_until(lambda: "run on untraced" in attached.notices(), "it has let go")
        self.moves_on()
        self.assertEqual(self.target.end(), 0)

    def test_however_many_have_left_something_the_last_one_is_repaired(self):
        for number in range(1, self.SESSIONS + 1):
            self.session(number)
        self.die()
        done = repair(self.target.pid)
        self.assertEqual(done.status, 0, done.stderr)
        self.assertEqual(harness.altered_code(self.target.pid), [], done.stderr)
        self.moves_on()
        self.assertEqual(self.target.end(), 0)

    def test_who_attaches_next_says_nothing_of_deaths(self):
        self.session(1)
        result = self.session(2)
        self.assertNotIn("died in it", result.stderr, result)
        self.assertEqual(self.target.end(), 0)


class Remapping(unittest.TestCase):
    """Code gives way to other code at the same place, as where libraries are loaded and unloaded."""

    def test_no_int3_of_other_code_is_taken_for_one_of_ours(self):
        with tempfile.TemporaryDirectory() as folder:
            target = board.Target("remaps", folder)
            self.addCleanup(target.abandon)
            for _ in range(20):
                turns = target.word(1)
                self.assertEqual(repair(target.pid).status, 0)
                harness.wait_until(lambda: target.word(1) > turns + 4, "its code is as it was mapped")
            self.assertEqual(target.end(), 0)


class MovingItsCode(unittest.TestCase):
    """To memory without a file, with what stands in it."""

    def check(self, mechanism, leave):
        with harness.Target([harness.target("large_pages")]) as process:
            process.expect("pid ")
            rtrace = harness.Attached(["-F", harness.CONF, "--mechanism=" + mechanism, "-x", "add", "-x", "outer"],
                                      [process.pid])
            for number in range(3):
                process.go()
                process.expect("sum %d" % (number + 1))
            leave(rtrace, process.pid)
            for number in range(3, 6):
                process.go()
                process.expect("sum %d" % (number + 1))
            process.process.stdin.close()
            process.expect("the same")
            self.assertEqual(process.process.wait(harness.PATIENCE), 0)

    def repaired(self, rtrace, pid):
        kill_both(rtrace)
        result = repair(pid)
        self.assertEqual(result.status, 0, result)

    def left(self, rtrace, _):
        self.assertEqual(rtrace.stop().status, 0)

    def test_it_is_put_right_all_the_same(self):
        for mechanism in ("breakpoint", "trampoline"):
            for leave in (self.repaired, self.left):
                with self.subTest(mechanism=mechanism, leave=leave.__name__):
                    self.check(mechanism, leave)


class KernelWorker(unittest.TestCase):
    """A thread of the kernel's own (io_uring): it has no stack, and never runs the program's code."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "probe")
        probe = subprocess.Popen([harness.target("rings"), path], stdout=subprocess.PIPE)
        offered = probe.stdout.readline() != b""
        probe.kill()
        probe.communicate()
        if not offered:
            self.skipTest("the kernel offers no io_uring here")
        self.target = board.Target("rings", folder.name)
        self.addCleanup(self.target.abandon)
        self.clean = harness.foreign_mappings(self.target.pid)

    def is_clean(self):
        return harness.foreign_mappings(self.target.pid) == self.clean and not harness.altered_code(self.target.pid)

    def moves_on(self):
        calls = self.target.word(1)
        harness.wait_until(lambda: self.target.word(1) > calls + 1000, "it goes on")

    def test_nothing_stays_for_it(self):
        self.assertEqual(len(os.listdir("/proc/%d/task" % self.target.pid)), 2)
        for mechanism in ("breakpoint", "trampoline"):
            options = ["-c", "--mechanism=" + mechanism, "-x", "labs@libc.so.*"]
            attached = harness.Attached(options, [self.target.pid])
            self.moves_on()
            result = attached.stop()
            self.assertNotIn("stay", result.stderr, result)
            self.assertTrue(self.is_clean(), result)
            attached = harness.Attached(options, [self.target.pid])
            self.moves_on()
            kill_both(attached)
            self.moves_on()
            done = repair(self.target.pid)
            self.assertEqual(done.status, 0, done)
            self.assertNotIn("stay", done.stderr)
            self.assertTrue(self.is_clean(), done.stderr)
            self.moves_on()
        self.assertEqual(self.target.end(), 0)


class Ticking(unittest.TestCase):
    """A thread that is in a wrapped call but for moments, with a timeout that each interruption begins anew."""

    def test_it_is_left_when_its_timeout_has_passed(self):
        script = "import select, sys\nqueue = select.epoll()\nwhile True:\n    queue.poll(0.1)\n    print('tick', flush=True)"
        with harness.Target(["/usr/bin/python3", "-c", script]) as process:
            process.expect("tick")
            before = harness.foreign_mappings(process.pid)
            rtrace = harness.Attached(["-c", "--mechanism=trampoline", "-x", "epoll_wait"], [process.pid])
            for _ in range(3):
                process.expect("tick")
            result = rtrace.stop()
            self.assertEqual(result.status, 0, result)
            self.assertNotIn("stay mapped", result.stderr)
            self.assertIn("1 trampoline, 0 breakpoints", result.stderr)
            self.assertEqual(harness.foreign_mappings(process.pid), before)
            process.expect("tick")


class InTheCopy(unittest.TestCase):
    """A call that waits in the kernel, from a system call that a trampoline has moved."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.target = board.Target("inner", self.folder.name)
        self.addCleanup(self.target.abandon)
        conf = os.path.join(self.folder.name, "inner.conf")
        with open(conf, "w") as file:
            file.write("long inner_read(long, addr, long);\n")
        self.options = ["-F", conf, "-c", "--mechanism=trampoline", "-x", "inner_read@MAIN"]

    def attach_and_wait(self):
        attached = harness.Attached(self.options, [self.target.pid])
        struct.pack_into("=Q", self.target.board, 8, 1)
        harness.wait_until(lambda: harness.read_text("/proc/%d/syscall" % self.target.pid).startswith("0 "), "it waits")
        return attached

    def goes_on(self):
        status = harness.read_text("/proc/%d/status" % self.target.pid)
        self.assertRegex(status, r"SigBlk:\t0+\n")
        self.assertEqual(self.target.end(), 0)

    def test_the_call_that_foretells_returns_goes_while_one_is_open(self):
        for leave in (lambda attached: attached.stop(), lambda attached: (kill_both(attached), repair(self.target.pid))):
            attached = harness.Attached(self.options, [self.target.pid])
            struct.pack_into("=Q", self.target.board, 8, 1)
            self.assertEqual(len(harness.wait_until(lambda: harness.foretelling_calls(self.target.pid), "the call stands")), 1)
            harness.wait_until(lambda: harness.read_text("/proc/%d/syscall" % self.target.pid).startswith("0 "),
                               "it waits")
            leave(attached)
            self.assertEqual(harness.altered_code(self.target.pid), [])
        self.goes_on()

    def test_a_detach_leaves_it_alone(self):
        result = self.attach_and_wait().stop()
        self.assertIn("1 trampoline, 0 breakpoints", result.stderr, result)
        self.assertEqual(result.status, 0, result)
        self.goes_on()

    def test_a_repair_leaves_it_alone(self):
        kill_both(self.attach_and_wait())
        done = repair(self.target.pid)
        self.assertIn("a thread is still inside", done.stderr)
        self.assertEqual(harness.altered_code(self.target.pid), [], done.stderr)
        self.goes_on()


if __name__ == "__main__":
    unittest.main()
