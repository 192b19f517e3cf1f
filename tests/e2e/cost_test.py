#!/usr/bin/python3
"""What a traced call costs rtrace's engine, counted and not timed: stops, ptrace requests, and other system calls.

strace counts them on the engine, which sleeps between stops (--cpu=any): awake it asks as often as there is time. Two runs that differ in nothing but the number of calls are subtracted, so that what
there is once goes away. The front end is halted meanwhile: how often it is woken for output is a matter of time.
Where strace may not trace the engine, the test ends with status 77, "skipped", and says why.
"""
import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import harness

FEW, MANY = 200, 2200
SKIPPED = 77
RESUMING = ("PTRACE_CONT", "PTRACE_SYSCALL", "PTRACE_SINGLESTEP", "PTRACE_LISTEN")
# A call is stopped twice, at its entry and at its return. A stop takes four requests: to wait for it, to read the
# registers, to write them, to resume the thread. The memory that is shown, and that tells frames apart, is read at once.
STOPS, REQUESTS_A_STOP, READS = 2, 4, 1
OTHERS = 0.02  # what comes once in a while: a ring's reader that is woken, a table that grows
# Of a stop that is late, as each is under strace, the scheduler's account tells how late, and the thread's rseq area on
# which processor it was, where durations are shown.
ACCOUNT, ACCOUNTS_A_STOP, DURATIONS = "pread64", 2, {"-c", "-ttT", "--json"}
# An allocator's own; AddressSanitizer's gives out memory that was freed only after a long time, and asks for more.
ALLOCATOR, GROWTH = ("mmap", "munmap", "madvise", "brk"), 0.2


