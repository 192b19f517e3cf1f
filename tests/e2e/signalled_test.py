#!/usr/bin/python3
"""Signals that come while a thread is in the first instructions of a function, which a trampoline has moved."""
import contextlib
import os
import re
import signal
import tempfile
import unittest

import harness
from survival_test import engine_of


class Signalled(unittest.TestCase):
    def setUp(self):
        self.clean_up = contextlib.ExitStack()
        self.target = self.clean_up.enter_context(harness.Target([harness.target("signalled")]))
        self.conf = self.clean_up.enter_context(tempfile.NamedTemporaryFile("w", suffix=".conf"))
        self.conf.write("long slow();\nvoid repeats(addr, long);\n")
        self.conf.flush()
        self.addCleanup(self.clean_up.close)
        self.target.expect("pid ")

    def tell(self, line):
        self.target.process.stdin.write(line + "\n")
        self.target.process.stdin.flush()

    def seen(self, line):
        """How many handlers have interrupted what a jump stands on, and how many what is not the program's."""
        self.tell(line)
        return [int(number) for number in self.target.expect(r"in the jump (\d+) foreign (\d+)\n").groups()]

    def attach(self, *options):
        rtrace = harness.Attached(["-F", self.conf.name, "--mechanism=trampoline", "-x", "slow", "-x", "repeats", *options],
                                  [self.target.pid])
        self.assertNotIn("no trampoline", rtrace.notices())
        return rtrace

    def ends(self):
        self.seen("calls")
        self.target.process.stdin.close()
        self.assertEqual(self.target.process.wait(harness.PATIENCE), 0)

    def test_its_handler_sees_the_program_and_no_jump(self):
        for options in ((), ("-c",)):
            rtrace = self.attach(*options)
            in_jump, foreign = self.seen("slow")
            self.assertEqual(in_jump, 0)
            self.assertLess(foreign, 90)  # of 100: some interrupt the recorder
            result = rtrace.stop()
            self.assertEqual(result.status, 0, result)
            self.assertRegex(result.trace, r"(?m)^slow\(\) +=|\bslow$")
        self.ends()

    def test_where_an_instruction_is_repeated_it_may_see_the_copy(self):
        rtrace = self.attach()
        self.assertEqual(self.seen("repeats")[0], 0)
        result = rtrace.stop()
        self.assertEqual(result.status, 0, result)
        self.assertRegex(result.trace, r"(?m)^repeats\(0x[0-9a-f]+, 1048576\)")
        self.ends()

    def test_rtrace_is_killed_while_its_handler_runs(self):
        rtrace = self.attach()
        self.tell("hold")
        self.target.expect("held\n")
        engine = engine_of(rtrace.process.pid)
        os.kill(rtrace.process.pid, signal.SIGSTOP)  # so that it cannot heal before it is killed
        os.kill(engine, signal.SIGKILL)
        rtrace.process.kill()
        harness.wait_until(lambda: harness.tracer(self.target.pid) == 0, "no tracer is left")
        self.seen("")
        rtrace.abandon()
        repaired = harness.run(["--repair", "-p", str(self.target.pid)], separate=False)
        self.assertEqual(repaired.status, 0, repaired)
        self.ends()


class AtAnAttach(unittest.TestCase):
    """Signals that find threads at a breakpoint that is about to become a trampoline."""

    @staticmethod
    def jumps(pid):
        return sum(now == 0xe9 != own for path, _, _, here, there in harness.mapped_code(pid)
                   for now, own in zip(here, there) if path.endswith("/libfixture.so"))

    def test_each_call_is_seen_once(self):
        with harness.Target([harness.target("numbered")]) as target:
            target.expect("pid ")
            for _ in range(8):
                rtrace = harness.Attached(["-F", harness.CONF, "--mechanism=trampoline", "-x", "add@libfixture.so"],
                                          [target.pid])
                harness.wait_until(lambda: self.jumps(target.pid), "it is wrapped")
                before = len(rtrace.lines_so_far())
                harness.wait_until(lambda: len(rtrace.lines_so_far()) > before + 1000, "calls are seen")
                result = rtrace.stop()
                self.assertIn("1 trampoline, 0 breakpoints", result.stderr)
                calls = [tuple(map(int, call)) for call in re.findall(r"add@libfixture\.so\((\d), (\d+)", result.trace)]
                for thread in range(4):
                    numbers = [number for one, number in calls if one == thread]
                    self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))), result.trace[:4000])


if __name__ == "__main__":
    unittest.main()
