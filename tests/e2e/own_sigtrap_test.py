#!/usr/bin/python3
"""Programs with a handler of their own for SIGTRAP: it gets what is meant for it, traced, behind a detach and where rtrace dies."""
import os
import re
import signal
import subprocess
import unittest

import harness
from survival_test import engine_of, is_gone

WAYS = (["plain"], ["siginfo", "nodefer"], ["stack"])


class Catches(harness.Target):
    def __init__(self, *flags, by=None):
        command = [harness.target("catches"), *[flag for flag in flags if flag != "plain"]]
        super().__init__(command if by is None else harness.invocation([*by, *command]))
        self.expect("pid ")

    may_be_told = False

    def rounds(self):
        """As long as nothing is wrong, but for what action it was told where that may be."""
        self.go()
        rounds, wrong = self.expect(r"(\d+) rounds, wrong:(.*)").groups()
        counts = [int(count) for count in wrong.split()]
        self.told = counts[1]
        if any(counts[:1] + counts[2:]) or (self.told and not self.may_be_told):
            raise harness.Failure("sum, action, sent, own int3, steps, child wrong:" + wrong)
        return int(rounds)

    def goes_on(self, rounds=1024):
        before = self.rounds()
        harness.wait_until(lambda: self.rounds() >= before + rounds, "it goes on")

    def end(self):
        self.process.stdin.close()
        return self.process.wait(harness.PATIENCE)

    def left(self):
        return [harness.tracer(self.pid), harness.altered_code(self.pid), harness.foreign_mappings(self.pid)]


class AHandlerOfItsOwn(unittest.TestCase):
    def each(self):
        for flags in WAYS:
            with self.subTest(flags=flags), Catches(*flags) as process:
                process.goes_on()
                before = harness.foreign_mappings(process.pid)
                rtrace = harness.Attached(["-F", harness.CONF, "-x", "add"], [process.pid])
                try:
                    self.assertNotIn("SIGKILL", rtrace.notices())
                    process.goes_on()
                    yield process, rtrace
                    process.goes_on()
                    harness.wait_until(lambda: process.left() == [0, [], before] or self.wait_on(process), "nothing of rtrace is left")
                    process.goes_on()
                    self.assertEqual(process.end(), 0)
                finally:
                    rtrace.abandon()
                    rtrace.process.stdout.close()

    @staticmethod
    def wait_on(process):
        """Pages of trampolines may stay until a call returns, and are told of."""
        repaired = harness.run(["--repair", "-p", str(process.pid)], separate=False)
        return repaired.status == 0 and "stay mapped" in repaired.stderr

    def test_is_its_own_behind_a_detach(self):
        for _, rtrace in self.each():
            self.assertEqual(rtrace.stop().status, 0)

    def test_stands_when_the_engine_is_killed(self):
        for _, rtrace in self.each():
            os.kill(engine_of(rtrace.process.pid), signal.SIGKILL)
            self.assertEqual(rtrace.process.wait(harness.PATIENCE), 1)

    def test_stands_when_both_are_killed_and_behind_the_repair(self):
        for process, rtrace in self.each():
            engine = engine_of(rtrace.process.pid)
            os.kill(rtrace.process.pid, signal.SIGSTOP)  # so that it cannot heal before it is killed
            os.kill(engine, signal.SIGKILL)
            harness.wait_until(lambda: is_gone(engine), "the engine ends")
            rtrace.process.kill()
            rtrace.process.wait(harness.PATIENCE)
            process.goes_on()
            repaired = harness.run(["--repair", "-p", str(process.pid)], separate=False)
            self.assertEqual(repaired.status, 0, repaired)


class AnAttachThatIsKilled(unittest.TestCase):
    def test_leaves_a_program_that_goes_on(self):
        # At each of the int3s that it places. In some moments the handler stands, and what watches who asks for it does not yet.
        told = 0
        for number in range(1, 24):
            with self.subTest(number=number), Catches("beside", "siginfo") as process:
                words = harness.invocation(["-F", harness.CONF, "-x", "add", "-o", "/dev/null", "-p", str(process.pid)])
                process.may_be_told = True
                killed = dict(harness.environment(), RTRACE_DIE_AT="byte-write:%d:both" % number)
                with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=killed) as rtrace:
                    attached = any("attached to" in line for line in rtrace.stderr)
                    process.goes_on()
                    if attached:  # it places no more
                        rtrace.send_signal(signal.SIGINT)
                        break
                self.assertEqual(rtrace.returncode, -signal.SIGKILL)
                self.assertEqual(harness.run(["--repair", "-p", str(process.pid)], separate=False).status, 0)
                process.goes_on()
                told += process.told > 0
                self.assertEqual(process.end(), int(process.told > 0))
        self.assertGreater(number, 4)
        self.assertLessEqual(told, 3)


class TwoThreads(unittest.TestCase):
    def test_get_it_where_one_meets_probes_while_it_blocks_it(self):
        # The kernel takes the program's handler away then.
        with Catches("blocking", "siginfo", by=["-q", "-F", harness.CONF, "-x", "add", "-o", "/dev/null", "--"]) as process:
            process.goes_on(4096)
            self.assertEqual(process.end(), 0)

    def test_are_told_and_get_their_own_through_many_attaches(self):
        with Catches("beside", "siginfo") as process:
            for _ in range(12):
                rtrace = harness.Attached(["-F", harness.CONF, "-x", "add"], [process.pid])
                process.goes_on(64)
                self.assertEqual(rtrace.stop().status, 0)
                process.goes_on()
            self.assertEqual(process.end(), 0)


class AShellThatTrapsItsExit(unittest.TestCase):
    SCRIPT = "trap 'echo bye' EXIT; while read line; do for i in {1..200}; do x=${#i}; done; echo $line; done"

    def test_goes_on_when_both_are_killed(self):
        words = harness.invocation(["-q", "-o", "/dev/null", "-e", "strlen+malloc", "--", "/bin/bash", "-c", self.SCRIPT])
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                              env=harness.environment()) as rtrace:
            def says(line):
                rtrace.stdin.write(line + "\n")
                self.assertEqual(rtrace.stdout.readline(), line + "\n")
            says("one")
            says("two")
            engine = engine_of(rtrace.pid)
            os.kill(rtrace.pid, signal.SIGSTOP)
            os.kill(engine, signal.SIGKILL)
            harness.wait_until(lambda: is_gone(engine), "the engine ends")
            rtrace.kill()
            says("three")
            rtrace.stdin.close()
            self.assertEqual(rtrace.stdout.read(), "bye\n")


class AChildThatIsNotFollowed(unittest.TestCase):
    def test_has_the_handler_too(self):
        with Catches("children", "siginfo") as process:
            rtrace = harness.Attached(["-F", harness.CONF, "-x", "add"], [process.pid])
            process.goes_on(2048)  # its children look
            self.assertEqual(rtrace.stop().status, 0)
            self.assertEqual(process.end(), 0)

    def test_nor_one_that_is_followed_lacks_it(self):
        with Catches("children", "siginfo") as process:
            rtrace = harness.Attached(["-f", "-F", harness.CONF, "-x", "add"], [process.pid])
            process.goes_on(2048)
            result = rtrace.stop()
            self.assertEqual((result.status, process.end()), (0, 0), result.stderr)
            self.assertGreater(len(set(re.findall(r"(?m)^\[?(?:pid )?(\d+)", result.trace))), 1, "children are traced, too")


if __name__ == "__main__":
    unittest.main()