class Strace:
    """strace, attached to a process."""

    def __init__(self, pid, folder):
        self.log, said = os.path.join(folder, "log"), os.path.join(folder, "said")
        with open(said, "w") as stderr:
            self.process = subprocess.Popen(["strace", "-e", "signal=none", "-s", "0", "-o", self.log, "-p", str(pid)],
                                            stdin=subprocess.DEVNULL, stderr=stderr)
        harness.wait_until(lambda: "attached" in harness.read_text(said) or self.process.poll() is not None,
                           "strace is attached")
        if self.process.poll() is not None:
            raise harness.Failure("strace cannot trace process %d: %s" % (pid, harness.read_text(said)))

    def end(self):
        """How often which request was made: `ptrace`'s by their own names."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(harness.PATIENCE)
        return collections.Counter(match.group(1) or match.group(2) for match in re.finditer(
            r"^(?:ptrace\((PTRACE_\w+)|(\w+)\()", harness.read_text(self.log), re.M))

    def abandon(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


def engine_of(front_end):
    with open("/proc/%d/task/%d/children" % (front_end, front_end)) as file:
        return int(file.read().split()[0])


def requests(function, options, calls, mechanism="breakpoint"):
    """Of the engine, while the target makes so many calls."""
    with tempfile.TemporaryDirectory() as folder, harness.Target([harness.target("repeats"), function]) as process:
        process.expect("pid ")
        rtrace = harness.Attached(["-q", "--cpu=any", "--mechanism=" + mechanism, "-F", harness.CONF, *options], [process.pid])
        strace = None
        try:
            strace = Strace(engine_of(rtrace.process.pid), folder)
            rtrace.process.send_signal(signal.SIGSTOP)
            harness.wait_until(lambda: harness.state(rtrace.process.pid) == "T", "the front end is halted")
            process.process.stdin.write("%d\n" % calls)
            process.process.stdin.flush()
            process.expect("done ")
            found = strace.end()
            rtrace.process.send_signal(signal.SIGCONT)
            result = rtrace.stop()
        finally:
            rtrace.process.send_signal(signal.SIGCONT)
            if strace is not None:
                strace.abandon()
            rtrace.abandon()
        if result.status != 0:
            raise harness.Failure(str(result))
        return found, result


def cost_of_a_call(function, options):
    few, _ = requests(function, options, FEW)
    many, result = requests(function, options, MANY)
    cost = {name: (many[name] - few[name]) / (MANY - FEW) for name in few | many if many[name] != few[name]}
    if ACCOUNT in cost:  # how many stops were late may differ: of the longer run alone
        cost[ACCOUNT] = many[ACCOUNT] / MANY
    return cost, result


class Cost(unittest.TestCase):
    def check(self, function, options, shown):
        cost, result = cost_of_a_call(function, options)
        self.assertEqual(result.trace.count(shown), 1 if "-c" in options else MANY, "not every call was traced")
        waits = cost.pop("waitid", 0) + cost.pop("wait4", 0)
        traces = {name: number for name, number in cost.items() if name.startswith("PTRACE_")}
        stops = sum(traces.get(name, 0) for name in RESUMING)
        reads = cost.pop("process_vm_readv", 0)
        others = {name: number for name, number in cost.items() if name not in traces}
        seen = "waits %.3f, ptrace %s, reads %.3f, others %s a call" % (waits, traces, reads, others)
        self.assertLessEqual(stops, STOPS + OTHERS, seen)
        self.assertGreaterEqual(stops, STOPS - OTHERS, "an entry and a return are stops: " + seen)
        self.assertLessEqual(waits + sum(traces.values()), STOPS * REQUESTS_A_STOP + OTHERS, seen)
        self.assertLessEqual(reads, READS + OTHERS, seen)
        self.assertLessEqual(sum(others.pop(name, 0) for name in ALLOCATOR), GROWTH, seen)
        if DURATIONS & set(options):
            self.assertLessEqual(others.pop(ACCOUNT, 0), STOPS * ACCOUNTS_A_STOP + OTHERS, seen)
        self.assertLessEqual(sum(others.values()), OTHERS, seen)

    def test_of_an_entry_in_a_library(self):
        self.check("add", ["-x", "add"], "add@")

    def test_of_a_call_site(self):
        self.check("add", ["-e", "add"], "add(")

    def test_of_a_string_that_is_shown(self):
        self.check("greet", ["-x", "greet"], "\"seventeen letters\"")

    def test_with_time_and_duration(self):
        self.check("add", ["-ttT", "-x", "add"], "add@")

    def test_as_json(self):
        self.check("add", ["--json", "-x", "add"], "\"type\":\"call\"")

    def test_in_a_summary(self):
        self.check("add", ["-c", "-x", "add"], " add@")

    def check_wrapped(self, function, shown):
        """Of calls that the process records itself. The engine looks at what there is now and then."""
        found, result = requests(function, ["-x", function], MANY, "trampoline")
        self.assertEqual(result.trace.count(shown), MANY, "not every call was traced")
        self.assertLess(sum(found[name] for name in RESUMING), MANY / 50, found)

    def test_of_a_wrapped_call_is_no_stop(self):
        self.check_wrapped("add", "add@")
        self.check_wrapped("greet", "\"seventeen letters\"")

    def test_of_a_wrapped_call_with_pointers_in_memory_is_no_stop(self):
        self.check_wrapped("writev", "[ { \"five \", 5 }, { \"letters\", 7 } ]")

    def test_of_a_system_call_that_nobody_asked_for_is_nothing(self):
        cost, result = cost_of_a_call("getppid", ["-x", "add"])
        self.assertEqual(result.trace.count("add"), 0)
        self.assertLessEqual(sum(cost.values()), OTHERS, cost)


@contextlib.contextmanager
def all_seen(calls):
    """rtrace, all of whose calls of those system calls are written to the file that is given."""
    plain = harness.RTRACE
    with tempfile.TemporaryDirectory() as folder:
        log, seen = os.path.join(folder, "log"), os.path.join(folder, "rtrace")
        with open(seen, "w") as file:
            file.write("#!/bin/sh\nexec strace -D -f -s 1 -e trace=%s -e signal=none -o '%s' -- '%s' \"$@\"\n" % (
                calls, log, os.path.abspath(shutil.which(plain) or plain)))
        os.chmod(seen, 0o755)
        harness.RTRACE = seen
        try:
            yield log
        finally:
            harness.RTRACE = plain


class Attaching(unittest.TestCase):
    def test_holds_no_thread_while_it_looks_for_what_is_to_be_patched(self):
        """It stands while it makes rtrace's calls and what it does about signals begins to be watched, not for the rest."""
        with all_seen("ptrace,pwrite64") as log, harness.Target([harness.target("repeats"), "add"]) as process:
            process.expect("pid ")
            rtrace = harness.Attached(["-x", "add", "-x", "str*@libc.so.6"], [process.pid])
            seen = harness.read_text(log)
            rtrace.stop()
        held, holds, written = set(), 0, {True: 0, False: 0}
        for line in seen.splitlines():
            if match := re.search(r"ptrace\((PTRACE_\w+), (\d+)", line):
                request, tid = match.groups()
                if request == "PTRACE_INTERRUPT":
                    held.add(tid)
                    holds += 1
                elif request in ("PTRACE_CONT", "PTRACE_LISTEN"):
                    held.discard(tid)
            elif re.search(r'pwrite64\(\d+, "\\(314|303)", 1,', line):
                written[bool(held)] += 1
        self.assertGreaterEqual(holds, 1, seen)
        self.assertLessEqual(written[True], 8, seen)
        self.assertGreaterEqual(written[False], 40, seen)


def cannot():
    """Why strace cannot trace another's child here; None where it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    # The sleeper is no child of strace's, as the engine is none.
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(["sleep", "600"]) as sleeper:
        try:
            Strace(sleeper.pid, folder).end()
        except harness.Failure as failure:
            return str(failure)
        finally:
            sleeper.kill()
    return None


if __name__ == "__main__":
    REASON = cannot()
    if REASON:
        print("e2e.cost: SKIPPED: " + REASON, file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()
