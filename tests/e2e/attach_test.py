#!/usr/bin/python3
"""Attaching to processes that run, and leaving them as they were."""
import json
import os
import re
import signal
import subprocess
import unittest

import harness
from survival_test import engine_of


def waits(count=3):
    process = harness.Target([harness.target("waits"), str(count)])
    process.expect("pid ")
    return process


def attach(*pids, options=("-x", "add"), command=()):
    return harness.Attached(["-F", harness.CONF, *options], pids, command)


def count(result):
    return result.trace.count("add@libfixture.so(")


def reports(lines):
    """The probes of each line of JSON that has some."""
    whole = [line for line in lines if line.startswith("{") and line.endswith("}")]
    return [line["probes"] for line in map(json.loads, whole) if "probes" in line]


def turns(rtrace):
    """How many became trampolines at a time."""
    wrapped = [sum(probe["mechanism"] == "trampoline" for probe in probes) for probes in reports(rtrace.lines_so_far())]
    return [count for count in wrapped if count > 0]


def become_trampolines(process, rtrace):
    def done():
        process.go()
        process.expect("done")
        return sum(turns(rtrace)) > 2000
    harness.wait_until(done, "2000 trampolines")


LOADS = """import ctypes, sys, threading
ended = threading.Event()
threading.Thread(target=ended.wait, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    ctypes.CDLL("libcrypto.so.3").OPENSSL_version_major()
    print("done", flush=True)
"""

