#!/usr/bin/python3
"""The death of rtrace by SIGKILL at any moment, under load.

survival_test.py [ROUNDS [FORCED]]: so many kills at a random moment of the visible process, of the engine, and a fifth
as many of both at once (7 if not said, 1 by trampolines); and FORCED kills at each of the engine's moments (1). The table of what the
engine was doing at each is printed at the end.

The target is eight threads in a traced function, children that call it too, plugins that come and go, and a timer whose
handler calls it; it checks every result.
"""
import collections
import contextlib
import itertools
import mmap
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import harness

ROUNDS = 1 if harness.MECHANISM else 7  # what stays of trampolines is waited for at each
FORCED = 1
PARTS = 11
HEALED = 1.0  # seconds in which a survivor has put the code right
MOMENTS = ("waiting", "stop-peeked", "registers-due", "registers-written", "held-back", "stepping", "remote-call", "call-begun",
           "call-under-way", "mapped", "byte-write", "put-back", "stop-all", "detach")
# Why pages may stay: a trampoline's call that has not returned, or what reads like one on a stack.
TOLD = re.compile(r"pages of rtrace stay mapped in it(, unused| for good): "
                  r"a (child of it runs in its memory|thread is still inside a wrapped call|wrapped call has not returned)")

tally = collections.Counter()
slowest = collections.Counter()


class Target(harness.Target):
    def __init__(self, folder, before=()):
        path = os.path.join(folder, "board")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # another's, which has been told to end
        super().__init__([*before, harness.target("survive"), path, harness.target("libplugin_a.so"),
                          harness.target("libplugin_b.so")])
        self.expect("pid ")
        if before:
            self.pid = int(harness.read_text("/proc/%d/task/%d/children" % (self.pid, self.pid)))
        with open(path, "r+b") as file:
            self.board = mmap.mmap(file.fileno(), 4096)
        self.clean = self.foreign()

    def done(self):
        return struct.unpack_from("=%dQ" % PARTS, self.board, 16)

    def complaint(self):
        count = struct.unpack_from("=Q", self.board, 8)[0]
        text = self.board[16 + 8 * PARTS:16 + 8 * PARTS + 120].split(b"\0")[0].decode(errors="replace")
        return "%d wrong results, first: %s" % (count, text) if count else ""

    def foreign(self):
        """Mappings, and open files, that are not the program's."""
        files = []
        for fd in os.listdir("/proc/%d/fd" % self.pid):
            with contextlib.suppress(FileNotFoundError):  # its own, that come and go
                files.append(os.readlink("/proc/%d/fd/%s" % (self.pid, fd)))
        return harness.foreign_mappings(self.pid) + [name for name in files if "memfd" in name]

    def left(self):
        return [line for line in self.foreign() if line not in self.clean]

    def end(self):
        struct.pack_into("=Q", self.board, 0, 1)
        return self.finish()[1]


def engine_of(pid):
    """The child of the visible process that traces."""
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        for child in file.read().split():
            try:
                with open("/proc/%s/comm" % child) as comm:
                    if comm.read().startswith("rtrace-engine"):
                        return int(child)
            except OSError:
                continue
    return None


