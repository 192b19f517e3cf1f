#!/usr/bin/python3
"""Handlers that block all signals while they run: a probe that they meet must not end the program when rtrace has been
killed, and what the program asks for is what it has set."""
import contextlib
import itertools
import os
import signal
import subprocess
import unittest

import harness
from leaving_test import kill_both
from survival_test import engine_of

FULL_MASK = harness.target("full_mask")
TRACED = ("-F", harness.CONF, "-x", "add")


class FullMasks(unittest.TestCase):
    def raises(self, process, line="q"):
        process.process.stdin.write(line + "\n")
        process.process.stdin.flush()
        self.assertEqual(process.expect(r"done (\d+)").group(1), "2")

    @contextlib.contextmanager
    def target(self, *arguments):
        with harness.Target([FULL_MASK, *arguments]) as process:
            process.expect("pid ")
            yield process
            self.assertEqual(process.finish()[1], 0)

    def test_they_are_traced_and_all_is_as_the_program_has_set_it(self):
        for late in ((), ("late",)):
            with self.subTest(late=late), self.target(*late) as process:
                rtrace = harness.Attached(TRACED, [process.pid])
                if late:
                    process.go()
                for line in "acf":  # of the last, a child's too
                    self.raises(process, line)
                result = rtrace.stop()
                self.assertEqual((result.status, result.trace.count("add@libfixture.so(")), (0, 6), result)
                self.raises(process, "after")

    def test_rtrace_may_be_killed_whole_and_come_back(self):
        for way in ((), ("late",), ("again",)):
            with self.subTest(way=way), self.target(*way) as process:
                rtrace = harness.Attached(TRACED, [process.pid])
                if "late" in way:
                    process.go()
                self.raises(process)
                kill_both(rtrace)
                for _ in range(3):
                    self.raises(process)
                repaired = harness.run(["--repair", "-p", str(process.pid)])
                self.assertEqual(repaired.status, 0, repaired)
                self.raises(process, "after")

    def dies_while_it_attaches(self, process, moment):
        os.environ["RTRACE_DIE_AT"] = moment
        try:
            rtrace = harness.Attached(TRACED, [process.pid])
        except harness.Failure as failure:
            self.assertIn("was never ready", str(failure))
            return True
        finally:
            os.environ.pop("RTRACE_DIE_AT")
        rtrace.stop()
        return False

    def test_it_may_be_killed_whole_behind_each_of_the_first_breakpoints(self):
        for number in itertools.count(1):
            with self.target() as process:
                died = self.dies_while_it_attaches(process, "byte-write:%d:both" % number)
                self.raises(process)
                self.assertEqual(harness.run(["--repair", "-p", str(process.pid)]).status, 0)
                self.raises(process, "after")
            if not died:
                break
        self.assertGreater(number, 2)

    def test_an_engine_that_is_killed_leaves_them_as_they_were(self):
        with self.target() as process:
            rtrace = harness.Attached(TRACED, [process.pid])
            self.raises(process)
            os.kill(engine_of(rtrace.process.pid), signal.SIGKILL)
            rtrace.end()
            self.raises(process, "after")

    def test_they_are_closed_where_a_thread_cannot_be_stopped(self):
        for way in ("vfork", "exits"):
            for options in ((), ("--mechanism=trampoline",), ("-S",)):
                with self.subTest(way=way, options=options), self.target(way) as process:
                    rtrace = harness.Attached([*options, *TRACED], [process.pid])
                    self.raises(process)
                    if way == "exits":
                        harness.wait_until(lambda pid=process.pid: harness.state(pid) == "Z", "its first thread has ended")
                    result = rtrace.stop()
                    self.assertEqual(result.status, 0, result)
                    self.assertNotIn("SIGTRAP", result.stderr)
                    self.raises(process, "after")

    def test_nor_are_they_left_open_in_children_that_are_made_meanwhile(self):
        for _ in range(3):
            with self.target("forks") as process:
                rtrace = harness.Attached(["-f", *TRACED], [process.pid])
                self.raises(process)
                harness.wait_until(lambda seen=rtrace: len(seen.lines_so_far()) > 100, "children are seen")
                self.assertEqual(rtrace.stop().status, 0)
                self.raises(process, "after")

    def test_a_system_call_of_its_own_finds_its_arguments_unchanged(self):
        for options in ((), ("-S",)):
            with self.subTest(options), harness.Target(harness.invocation(["-o", os.devnull, *options, *TRACED, "--",
                                                                           FULL_MASK, "raw"])) as rtrace:
                rtrace.expect("pid ")
                self.raises(rtrace)
                self.assertEqual(rtrace.finish()[1], 0)

    def test_a_launched_program_that_sets_them(self):
        words = harness.invocation(["-o", os.devnull, *TRACED, "--", FULL_MASK])
        with harness.Target(words) as rtrace:
            rtrace.expect("pid ")
            for line in "acf":
                self.raises(rtrace, line)
            self.assertEqual(rtrace.finish()[1], 0)