SLEEPS = """import select, sys, threading
threading.Thread(target=select.epoll().poll, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


class Attach(unittest.TestCase):
    def test_a_process_inside_a_system_call_never_sees_it_interrupted(self):
        with waits() as process:
            for _ in range(10):
                rtrace = attach(process.pid)
                process.go()
                process.expect("done")
                result = rtrace.stop()
                self.assertEqual((result.status, count(result)), (0, 3), result)
            process.process.stdin.close()
            self.assertEqual(process.process.wait(harness.PATIENCE), 0)

    def test_a_thread_that_sleeps_sleeps_on(self):
        """An interrupt would begin the timeout anew of calls like epoll_wait(2), which are not told what is left of it."""
        epoll_wait = "232 "
        with harness.Target(["/usr/bin/python3", "-c", SLEEPS]) as process:
            process.expect("ready")
            sleeper = max(map(int, os.listdir("/proc/%d/task" % process.pid)))
            harness.wait_until(lambda: harness.read_text("/proc/%d/syscall" % sleeper).startswith(epoll_wait), "it sleeps")
            switches = harness.status_field(sleeper, "voluntary_ctxt_switches")
            rtrace = attach(process.pid, options=("--mechanism=breakpoint", "-x", "getenv@libc.so.6"))
            self.assertEqual(harness.status_field(sleeper, "voluntary_ctxt_switches"), switches)
            rtrace.stop()

    def test_after_the_detach_code_tracer_and_mappings_are_as_before(self):
        with waits() as process:
            rtrace = attach(process.pid)
            process.go()
            process.expect("done")
            self.assertNotEqual(harness.altered_code(process.pid), [])
            self.assertEqual(rtrace.stop().status, 0)
            self.assertEqual(harness.altered_code(process.pid), [])
            self.assertEqual(harness.tracer(process.pid), 0)
            self.assertEqual(harness.rtrace_mappings(process.pid), [])
            process.go()
            process.expect("done")

    def test_int_term_hup_and_quit_all_detach(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(signal=number), waits() as process:
                rtrace = attach(process.pid)
                rtrace.process.send_signal(number)
                self.assertEqual(rtrace.end().status, 0)
                self.assertEqual(harness.altered_code(process.pid), [])
                process.go()
                process.expect("done")

    def test_the_end_of_the_process_is_the_end_of_rtrace_with_status_0(self):
        with waits() as process:
            rtrace = attach(process.pid)
            process.go()
            process.expect("done")
            process.process.stdin.close()
            self.assertEqual(process.process.wait(harness.PATIENCE), 0)
            result = rtrace.end()
            self.assertEqual((result.status, count(result)), (0, 3), result)
            self.assertIn("+++ exited (status 0) +++", result.trace)

    def test_the_attach_line_counts_threads_objects_and_probes(self):
        with waits() as process:
            result = attach(process.pid).stop()
            self.assertRegex(result.stderr, r"(?m)^rtrace: attached to %d \(waits\), 1 thread, \d+ objects; "
                                            r"1 probe armed" % process.pid)

    def test_q_is_silent_about_the_attaching(self):
        with waits() as process:
            self.assertNotIn("attached to", attach(process.pid, options=("-q", "-x", "add")).stop().stderr)

    def test_that_a_process_is_stopped_is_said(self):
        with waits() as process:
            os.kill(process.pid, signal.SIGSTOP)
            harness.wait_until(lambda: harness.state(process.pid) == "T", "it stops")
            stderr = attach(process.pid).stop().stderr
            self.assertRegex(stderr, r"1 probe armed; it is stopped, and makes no call before SIGCONT\n")
            self.assertEqual(harness.state(process.pid), "T")
            os.kill(process.pid, signal.SIGCONT)

    def test_several_processes_at_once(self):
        with waits() as one, waits() as two, waits() as three:
            rtrace = harness.Attached(["-F", harness.CONF, "-x", "add", "-p", "%d,%d" % (one.pid, two.pid)], [three.pid])
            for process in (one, two, three):
                process.go()
                process.expect("done")
            result = rtrace.stop()
            self.assertEqual(result.status, 0, result)
            for process in (one, two, three):
                mine = [line for line in result.lines if re.match(r"\[pid +%d\] add@" % process.pid, line)]
                self.assertEqual(len(mine), 3, result)

    def test_a_command_and_a_process_together_and_the_status_is_the_command_s(self):
        with waits() as process:
            rtrace = attach(process.pid, command=("--", harness.target("entries"), "add", "5"))
            process.go()
            process.expect("done")
            process.process.stdin.close()
            process.process.wait(harness.PATIENCE)
            result = rtrace.end()
            self.assertEqual((result.status, count(result)), (0, 3 + 5), result)

    def test_two_attachings_in_a_row_by_the_same_command_line_give_the_same_lines(self):
        with waits() as process:
            seen = []
            for _ in range(2):
                rtrace = attach(process.pid)
                process.go()
                process.expect("done")
                seen.append(rtrace.stop().trace)
            self.assertEqual(seen[0], seen[1])

    @unittest.skipIf(harness.MECHANISM, "which of them become trampolines is not what it is about")
    def test_of_many_functions_all_become_trampolines_while_the_process_runs_between(self):
        with waits() as process:
            rtrace = attach(process.pid, options=("--json", "--mechanism=trampoline", "-x", "*@libc.so.6"))
            become_trampolines(process, rtrace)
            self.assertGreater(len(turns(rtrace)), 10)
            self.assertLessEqual(max(turns(rtrace)), 256)
            result = rtrace.stop()
            self.assertEqual(result.status, 0)
            listed = {probe["name"] for probes in reports(result.lines) for probe in probes
                      if probe["mechanism"] == "breakpoint" and "; no trampoline: " in probe["reason"]}
            said = set(re.findall(r"^rtrace: (\S+)@libc\.so\.6: a breakpoint, no trampoline: ", result.stderr, re.M))
            self.assertTrue(said)
            self.assertEqual(said - listed, set())
            self.assertEqual(harness.altered_code(process.pid), [])
            process.go()
            process.expect("done")

    @unittest.skipIf(harness.MECHANISM, "which of them become trampolines is not what it is about")
    def test_those_of_a_library_that_a_process_with_threads_loads_do_so_too(self):
        with harness.Target(["/usr/bin/python3", "-c", LOADS]) as process:
            process.expect("ready")
            rtrace = attach(process.pid, options=("--json", "--mechanism=trampoline", "-x", "*@libcrypto.so.3"))
            become_trampolines(process, rtrace)
            self.assertLessEqual(max(turns(rtrace)), 256)
            self.assertEqual(rtrace.stop().status, 0)
            self.assertEqual(harness.altered_code(process.pid), [])
            process.go()
            process.expect("done")


class Refusals(unittest.TestCase):
    def refused(self, pid):
        result = harness.run(["-x", "add", "-p", str(pid)])
        self.assertEqual(result.status, 1, result)
        return result.stderr

    def test_a_process_that_is_not_there(self):
        self.assertRegex(self.refused(2 ** 22 - 1), r"[Nn]o such process")

    def test_a_process_that_another_tracer_holds_and_its_pid(self):
        with waits() as process:
            rtrace = attach(process.pid)
            try:
                self.assertIn(str(harness.tracer(process.pid)), self.refused(process.pid))
            finally:
                rtrace.stop()

    def test_a_zombie(self):
        with subprocess.Popen(["/bin/true"]) as zombie:
            harness.wait_until(lambda: harness.state(zombie.pid) == "Z", "the child has ended")
            self.assertRegex(self.refused(zombie.pid), r"zombie|ended")

    @unittest.skipUnless(os.geteuid() == 0 and os.path.exists("/proc/2/comm")
                         and harness.read_text("/proc/2/comm") == "kthreadd\n", "no kernel thread in sight")
    def test_a_kernel_thread(self):
        self.assertIn("kernel thread", self.refused(2))


class JobControl(unittest.TestCase):
    """The test is the parent, and sees the same changes of state as a shell would."""

    def change(self, process, number, flag, expected):
        os.kill(process.pid, number)
        status = harness.wait_until(lambda: dict([os.waitpid(process.pid, flag | os.WNOHANG)]).get(process.pid),
                                    "the parent sees what signal %d did" % number)
        self.assertTrue(expected(status), status)

    def stop_and_see(self, process):
        self.change(process, signal.SIGSTOP, os.WUNTRACED, os.WIFSTOPPED)

    def continue_and_see(self, process):
        self.change(process, signal.SIGCONT, os.WCONTINUED, os.WIFCONTINUED)

    def test_stop_and_continue_work_while_attached(self):
        with waits() as process:
            rtrace = attach(process.pid)
            for _ in range(3):
                self.stop_and_see(process)
                process.go()
                self.continue_and_see(process)
                process.expect("done")
            result = rtrace.stop()
            self.assertEqual((result.status, count(result)), (0, 9), result)

    def test_a_stopped_process_stays_stopped_through_attach_and_detach(self):
        with waits() as process:
            self.stop_and_see(process)
            process.go()
            rtrace = attach(process.pid)
            self.assertIn(harness.state(process.pid), "Tt")
            result = rtrace.stop()
            self.assertEqual((result.status, count(result)), (0, 0), result)
            harness.wait_until(lambda: harness.state(process.pid) == "T", "the process is stopped as before")
            self.continue_and_see(process)
            process.expect("done")

    def test_a_stopped_process_is_traced_once_it_goes_on(self):
        with waits() as process:
            self.stop_and_see(process)
            process.go()
            rtrace = attach(process.pid)
            self.continue_and_see(process)
            process.expect("done")
            result = rtrace.stop()
            self.assertEqual((result.status, count(result)), (0, 3), result)


def small_group():
    """A memory control group inside the test's own, to be removed; None where none can be made."""
    for line in harness.read_text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("memory", ""):
            continue
        folder = os.path.normpath("/sys/fs/cgroup%s%s/rtrace-%d" % ("/memory" if controllers else "", path, os.getpid()))
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        try:
            os.mkdir(folder)
        except OSError:
            continue
        if os.path.exists(os.path.join(folder, names[0])):
            return folder, [os.path.join(folder, name) for name in names]
        os.rmdir(folder)
    return None


