#!/usr/bin/python3
"""What a process is like before rtrace has attached, it is like after rtrace has gone: status, memory map, code, signal
state, and every wait it was in."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import harness

ROUNDS = int(os.environ.get("RTRACE_ROUNDS", "5"))
# What a process changes itself as it runs, and TracerPid, which is looked at by itself. SigQ counts the queued signals
# of all processes of the user.
MOVING = re.compile(r"(State|TracerPid|SigQ|Vm\w+|Rss\w+|\w*voluntary_ctxt_switches)$")
PYTHON = "import os, sys\nprint('pid', os.getpid(), flush=True)\nwhile True: os.getppid()"
RUBY = "$stdout.sync = true\nputs \"pid #{$$}\"\nloop { Process.ppid }"


def status(folder):
    with open(folder + "/status") as file:
        fields = dict(line.rstrip("\n").split(":", 1) for line in file)
    return {key: value for key, value in fields.items() if not MOVING.match(key)}


def picture(pid):
    """All that must be the same again: the status of every task, and the memory map."""
    tasks = {tid: status("/proc/%d/task/%s" % (pid, tid)) for tid in os.listdir("/proc/%d/task" % pid)}
    return {"process": status("/proc/%d" % pid), "tasks": tasks,
            "maps": harness.read_text("/proc/%d/maps" % pid).splitlines()}


def settled_picture(pid):
    """... once the program maps nothing more itself, and no thread still has the mask in which it is born."""
    seen = []
    harness.wait_until(lambda: not any(one["SigBlk"].strip() == "fffffffffffbfeff"
                                       for one in picture(pid)["tasks"].values()), "all threads run")

    def twice_the_same():
        seen.append(picture(pid))
        return len(seen) > 1 and seen[-1] == seen[-2]

    harness.wait_until(twice_the_same, "process %d has settled" % pid)
    return seen[-1]


class Pictures(unittest.TestCase):
    maxDiff = None

    def check(self, words, function, calls=True):
        with harness.Target(words) as process:
            process.expect("pid ")
            before = settled_picture(process.pid)
            for _ in range(ROUNDS):
                rtrace = harness.Attached(["-x", function], [process.pid])
                try:
                    if calls:
                        harness.wait_until(lambda: len(rtrace.lines_so_far()) > 20, "20 calls are traced")
                    self.assertNotEqual(harness.altered_code(process.pid), [])
                    result = rtrace.stop()
                finally:
                    rtrace.abandon()
                self.assertEqual(result.status, 0, result)
                after = picture(process.pid)
                self.assertEqual(before, after)
                self.assertEqual(harness.tracer(process.pid), 0)
                self.assertEqual(harness.altered_code(process.pid), [])
            self.assertIsNone(process.process.poll())

    def test_four_threads_that_never_rest(self):
        with tempfile.TemporaryDirectory() as folder:
            self.check([harness.target("busy"), os.path.join(folder, "board")], "work")

    def test_threads_with_masks_handlers_flags_and_signal_stacks(self):
        self.check([harness.target("witness"), "signals"], "add")

    def test_a_process_that_sleeps(self):
        self.check([harness.target("waits"), "1"], "add", calls=False)

    def test_threads_that_sleep_in_four_ways(self):
        self.check([harness.target("blocked")], "add", calls=False)

    def test_python(self):
        self.check(["/usr/bin/python3", "-c", PYTHON], "getppid")

    @unittest.skipUnless(shutil.which("ruby"), "ruby is not installed")
    def test_ruby(self):
        self.check(["ruby", "-e", RUBY], "getppid")


class Signals(unittest.TestCase):
    """Programs that judge themselves."""

    def check(self, words, arguments=("-b", "-F", harness.CONF, "-x", "add+twice+outer+descend"), last=".*"):
        with harness.Target([harness.target("witness")] + words) as process:
            process.expect("pid ")
            for _ in range(ROUNDS):
                rtrace = harness.Attached(list(arguments), [process.pid])
                try:
                    harness.wait_until(lambda: len(rtrace.lines_so_far()) > 50, "50 calls are traced")
                    result = rtrace.stop()
                finally:
                    rtrace.abandon()
                self.assertEqual(result.status, 0, result.stderr)
                self.assertIsNone(process.process.poll(), "the target has ended by itself")
            process.go()
            rest, answer = process.finish()
            self.assertEqual(answer, 0, rest)
            self.assertRegex(rest, last)

    def test_masks_dispositions_and_signal_stacks_are_the_same_and_no_handler_has_run(self):
        self.check(["signals"])

    def test_of_thousands_of_queued_signals_each_arrives_once_in_order_with_its_data(self):
        self.check(["queue"], last=r"received \d+")

    def test_a_profiler_s_samples_and_backtraces_show_the_program_s_own_code_only(self):
        # A wrapper is no code of the program's: that is a limit of trampolines (rtrace(1)).
        self.check(["profile"], ("--mechanism=breakpoint", "-b", "-F", harness.CONF, "-x", "add+twice+outer+descend"),
                   last=r"samples \d+ foreign 0")


class Waits(unittest.TestCase):
    def release(self, words):
        for word, option in ((2, "-s"), (4, "-q")):
            subprocess.run(["ipcrm", option, words[word]], stderr=subprocess.DEVNULL, check=False)

    def test_thirteen_ways_of_waiting_are_not_cut_short(self):
        with tempfile.TemporaryDirectory() as folder:
            with harness.Target([harness.target("sleepers"), folder]) as process:
                words = process.expect(r"pid (\d+) semaphores (\d+) queue (\d+)")
                self.addCleanup(self.release, words.group(0).split()[1:])
                harness.wait_until(lambda: all(harness.state(int(tid)) == "S" for tid in
                                               os.listdir("/proc/%d/task" % process.pid)), "all threads sleep")
                for _ in range(2 * ROUNDS):
                    self.assertEqual(harness.Attached(["-x", "add"], [process.pid]).stop().status, 0)
                rtrace = harness.Attached(["-F", harness.CONF, "-x", "add"], [process.pid])
                process.go()
                # 10 + n: the n-th way of waiting came back too early.
                self.assertEqual(process.finish()[1], 0)
                result = rtrace.end()
                self.assertEqual((result.status, result.trace.count("add@")), (0, 1), result)


if __name__ == "__main__":
    unittest.main()
