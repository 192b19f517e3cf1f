#!/usr/bin/python3
"""The death of rtrace while threads block all signals, SIGTRAP among them, or children run in the program's memory."""
import itertools
import os
import random
import signal
import subprocess
import tempfile
import time
import unittest

import harness
import survival_test
from survival_test import engine_of

ROUNDS = survival_test.ROUNDS
done_with = survival_test.Survival.done_with


def kill_both(rtrace):
    """Neither can do anything about the other's death."""
    os.kill(rtrace.process.pid, signal.SIGSTOP)
    os.kill(engine_of(rtrace.process.pid), signal.SIGKILL)
    rtrace.process.kill()
    rtrace.process.wait(harness.PATIENCE)


class AProgramThatBlocksAllSignals(unittest.TestCase):
    """As interpreters do around each child that they start: nothing of rtrace may be met there when rtrace is dead."""

    PYTHON = ["/usr/bin/python3", "-c"]
    PROGRAMS = [
        PYTHON + ["import subprocess, sys\nfor _ in sys.stdin:\n  subprocess.run(['true'])\n  print('ran', flush=True)"],
        ["/usr/bin/ruby", "-e", "$stdout.sync = true\nwhile $stdin.gets\n  system('true')\n  puts 'ran'\nend"],
        # Each round it sets the default action for SIGTRAP, and meets a probe only in the next.
        PYTHON + ["import os, signal, sys\nfor _ in sys.stdin:\n  os.getppid()\n"
                  "  signal.signal(signal.SIGTRAP, signal.SIG_DFL)\n  print('ran', flush=True)"],
    ]

    def test_goes_on_after_rtrace_has_died(self):
        for words, both, first in itertools.product(self.PROGRAMS, (False, True), (0, 1)):
            with self.subTest(words, both=both, first=first), harness.Target(words) as process:
                for _ in range(ROUNDS):
                    self.orphan(process, both, first)
                self.assertIsNone(process.process.poll())

    def test_goes_on_when_the_engine_dies_as_it_attaches(self):
        """It may block them all right then, and meet what is placed meanwhile."""
        script = "$stdout.sync = true\nloop do\n  system('true')\n  puts 'ran'\nend"
        with harness.Target(["/usr/bin/ruby", "-e", script]) as process:
            process.expect("ran")
            for _ in range(3 * ROUNDS):
                rtrace = subprocess.Popen([harness.RTRACE, "-c", "--mechanism=trampoline", "-x", "rb_*@libruby-*", "-p",
                                           str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                          env=harness.environment())
                engine = harness.wait_until(lambda: harness.tracer(process.pid), "it is attached to")
                time.sleep(0.15 * random.random())
                os.kill(engine, signal.SIGKILL)
                rtrace.wait(harness.PATIENCE)
                for _ in range(3):
                    process.expect("ran")
                self.assertIsNone(process.process.poll())

    def test_nor_does_what_begins_to_watch_that_kill_it(self):
        """At each of the first breakpoints: where it goes on when rtrace has died it is to set its mask back."""
        script = """
import signal, threading, time
def block_all(rounds):
    while rounds:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        time.sleep(0.0003)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
        rounds -= 1
for _ in range(3): threading.Thread(target=block_all, args=[-1], daemon=True).start()
while True:
    block_all(50)
    print("ran", flush=True)
"""
        for who in ("", ":both"):
            number = 1
            while self.died(script, "byte-write:%d%s" % (number, who)):
                number += 1
            self.assertGreater(number, 10, who)

    def died(self, script, moment):
        """Whether rtrace came to that moment as it attached."""
        with self.subTest(moment=moment), harness.Target(self.PYTHON + [script]) as process:
            process.expect("ran")
            try:
                done_with(self.dies_at(moment, process, ["-q", "-x", "getenv@libc.so.6"]))
            except harness.Failure as failure:
                self.assertIn("was never ready", str(failure))
                for _ in range(3):
                    process.expect("ran")
                return True
            return False

    def test_nor_do_its_children_meet_one_that_rtrace_died_before_it_could_take_out(self):
        """Before it runs its own code is put back in each, and what watches its signals stands as long as the rest."""
        asks = "$stdout.sync = true\nwhile $stdin.gets\n  system('true') or exit 1\n  puts 'ran'\nend"
        blocks = ("import os, sys\nfor _ in sys.stdin:\n  child = os.fork()\n  if child == 0:\n"
                  "    os._exit(os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)[1])\n"
                  "  if os.waitpid(child, 0)[1]: sys.exit(1)\n  print('ran', flush=True)")
        for program in (["/usr/bin/ruby", "-e", asks], self.PYTHON + [blocks]):
            number, died = 1, True
            while died:
                with harness.Target(program) as process:
                    rtrace = self.dies_at("put-back:%d:both" % number, process, ["-x", "exec*+sig*+*sigmask@libc.so.*"])
                    process.go()
                    process.expect("ran")
                    died = harness.tracer(process.pid) == 0
                    done_with(rtrace)
                number += 3 if ROUNDS <= 7 else 1
            self.assertGreater(number, 20, program)

    def dies_at(self, moment, process, options):
        os.environ["RTRACE_DIE_AT"] = moment
        try:
            return harness.Attached(options, [process.pid])
        finally:
            del os.environ["RTRACE_DIE_AT"]

    def orphan(self, process, both, first):
        """Its tracers die after so many children since the attach."""
        def runs(times):
            for _ in range(times):
                process.go()
                process.expect("ran")
        rtrace = harness.Attached(["-x", "qsort", "-x", "execve", "-x", "getppid"], [process.pid])
        runs(first)
        if both:
            kill_both(rtrace)
        else:
            os.kill(engine_of(rtrace.process.pid), signal.SIGKILL)
            rtrace.process.wait(harness.PATIENCE)
        runs(10)
        self.assertEqual(harness.run(["--repair", "-p", str(process.pid)]).status, 0)
        done_with(rtrace)


class WhatIsLeftOfRtraceInIt(unittest.TestCase):
    """Is taken out by the next that attaches, which walks threads out of the handler by steps, and may be killed, too."""

    def test_does_not_end_it_at_any_of_these_steps(self):
        with harness.Target([harness.target("masks")]) as process:
            self.dies_at_steps(process, ["-x", "getppid@libc.so.6"], range(1, 200, 8 if ROUNDS <= 7 else 1))

    def test_nor_loses_a_thread_its_mask_that_was_in_what_a_trampoline_calls(self):
        with harness.Target([harness.target("masks"), "add"]) as process:
            self.dies_at_steps(process, ["-x", "add"], 2 * ROUNDS * [1])

    def dies_at_steps(self, process, options, numbers):
        """Those of it that are met: where all threads are outside there are none."""
        def runs():
            process.go()
            process.expect("ran")
        for number in numbers:
            rtrace = harness.Attached(["-q", *options], [process.pid])
            runs()
            kill_both(rtrace)
            done_with(rtrace)
            os.environ["RTRACE_DIE_AT"] = "stepping:%d:both" % number
            try:
                rtrace = harness.Attached(["-q", *options], [process.pid])
                kill_both(rtrace)
                done_with(rtrace)
            except harness.Failure as failure:
                self.assertIn("was never ready", str(failure))
            finally:
                del os.environ["RTRACE_DIE_AT"]
            runs()
        self.assertEqual(process.finish()[1], 0)


class AThreadThatBlocksAllSignalsUnseen(unittest.TestCase):
    """By a raw system call: the kernel takes the handler from all when the thread meets a probe."""
    PROGRAM = """
import ctypes, os, sys, threading
libc, none = ctypes.CDLL(None), ctypes.c_void_p()
def set_mask(mask):
    libc.syscall(14, 2, ctypes.byref(ctypes.c_uint64(mask)), none, 8)
threading.Thread(target=threading.Event().wait, daemon=True).start()
for line in sys.stdin:
    if line == "raw\\n": set_mask(2 ** 64 - 1)
    os.getppid()
    set_mask(0)
    print("ran", flush=True)
"""

    @staticmethod
    def catches_trap(pid):
        return int(harness.status_field(pid, "SigCgt"), 16) >> (signal.SIGTRAP - 1) & 1 == 1

    def test_leaves_the_others_one_against_the_death_of_rtrace(self):
        def runs(line="plain"):
            process.process.stdin.write(line + "\n")
            process.process.stdin.flush()
            process.expect("ran")

        def stands():
            runs()
            return self.catches_trap(process.pid)

        with harness.Target([*AProgramThatBlocksAllSignals.PYTHON, self.PROGRAM]) as process:
            runs()
            rtrace = harness.Attached(["-x", "getppid@libc.so.6"], [process.pid])
            for line in 40 * ["plain"] + ["raw"]:  # its mask is not looked at any more
                runs(line)
            harness.wait_until(stands, "the handler stands again")
            kill_both(rtrace)
            for _ in range(3):
                runs()
            self.assertEqual(harness.run(["--repair", "-p", str(process.pid)]).status, 0)
            runs()
            done_with(rtrace)


class BetweenTheStopsOfACallThatBlocksAllSignals(unittest.TestCase):
    """What is traced of it, and its system call where that is shown, takes several stops: SIGTRAP is blocked behind none."""

    def ends_well(self, way, moment, options):
        """Whether rtrace came to that moment."""
        with harness.Target([harness.target("sigtrap"), way, "2", "later"]) as process:
            process.expect("pid ")
            ready, theirs = os.pipe()
            words = harness.invocation(["-q", "-o", "/dev/null", "--ready-fd=%d" % theirs, *options])
            rtrace = subprocess.Popen([*words, "-p", str(process.pid)], stderr=subprocess.DEVNULL, pass_fds=[theirs],
                                      env=dict(harness.environment(), RTRACE_DIE_AT=moment + ":both"))
            os.close(theirs)
            os.read(ready, 1)
            os.close(ready)
            process.go()
            self.assertEqual(process.process.wait(harness.PATIENCE), 0, (moment, options))
            return rtrace.wait(harness.PATIENCE) == -signal.SIGKILL

    def at_each(self, way, moment, options, least):
        """With more rounds at each such moment, else at each third."""
        stride, died = 3 if ROUNDS <= 7 else 1, 0
        while self.ends_well(way, "%s:%d" % (moment, stride * died + 1), ["-x", "add", *options]):
            died += 1
        self.assertGreaterEqual(stride * died, least, (way, moment, options))

    def test_the_program_meets_no_probe_that_kills_it(self):
        traced = ["-x", "pthread_sigmask@libc.so.*", "-x", "sigprocmask@libc.so.*"]
        for options in ([], traced, ["-e", "*sigmask+sigprocmask"], ["-S", *traced[2:]]):
            self.at_each("sections", "waiting", options, 4)
        for moment in ("registers-due", "registers-written"):
            self.at_each("sections", moment, traced, 8)

    def test_nor_its_children_where_the_c_library_blocks_them_for_its_own_ends(self):
        for way, moment in (("spawns", "waiting"), ("nested", "waiting"), ("spawns", "registers-due"),
                            ("nested", "registers-due"), ("spawns", "registers-written")):
            self.at_each(way, moment, ["-x", "execve+munmap+madvise+sigprocmask+__ctype_init@libc.so.*"], 12)


class WhileItsLibrariesAreBeingLoaded(unittest.TestCase):
    """Who calls pthread_sigmask() is in the link map then, and whose it is is not."""

    LIBC = "/lib/x86_64-linux-gnu/libc.so.6"

    def test_it_is_attached_to(self):
        script = "$stdout.sync = true\nputs 'begun'\nwhile $stdin.gets\n  system('true')\n  puts 'ran'\nend"
        with tempfile.NamedTemporaryFile("r") as log, harness.Target(
                ["strace", "--quiet=all", "-D", "-o", log.name, "-P", self.LIBC, "-e", "trace=openat",
                 "-e", "inject=openat:signal=SIGSTOP", "/usr/bin/ruby", "-e", script]) as process:
            self.leave_stopped(process, log.name)
            with open("/proc/%d/maps" % process.pid) as maps:
                loaded = maps.read()
            self.assertIn("libruby", loaded)
            self.assertNotIn("libc.so", loaded)
            rtrace = harness.Attached(["-x", "getppid"], [process.pid])
            try:
                os.kill(process.pid, signal.SIGCONT)
                process.expect("begun")
                kill_both(rtrace)
                for _ in range(3):
                    process.go()
                    process.expect("ran")
            finally:
                done_with(rtrace)

    def leave_stopped(self, process, log):
        """By strace, when the C library has been opened."""
        harness.wait_until(lambda: "--- stopped by SIGSTOP ---" in harness.read_text(log), "it is stopped")
        os.kill(harness.tracer(process.pid), signal.SIGKILL)
        harness.wait_until(lambda: harness.tracer(process.pid) == 0 and harness.state(process.pid) == "T", "it stands")


def child_of(pid):
    children = [harness.read_text("/proc/%d/task/%s/children" % (pid, tid)).split()
                for tid in os.listdir("/proc/%d/task" % pid)]
    return next(int(pids[0]) for pids in children if pids)


class AChildThatRunsInItsMemory(unittest.TestCase):
    """Its actions for signals are its own: those that its parent had when it was made."""

    def test_meets_what_stands_there(self):
        with harness.Target([harness.target("vforks"), "beside"]) as process:
            process.expect("child")
            rtrace = harness.Attached(["-x", "add"], [process.pid])
            try:
                kill_both(rtrace)
                process.go()
                process.expect("collected")
                process.go()
                process.expect("done")
            finally:
                done_with(rtrace)
            self.assertEqual(process.finish()[1], 0)

    def test_dies_of_a_sigtrap_that_is_sent_to_it(self):
        words = harness.invocation(["-q", "-f", "-o", "/dev/null", "-x", "add", "--", harness.target("vforks")])
        with harness.Target(words) as process:
            pid = int(process.expect(r"pid (\d+)").group(1))
            process.expect("child")
            os.kill(child_of(pid), signal.SIGTRAP)
            self.assertEqual(process.finish()[1], 1)  # so it says that its child did not end well

    def test_has_its_own_actions_again_after_a_detach(self):
        for options in (["-x", "add"], ["--mechanism=trampoline", "-x", "add"]):
            with self.subTest(options), harness.Target([harness.target("vforks"), "beside"]) as process:
                process.expect("child")
                child = child_of(process.pid)
                before = harness.status_field(child, "SigCgt")
                rtrace = harness.Attached(options, [process.pid])
                self.assertNotEqual(harness.status_field(child, "SigCgt"), before)
                self.assertEqual(rtrace.stop().status, 0)
                self.assertEqual(harness.status_field(child, "SigCgt"), before)
                process.go()
                process.expect("collected")
                self.assertEqual(process.finish()[1], 0)


if __name__ == "__main__":
    unittest.main()
