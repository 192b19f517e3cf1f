#!/usr/bin/python3
"""Processes under seccomp, whose filters know nothing of a tracer: it makes them do nothing that they would die of."""
import os
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest

import harness
from leaving_test import kill_both

ADD = "add@libfixture.so("


def attach(process, *options):
    return harness.Attached(["-F", harness.CONF, *options], [process.pid])


class KillingFilter(unittest.TestCase):
    """seccomp that kills on mmap, mprotect, rt_sigaction and the like."""

    def check(self, later):
        with harness.Target([harness.target("guarded")] + (["later"] if later else [])) as process:
            process.expect("pid ")
            if not later:
                harness.wait_until(lambda: "Seccomp:\t2" in harness.read_text("/proc/%d/status" % process.pid),
                                   "the filter is in force")
            for _ in range(3):
                rtrace = attach(process, "-x", "outer")
                if later:
                    process.go()
                    process.expect("filtered")
                    later = False
                process.go()
                process.expect("done")
                result = rtrace.stop()
                self.assertEqual(result.status, 0, result)
                # Its first instruction can be emulated, so nothing has to be mapped for it.
                self.assertEqual(result.trace.count("outer@libfixture.so(1"), 1, result)
                self.assertEqual(harness.altered_code(process.pid), [])
            process.process.stdin.close()
            self.assertEqual(process.process.wait(harness.PATIENCE), 0)
            return result

    def test_present_at_the_attach_nothing_is_injected_and_what_can_be_emulated_is_traced(self):
        with harness.without_capabilities("sys_admin"):
            result = self.check(later=False)
        self.assertRegex(result.stderr, r"attached to .*; a seccomp filter is in force.*: SIGKILL of rtrace would kill it")

    def test_installed_while_attached(self):
        self.check(later=True)

    def add_is_traced(self, filter, *options):
        """Its first instruction needs a copy."""
        with harness.Target([harness.target("guarded")] + filter) as process:
            process.expect("pid ")
            before = harness.read_text("/proc/%d/maps" % process.pid)
            rtrace = attach(process, "--explain", "-x", "add", *options)
            process.go()
            process.expect("done")
            result = rtrace.stop()
            self.assertEqual(harness.read_text("/proc/%d/maps" % process.pid), before)
            process.process.stdin.close()
            self.assertEqual(process.process.wait(harness.PATIENCE), 0)
            self.assertEqual(result.status, 0, result)
            return result, result.trace.count(ADD)

    def test_a_function_that_would_need_a_copy_is_declined_with_the_reason(self):
        with harness.without_capabilities("sys_admin"):
            result, calls = self.add_is_traced([])
            self.assertEqual(calls, 0, result)
            self.assertRegex(result.stderr, r"add.*declined.*seccomp")

    def test_the_strict_mode_is_never_trusted(self):
        with harness.without_capabilities("sys_admin"):
            result, calls = self.add_is_traced(["strict"], "--trust-seccomp")
            self.assertEqual(calls, 0, result)
            self.assertRegex(result.stderr, r"add.*declined.*seccomp")

    def test_memory_that_is_never_writable_and_executable_is_no_obstacle(self):
        with harness.Target([harness.target("guarded"), "mdwe"]) as probe:
            probe.process.stdin.close()
            if probe.process.wait(harness.PATIENCE) == 5:
                self.skipTest("this kernel has no PR_SET_MDWE (Linux 6.3)")
        result, calls = self.add_is_traced(["mdwe"])
        self.assertEqual(calls, 1, result)

    def test_a_filter_that_is_trusted_is_no_obstacle(self):
        with harness.without_capabilities("sys_admin"):
            result, calls = self.add_is_traced(["mild"], "--trust-seccomp")
            self.assertEqual(calls, 1, result)

    @unittest.skipUnless(os.geteuid() == 0, "suspending a filter takes CAP_SYS_ADMIN")
    def test_a_filter_that_can_be_suspended_for_our_calls_is_no_obstacle(self):
        result, calls = self.add_is_traced([])
        self.assertEqual(calls, 1, result)