class Node(unittest.TestCase):
    """All handlers of libuv block all signals, and write to a pipe."""
    SCRIPT = """
        process.on("SIGUSR2", () => console.log("signal"));
        process.stdin.on("data", () => process.exit(7));
        console.log("pid");
    """

    def signals(self, process):
        process.process.send_signal(signal.SIGUSR2)
        process.expect("signal")

    def test_it_outlives_rtrace(self):
        with harness.Target(["/usr/bin/node", "-e", self.SCRIPT]) as process:
            process.expect("pid")
            rtrace = harness.Attached(["-x", "write@libc*"], [process.pid])
            self.signals(process)
            harness.wait_until(lambda: "write@libc" in "".join(rtrace.lines_so_far()), "calls are shown")
            kill_both(rtrace)
            for _ in range(3):
                self.signals(process)
            self.assertEqual(harness.run(["--repair", "-p", str(process.pid)]).status, 0)
            process.go()
            self.assertEqual(process.finish()[1], 7)

    def test_nor_does_it_die_when_it_starts_children_behind_that(self):
        """For each it sets the handler of SIGCHLD anew, in which it comes to what is traced."""
        script = """
            const run = () => require("child_process").execFile("/bin/true", () => console.log("ran"));
            require("readline").createInterface({input: process.stdin}).on("line", run);
            console.log("pid");
        """

        def runs():
            process.process.stdin.write("\n")
            process.process.stdin.flush()
            process.expect("ran")

        with harness.Target(["/usr/bin/node", "-e", script]) as process:
            process.expect("pid")
            rtrace = harness.Attached(["-x", "write@libc*"], [process.pid])
            runs()
            kill_both(rtrace)
            for _ in range(10):
                runs()
            self.assertEqual(harness.run(["--repair", "-p", str(process.pid)]).status, 0)
            runs()
            self.assertEqual(process.finish()[1], 0)

    def test_nor_where_rtrace_dies_as_it_attaches_while_it_starts_children(self):
        """All signals are blocked when it sets the handler."""
        script = """
            const run = () => require("child_process").execFile("/bin/true", () => { console.log("ran"); run(); });
            run(); run();
        """
        for number, who in itertools.product((1, 4, 7, 10, 14), ("", ":both")):
            with self.subTest(number=number, who=who), harness.Target(["/usr/bin/node", "-e", script]) as process:
                process.expect("ran")
                words = harness.invocation(["-q", "-o", os.devnull, "-x", "getenv@libc.so.6", "-p", str(process.pid)])
                rtrace = subprocess.Popen(words, stderr=subprocess.DEVNULL,
                                          env=dict(harness.environment(), RTRACE_DIE_AT="byte-write:%d%s" % (number, who)))
                self.assertNotEqual(rtrace.wait(harness.PATIENCE), 0)
                for _ in range(20):
                    process.expect("ran")


class MasksOfHandlers(unittest.TestCase):
    def test_end_with_them(self):
        # As those of a garbage collector that stops threads.
        for probes in (["-x", "getuid"], ["-e", "usleep"]):
            for mechanism in ("breakpoint", "trampoline", "auto"):
                with self.subTest(probes=probes, mechanism=mechanism):
                    result = harness.run(["-q", "--mechanism=" + mechanism, *probes, harness.target("suspends"), "300"])
                    self.assertEqual((result.status, result.stdout), (0, "blocked 0 times, at last 0\n"), result.stderr)


if __name__ == "__main__":
    unittest.main()