class MemoryIsShort(unittest.TestCase):
    def test_no_records_are_kept_where_the_process_has_no_room_for_them(self):
        group = small_group()
        if group is None:
            self.skipTest("no memory control group can be made here")
        folder, (limit, usage) = group

        def is_gone():
            try:
                os.rmdir(folder)
            except OSError:  # a process that has ended leaves it a moment later
                return False
            return True
        self.addCleanup(harness.wait_until, is_gone, "nobody is in the group")
        with harness.Target([harness.target("waits"), "3"]) as process:
            process.expect("pid ")
            with open(os.path.join(folder, "cgroup.procs"), "w") as procs:
                procs.write("%d" % process.pid)
            for room, made in ((4 << 20, False), (64 << 20, True)):
                with open(limit, "w") as file:
                    file.write("%d" % (int(harness.read_text(usage)) + room))
                rtrace = harness.Attached(["-F", harness.CONF, "-x", "add", "--mechanism=trampoline", "--json"], [process.pid])
                process.go()
                process.expect("done")
                lines = [json.loads(line) for line in rtrace.stop().lines]
                self.assertEqual([line["name"] for line in lines if line["type"] == "call"], 3 * ["add"])
                probe, = lines[0]["probes"]
                self.assertEqual(probe["mechanism"], "trampoline" if made else "breakpoint", probe)
                self.assertEqual("its control group has room for" in probe["reason"], not made, probe)

    def adjustment(self, pid):
        return int(harness.read_text("/proc/%d/oom_score_adj" % pid))

    def test_the_engine_is_to_be_ended_first(self):
        own = self.adjustment(os.getpid())
        with harness.Target([harness.target("waits"), "3"]) as process:
            process.expect("pid ")
            rtrace = harness.Attached(["-F", harness.CONF, "-x", "add"], [process.pid])
            engine = engine_of(rtrace.process.pid)
            self.assertEqual((self.adjustment(engine), self.adjustment(process.pid)), (1000, own))
            rtrace.stop()

    def test_and_that_of_a_command_that_runs_for_long(self):
        rtrace = subprocess.Popen(harness.invocation(["-x", "getppid", "--", "cat"]), stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            harness.wait_until(lambda: engine_of(rtrace.pid) and self.adjustment(engine_of(rtrace.pid)) == 1000, "it is offered")
            cats = [int(pid) for pid in harness.read_text("/proc/%d/task/%d/children" % (rtrace.pid, rtrace.pid)).split()
                    if int(pid) != engine_of(rtrace.pid)]
            self.assertEqual([self.adjustment(pid) for pid in cats], [self.adjustment(os.getpid())])
        finally:
            rtrace.communicate()
        self.assertEqual(rtrace.returncode, 0)


if __name__ == "__main__":
    unittest.main()