class ShortList(unittest.TestCase):
    """Nothing but what the program calls itself, or nearly."""

    def target(self, mode):
        process = harness.Target([harness.target("guarded"), mode])
        self.addCleanup(process.abandon)
        process.expect("pid ")
        return process

    def is_alive_to_its_end(self, process):
        process.go()
        process.expect("done")
        process.process.stdin.close()
        self.assertEqual(process.process.wait(harness.PATIENCE), 0)

    def test_a_call_with_a_timeout_that_the_attach_interrupts_is_made_again_not_restarted(self):
        """For restart_syscall(2) is not on their list."""
        for mechanism in ("auto", "breakpoint", "trampoline"):
            with self.subTest(mechanism):
                process = self.target("listed")
                for _ in range(4):
                    harness.wait_until(lambda: (harness.read_text("/proc/%d/syscall" % process.pid) or "").startswith("7 "),
                                       "it sleeps in poll(2)")
                    rtrace = attach(process, "--mechanism=" + mechanism, "-x", "outer")
                    process.go()
                    process.expect("done")
                    result = rtrace.stop()
                    self.assertEqual((result.status, result.trace.count("outer@libfixture.so(1")), (0, 1), result)
                self.is_alive_to_its_end(process)

    def test_a_jump_through_a_slot_to_what_has_no_prototype_is_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("tail_noplt", "libfixture.so"):
                subprocess.run(["strip", "-g", "-o", os.path.join(folder, name), harness.target(name)], check=True)
            result = harness.run(["--mechanism=trampoline", "-e", "twice", "--", "/usr/bin/env", "LD_LIBRARY_PATH=" + folder,
                                  harness.target("guarded"), "under", os.path.join(folder, "tail_noplt")])
        self.assertEqual((result.status, len(re.findall(r"tail_noplt->twice\(", result.trace))), (0, 2), result)

    @unittest.skipUnless(os.geteuid() == 0, "it takes CAP_SYS_ADMIN to read a filter")
    def test_under_a_filter_that_allows_the_restart_a_timeout_expires_whatever_interrupts_it(self):
        process = self.target("timed")
        rtrace = attach(process, "-x", "outer")
        process.go()
        deadline = time.monotonic() + harness.PATIENCE
        while not select.select([process.process.stdout], [], [], 0.05)[0]:
            self.assertLess(time.monotonic(), deadline)
            os.kill(process.pid, signal.SIGWINCH)  # ignored, but the tracer is told
        process.expect("done")
        self.assertEqual(rtrace.stop().status, 0)
        self.is_alive_to_its_end(process)

    def test_without_capabilities_too(self):
        with harness.without_capabilities("sys_admin"):
            self.test_a_call_with_a_timeout_that_the_attach_interrupts_is_made_again_not_restarted()

    def test_rtrace_that_is_killed_leaves_nothing_that_makes_calls(self):
        for mode in ("strict", "listed"):
            for mechanism in ("breakpoint", "trampoline"):
                with self.subTest(mode=mode, mechanism=mechanism):
                    process = self.target(mode)
                    rtrace = attach(process, "--mechanism=" + mechanism, "-x", "outer", "-x", "snprintf@libc.so.6",
                                    "-x", "strlen@libc.so.6")
                    process.go()
                    process.expect("done")
                    kill_both(rtrace)
                    self.is_alive_to_its_end(process)

    @unittest.skipUnless(os.geteuid() == 0, "else nothing is mapped for a wrapper")
    @unittest.skipIf(harness.MECHANISM, "it asks for trampolines itself")
    def test_what_can_be_a_trampoline_is_one_and_of_the_rest_it_is_said_why(self):
        for mode, words in (("strict", "outer@libfixture.so: a breakpoint, no trampoline: the strict mode of seccomp"),
                            ("listed", "snprintf@libc.so.6: a breakpoint, no trampoline: it takes arguments in memory, .* seccomp")):
            with self.subTest(mode):
                process = self.target(mode)
                rtrace = attach(process, "--explain", "--mechanism=trampoline", "-x", "outer", "-x", "snprintf@libc.so.6")
                process.go()
                process.expect("done")
                result = rtrace.stop()
                self.assertRegex(result.stderr, words)
                self.assertEqual("outer@libfixture.so at" in result.stderr and "trampoline; " in result.stderr,
                                 mode == "listed", result)
                self.assertEqual(result.trace.count("outer@libfixture.so(1"), 1, result)
                self.assertIn("snprintf@libc.so.6(", result.trace)
                self.is_alive_to_its_end(process)


class Dispatched(unittest.TestCase):
    """System calls that its own code makes come back to the program as SIGSYS."""
    ROUNDS = 5

    def rounds(self, process, first):
        for number in range(first, first + self.ROUNDS):
            process.go()
            process.expect("round %d" % number)

    def check(self, attach_first, mechanism):
        with harness.Target([harness.target("dispatched")]) as process:
            process.expect("pid ")
            rtrace = attach(process, "--mechanism=" + mechanism, "-x", "strdup@libc.so.6") if attach_first else None
            process.go()
            if not process.process.stdout.readline().startswith("on"):
                self.skipTest("no PR_SET_SYSCALL_USER_DISPATCH here")
            self.rounds(process, 1)
            if not attach_first:
                rtrace = attach(process, "--mechanism=" + mechanism, "-x", "strdup@libc.so.6")
            self.rounds(process, 1 + self.ROUNDS)
            result = rtrace.stop()
            self.rounds(process, 1 + 2 * self.ROUNDS)
            process.process.stdin.close()
            process.expect("dispatched %d of %d" % (3 * self.ROUNDS, 3 * self.ROUNDS))
            self.assertEqual((result.status, process.process.wait(harness.PATIENCE)), (0, 0), result)
        return result

    def test_present_at_the_attach(self):
        for mechanism in ("breakpoint", "trampoline"):
            with self.subTest(mechanism=mechanism):
                self.check(False, mechanism)

    def test_begun_while_attached(self):
        for mechanism in ("breakpoint", "trampoline"):
            with self.subTest(mechanism=mechanism):
                result = self.check(True, mechanism)
                self.assertEqual(result.trace.count("strdup@libc.so.6("), 2 * self.ROUNDS, result)


if __name__ == "__main__":
    unittest.main()