def is_gone(pid):
    try:
        return harness.state(pid) in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Survival(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.target = Target(self.folder.name)

    def tearDown(self):
        self.target.abandon()
        self.folder.cleanup()

    def attach(self, moment=None, functions=("work", "plugin_work")):
        if moment is not None:
            os.environ["RTRACE_DIE_AT"] = moment
        try:
            return harness.Attached(["-F", harness.CONF, *("-x" + name for name in functions)], [self.target.pid])
        finally:
            os.environ.pop("RTRACE_DIE_AT", None)

    def goes_on(self, what):
        """Every part of the target gets on with its work, and nothing in it is wrong."""
        before = self.target.done()

        def moved():
            self.assertIsNone(self.target.process.poll(), "the target has died: " + what)
            return all(now > then for now, then in zip(self.target.done(), before))
        harness.wait_until(moved, "every part of the target goes on (%s), from %s to %s" % (
            what, before, self.target.done()))
        self.assertEqual(self.target.complaint(), "", what)

    def is_clean(self, what, told=False):
        """`told`: what a repair has said allows for what stays."""
        begin = time.monotonic()
        left, blind, looks = [], [0.0], [0.0]

        def own_code():
            self.assertIsNone(self.target.process.poll(), "the target has died: " + what)
            since = time.monotonic()
            try:
                own = not harness.altered_code(self.target.pid)
                looks.append(time.monotonic() - since)
                return own
            except OSError:  # its plugins come and go while this looks
                blind.append(time.monotonic() - since)
                return False
        harness.wait_until(own_code, "its code is its own (%s)" % what)
        # When it was, within the last two looks, is not known; on a busy machine each may take half a second.
        took = max(time.monotonic() - begin - sum(blind) - sum(looks[-2:]), 0.001)
        slowest[what.split()[0]] = max(slowest[what.split()[0]], round(took, 3))
        self.assertLess(took, HEALED, what)

        def clean():
            nonlocal told
            self.assertIsNone(self.target.process.poll(), "the target has died: " + what)
            try:
                left[:] = [harness.tracer(self.target.pid), harness.altered_code(self.target.pid),
                           int(harness.status_field(self.target.pid, "SigCgt"), 16) >> 4 & 1, self.held_back()]
                if not any(left):  # a repair waits for what stays: it is not asked more often than it must be
                    told = told or self.pages_are_told()
                    left.append([] if told else self.target.left())
            except OSError:  # its plugins come and go while this looks
                return False
            return not any(left)
        try:
            harness.wait_until(clean, "nothing of rtrace is left (%s)" % what, 20)
        except harness.Failure as failure:
            raise harness.Failure("%s: tracer, altered code, handler, masks, pages: %s" % (failure, left)) from None

    def pages_are_told(self):
        """Whether what stays of trampolines is what a repair says of it. Open files never stay."""
        if not harness.MECHANISM or not any("r--p" in line for line in self.target.left()):
            return False
        return self.is_told(harness.run(["--repair", "-p", str(self.target.pid)], separate=False))

    def is_told(self, repaired):
        """Why pages stay in it."""
        return harness.MECHANISM and repaired.status == 0 and TOLD.search(repaired.stderr) is not None and not any(
            line.startswith("/memfd") for line in self.target.left())

    @staticmethod
    def done_with(rtrace):
        rtrace.abandon()
        rtrace.process.stdout.close()
        shutil.rmtree(rtrace.folder, ignore_errors=True)

    def under_way(self, rtrace):
        size = os.path.getsize(rtrace.output)

        def more():
            self.assertIsNone(self.target.process.poll(), "the target has died while traced")
            return os.path.getsize(rtrace.output) > size
        try:
            harness.wait_until(more, "lines come")
        except harness.Failure as failure:
            raise harness.Failure("%s\n%s\n%s" % (failure, rtrace.notices(), self.states())) from None

    def states(self):
        """Where each thread of the target stands, for messages."""
        lines = []
        for tid in os.listdir("/proc/%d/task" % self.target.pid):
            status = harness.read_text("/proc/%d/task/%s/status" % (self.target.pid, tid))
            lines.append(tid + " " + " ".join(re.findall(r"^(?:State|TracerPid|SigPnd|SigBlk):\s+(\S+)", status, re.M)) +
                         " " + harness.read_text("/proc/%d/task/%s/syscall" % (self.target.pid, tid)).strip())
        return "\n".join(lines)

    def moment_told(self, rtrace):
        told = re.search(r"engine was killed \(at: ([\w-]+)\)", rtrace.notices())
        self.assertIsNotNone(told, rtrace.notices())
        tally["engine, " + told.group(1)] += 1
        return told.group(1)

    def held_back(self):
        """Threads that block a signal which no part of the target blocks for long."""
        blocked = {}
        for tid in os.listdir("/proc/%d/task" % self.target.pid):
            status = harness.read_text("/proc/%d/task/%s/status" % (self.target.pid, tid))
            mask = re.search(r"^SigBlk:\s+(\S+)", status, re.M)
            if mask and int(mask.group(1), 16) >> (signal.SIGTERM - 1) & 1:
                blocked[tid] = mask.group(1)
        return blocked

    def ends_well(self):
        """One more attach finds all as if nothing had been."""
        rtrace = self.attach()
        try:
            self.under_way(rtrace)
        finally:
            result = rtrace.stop()
        self.assertEqual(result.status, 0, result)
        self.is_clean("the last")
        self.assertEqual(self.target.end(), 0)

    def test_the_engine_is_killed(self):
        for number in range(ROUNDS):
            rtrace = self.attach()
            try:
                self.under_way(rtrace)
                self.sometime()
                os.kill(engine_of(rtrace.process.pid), signal.SIGKILL)
                rtrace.process.wait(harness.PATIENCE)
                self.assertEqual(rtrace.process.returncode, 1)
                self.moment_told(rtrace)
                self.is_clean("engine %d" % number)
                self.goes_on("engine %d" % number)
            finally:
                self.done_with(rtrace)
        self.ends_well()

    def test_the_visible_process_is_killed(self):
        for number in range(ROUNDS):
            rtrace = self.attach()
            try:
                self.under_way(rtrace)
                self.sometime()
                engine = engine_of(rtrace.process.pid)
                rtrace.process.kill()
                harness.wait_until(lambda: is_gone(engine), "the engine ends")
                self.is_clean("visible %d" % number)
                self.goes_on("visible %d" % number)
                tally["visible process"] += 1
            finally:
                self.done_with(rtrace)
        self.ends_well()

    def test_the_visible_process_is_killed_as_soon_as_there_is_an_engine(self):
        for _ in range(5 * ROUNDS):
            rtrace = subprocess.Popen([harness.RTRACE, "-o", "/dev/null", "-p", str(self.target.pid)],
                                      stderr=subprocess.DEVNULL, env=harness.environment())
            children = "/proc/%d/task/%d/children" % (rtrace.pid, rtrace.pid)
            engine = ""
            while not engine:
                engine = harness.read_text(children)
            rtrace.kill()
            rtrace.wait(harness.PATIENCE)
            harness.wait_until(lambda pid=int(engine): is_gone(pid), "the engine ends")
        self.goes_on("its engine has just begun")
        self.ends_well()

    def test_both_are_killed_and_the_handler_bridges_until_the_repair(self):
        for number in range(max(1, ROUNDS // 5)):
            rtrace = self.attach()
            try:
                self.under_way(rtrace)
                self.sometime()
                engine = engine_of(rtrace.process.pid)
                os.kill(rtrace.process.pid, signal.SIGSTOP)  # so that it cannot heal before it is killed
                os.kill(engine, signal.SIGKILL)
                rtrace.process.kill()
                self.bridges_until_repaired("both %d" % number)
                tally["both"] += 1
            finally:
                self.done_with(rtrace)
        self.ends_well()

    def test_the_engine_is_killed_while_it_leaves_because_the_visible_process_was(self):
        for number in range(max(2, ROUNDS // 2)):
            rtrace = self.attach()
            try:
                self.under_way(rtrace)
                engine = engine_of(rtrace.process.pid)
                rtrace.process.kill()
                self.sometime(0.003)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(engine, signal.SIGKILL)
                self.bridges_until_repaired("leaving %d" % number)
                tally["leaving"] += 1
            finally:
                self.done_with(rtrace)
        self.ends_well()

    def bridges_until_repaired(self, what):
        harness.wait_until(lambda: harness.tracer(self.target.pid) == 0, "no tracer is left")
        self.goes_on(what)
        harness.wait_until(lambda: not self.held_back(), "its threads have their own masks (%s)" % what)
        repaired = harness.run(["--repair", "-p", str(self.target.pid)], separate=False)
        self.assertEqual(repaired.status, 0, repaired)
        # Nothing where it died before it had changed anything.
        self.assertRegex(repaired.stderr, r"(?m)^rtrace: %d \(survive\): (\d+ places? in its code put back|"
                         "nothing of a tracer was found in it)" % self.target.pid)
        self.is_clean(what, self.is_told(repaired))
        self.goes_on(what)

    def sometime(self, most=0.05):
        """A moment that nobody has chosen: the wait is the experiment, nothing depends on how long it is."""
        end = time.monotonic() + random.random() * most
        while time.monotonic() < end:
            self.assertIsNone(self.target.process.poll())

    def force(self, moment, count, both):
        what = "forced %s:%d%s" % (moment, count, ":both" if both else "")
        rtrace = None
        try:
            try:
                rtrace = self.attach("%s:%d%s" % (moment, count, ":both" if both else ""))
                if moment in ("stop-all", "detach"):
                    self.under_way(rtrace)
                    rtrace.process.send_signal(signal.SIGINT)
                rtrace.process.wait(harness.PATIENCE)
            except harness.Failure as failure:  # it died before it was ready
                if "was never ready" not in str(failure):
                    raise
            if both:
                self.bridges_until_repaired(what)
                tally["both, " + moment] += 1
            else:
                self.is_clean(what + (rtrace.notices() if rtrace is not None else ""))
                self.goes_on(what)
                tally["engine, " + moment] += 1
        finally:
            if rtrace is not None:
                self.done_with(rtrace)

    def test_the_engine_dies_at_each_of_its_moments(self):
        for moment in MOMENTS:
            most = {"stop-all": 1, "detach": 1, "remote-call": 3, "call-begun": 3, "call-under-way": 6, "mapped": 1, "byte-write": 12, "put-back": 3, "held-back": 20, "stepping": 20}.get(moment, 2000)
            for number in range(FORCED):
                for both in (False, True) if not harness.MECHANISM else (random.random() < 0.5,):
                    self.force(moment, random.randint(1, most), both)
                    self.begin_anew_where_something_stays()
        self.ends_well()

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a pid namespace")
    def test_the_engine_dies_while_it_steps_a_thread_of_another_pid_namespace(self):
        self.assertEqual(self.target.end(), 0)
        self.target = Target(self.folder.name, ["unshare", "-p", "-f", "--kill-child"])
        for moment in ("held-back", "stepping"):
            for number in range(1, 1 + 5 * FORCED):
                self.force(moment, number, True)
        self.ends_well()

    def begin_anew_where_something_stays(self):
        """What stays of trampolines, each repair would wait for."""
        if self.target.left():
            self.assertEqual(self.target.end(), 0)
            self.target = Target(self.folder.name)

    def test_what_has_been_mapped_in_that_moment_is_found(self):
        for moment, both in itertools.product(("call-begun", "call-under-way", "mapped"), ("", ":both")):
            for number in range(1, 40):
                what = "%s:%d%s" % (moment, number, both)
                died = self.dies_before_it_is_ready(what)
                if not died:
                    break
                if both:
                    self.bridges_until_repaired(what)
                harness.wait_until(lambda: self.target.left() == [], "nothing is left (%s)" % what)
                self.is_clean(what)
            self.assertGreater(number, 1)
            self.assertFalse(died)
        self.ends_well()

    def dies_before_it_is_ready(self, moment):
        try:
            rtrace = self.attach(moment, ["qsort", "strverscmp"])  # which nobody calls: no page has to stay
        except harness.Failure as failure:
            self.assertIn("was never ready", str(failure))
            return True
        rtrace.stop()  # of its last such moments it may die in that
        harness.run(["--repair", "-p", str(self.target.pid)])
        self.begin_anew_where_something_stays()
        return False

    @classmethod
    def tearDownClass(cls):
        for what, count in sorted(tally.items()):
            print("%-36s %5d kills survived" % (what, count))
        print("slowest to have its own code again, s: " + ", ".join("%s %g" % item for item in sorted(slowest.items())))


def dying_at(moment, arguments):
    """What rtrace and its command have written, and the status, where its engine dies at this moment."""
    return subprocess.run([harness.RTRACE, "-o", "/dev/null", "--mechanism=breakpoint", *arguments], text=True,
                          env=dict(harness.environment(), RTRACE_DIE_AT=moment), capture_output=True, check=False)


class BetweenTheRegistersAndTheResume(unittest.TestCase):
    """The copy that the thread has been put on, or where a jump led it, may stand behind an int3 of no tracer: the
    end of a PLT entry's copy, padding."""

    def test_behind_the_copy_of_a_plt_entry(self):
        for both in ("", ":both"):
            with harness.Target([harness.target("fragile"), "threads"]) as process:
                process.expect("pid ")
                for number in range(1, 3 * ROUNDS):
                    result = dying_at("registers-written:%d%s" % (number, both), ["-x", "add", "-p", str(process.pid)])
                    if not both:
                        self.assertIn("(at: registers-written)", result.stderr)
                    harness.wait_until(lambda: harness.tracer(process.pid) == 0, "no tracer is left")
                    harness.run(["--repair", "-p", str(process.pid)], separate=False)
                    self.assertIsNone(process.process.poll(), number)
                self.assertEqual(process.finish()[1], 0)

    def test_behind_the_padding_that_a_jump_leads_over(self):
        script = '"$0" 20; echo $?'
        for number in range(1, 3 * ROUNDS):
            result = dying_at("registers-written:%d" % number,
                              ["-f", "-x", "first_jmp_near", "--", "sh", "-c", script, harness.target("firsts")])
            self.assertIn("(at: registers-written)", result.stderr)
            self.assertEqual(result.stdout, "0\n", number)


class AmidTheDetach(unittest.TestCase):
    def test_nothing_stays_for_a_call_that_nobody_has_made(self):
        for both in ("", ":both"):
            with harness.Target([harness.target("fragile"), "threads"]) as process:
                process.expect("pid ")
                clean = harness.foreign_mappings(process.pid)
                died = 0
                for number in itertools.count(1):
                    result = self.leaves("call-under-way:%d%s" % (number, both), process.pid)
                    if result is not None and result.status == 0:
                        break
                    died += result is not None
                    said = [result.stderr if result is not None else ""]

                    def is_clean(said=said, process=process, clean=clean):
                        if harness.foreign_mappings(process.pid) == clean:
                            return True
                        said.append(harness.run(["--repair", "-p", str(process.pid)], separate=False).stderr)
                        return False
                    try:
                        harness.wait_until(is_clean, "nothing is left", 20)
                    except harness.Failure as failure:
                        self.fail("%d%s: %s: %s" % (number, both, failure, said[:5]))
                    self.assertNotIn("has not returned", "".join(said), (number, both))
                self.assertGreater(died, 0)
                self.assertEqual(process.finish()[1], 0)

    @staticmethod
    def leaves(moment, pid):
        """The result; None where it dies before it is ready."""
        os.environ["RTRACE_DIE_AT"] = moment
        try:
            return harness.Attached(["-x", "qsort", "-x", "strverscmp"], [pid]).stop()
        except harness.Failure:
            return None
        finally:
            del os.environ["RTRACE_DIE_AT"]
            harness.wait_until(lambda: harness.tracer(pid) == 0, "no tracer is left")


class AnInterruptAfterTheEngineHasGone(unittest.TestCase):
    def test_is_for_nobody_else_in_the_process_group(self):
        with harness.Target([harness.target("fragile"), "threads"]) as process:
            process.expect("pid ")
            for _ in range(ROUNDS):
                ready, theirs = os.pipe()
                rtrace = subprocess.Popen(
                    [harness.RTRACE, "--ready-fd=%d" % theirs, "-o", "/dev/null", "-x", "add", "-p", str(process.pid)],
                    stderr=subprocess.DEVNULL, pass_fds=[theirs], env=harness.environment(), process_group=0)
                os.close(theirs)
                neighbour = subprocess.Popen(["cat"], stdin=subprocess.PIPE, process_group=rtrace.pid)
                try:
                    self.assertEqual(os.read(ready, 1), b"\n", "rtrace has ended; the target: %s" % process.process.poll())
                    os.kill(engine_of(rtrace.pid), signal.SIGKILL)
                    while rtrace.poll() is None:
                        rtrace.send_signal(signal.SIGINT)
                finally:
                    os.close(ready)
                    neighbour.stdin.close()
                self.assertEqual(neighbour.wait(harness.PATIENCE), 0)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        ROUNDS = int(sys.argv.pop(1))
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        FORCED = int(sys.argv.pop(1))
    unittest.main()
