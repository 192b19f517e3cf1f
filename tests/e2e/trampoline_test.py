#!/usr/bin/python3
"""Calls that are counted inside the process: --mechanism=trampoline with -c.

trampoline_test.py [ROUNDS]: so many attaches under load, and kills of each kind (2).
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import board
import harness
from survival_test import engine_of

ROUNDS = 2
COUNTING = ["-c", "--mechanism=trampoline"]
RECORDING = ["--mechanism=trampoline", "--where", "dur > 3600s"]
LEAVES = ["-x", "strtol@libc.so.*", "-x", "labs@libc.so.*"]
NAMES = ("strtol@libc.so.6", "labs@libc.so.6")
MAPPING = re.compile(r"\S+ r-[-x]p \S+ \S+ 0 *$")


def traced(way, count, arguments=()):
    words = COUNTING + LEAVES + list(arguments) + [harness.target("counts"), way, str(count)]
    result = harness.run(words)
    return result, harness.Summary(result.trace)


def breakpoints_said(stderr):
    return re.findall(r"^rtrace: (\S+): a breakpoint, no trampoline: (.*)$", stderr, re.M)


class Load(board.Target):
    """counts FILE: what is traced, how far it is, and whether all was right."""

    def __init__(self, folder):
        super().__init__("counts", folder)
        self.clean = self.foreign()

    def done(self):
        return self.words(2, 4)

    def foreign(self):
        """Private mappings without a file that cannot be written, and memory of rtrace: none is the program's."""
        with open("/proc/%d/maps" % self.pid) as maps:
            return [line for line in maps if MAPPING.match(line) or "memfd" in line]

    def moves_on(self):
        """Every thread has called again, and children and threads were made."""
        before, rounds = self.done(), self.word(6)
        harness.wait_until(lambda: all(b > a for a, b in zip(before, self.done())) and self.word(6) > rounds + 1,
                           "all threads go on")

    def is_clean(self):
        return not harness.altered_code(self.pid) and self.foreign() == self.clean


def jumps(pid):
    """Where near and short jumps of ours stand in the C library."""
    found = {0xe9: [], 0xeb: []}
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", buffering=0) as memory:
        for line in maps:
            fields = line.split(None, 5)
            if len(fields) < 6 or fields[1] != "r-xp" or "/libc.so" not in fields[5]:
                continue
            begin, end = (int(word, 16) for word in fields[0].split("-"))
            with open(fields[5].rstrip("\n"), "rb") as file:
                file.seek(int(fields[2], 16))
                there = file.read(end - begin)
            memory.seek(begin)
            here = memory.read(end - begin)
            at = 0
            while at < len(there):
                if here[at] == there[at]:
                    at += 1
                    continue
                if here[at] in found:
                    found[here[at]].append(begin + at)
                at += 2 if here[at] == 0xeb else 5
    return found[0xe9], found[0xeb]


class Counting(unittest.TestCase):
    def expect(self, way, count, strtols, labses, arguments=()):
        result, summary = traced(way, count, arguments)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(breakpoints_said(result.stderr), [], result)
        self.assertEqual([summary.rows[name]["calls"] for name in NAMES], [strtols, labses], result)
        return result, summary

    def test_each_call_counts_once(self):
        result, summary = self.expect("plain", 100000, 100000, 100000)
        # No stop can be that short: these are wrapped.
        self.assertLess(harness.seconds(summary.rows[NAMES[0]]["p50"]), 2e-6, result)

    def test_of_all_threads_those_that_follow_others_included(self):
        self.expect("threads", 800, 800, 800)

    def test_children_pass_unseen(self):
        self.expect("children", 30, 30, 30)

    def test_handlers_on_their_own_stack_count_too(self):
        result, summary = traced("ticking", 3000000)
        ticks = int(re.search(r"ticks (\d+)", result.stdout).group(1))
        self.assertEqual(result.status, 0, result)
        self.assertGreater(ticks, 10)
        self.assertEqual([summary.rows[name]["calls"] for name in NAMES], [3000000, ticks], result)

    def test_a_handler_may_leave_a_wrapped_call_for_good(self):
        result, summary = traced("leaving", 3000000)
        ticks = int(re.search(r"ticks (\d+)", result.stdout).group(1))
        self.assertEqual(result.status, 0, result)
        self.assertEqual(summary.rows[NAMES[1]]["calls"], ticks, result)
        # A call that was left is made again.
        self.assertTrue(3000000 <= summary.rows[NAMES[0]]["calls"] <= 3000000 + ticks, result)

    def test_children_that_a_handler_forks_in_the_midst_of_a_wrapped_call_live(self):
        """They return into it from the handler: what the recorder knew is gone."""
        result = harness.run(COUNTING + ["-x", "labs@libc.so.*", harness.target("counts"), "forking", "300"])
        self.assertEqual(result.status, 0, result)
        self.assertIn("forks 300 died 0\n", result.stdout, result)
        self.assertEqual(breakpoints_said(result.stderr), [], result)
        # Those between two forks take 300 us.
        self.assertGreater(harness.Summary(result.trace).rows[NAMES[1]]["calls"], 100000, result)

    def test_failures_are_told_as_by_breakpoints(self):
        words = ["-c", "-x", "access@libc.so.*", harness.target("counts"), "failing", "400"]
        rows = [harness.Summary(harness.run(more + words).trace).rows["access@libc.so.6"]
                for more in (["--mechanism=trampoline"], ["--mechanism=breakpoint"])]
        self.assertEqual([(row["calls"], row["errors"]) for row in rows], [(400, 300)] * 2)

    def test_a_program_that_execs_is_wrapped_again(self):
        self.expect("execing", 1000, 1010, 1010)

    def test_json_and_histograms_know_the_counts(self):
        result = harness.run(COUNTING + LEAVES + ["--hist=labs", harness.target("counts"), "plain", "1000"])
        self.assertIn("labs@libc.so.6, 1000 calls", result.trace.replace(":", ","), result)

    def test_of_a_launched_command_what_is_called_often_goes_by_trampoline_by_itself(self):
        for options, count in ((["-c"], 0), (["--summary"], 20000)):
            with self.subTest(options=options):
                result = harness.run(options + ["-x", "labs@libc.so.*", harness.target("counts"), "plain", "20000"])
                self.assertRegex(result.trace, r"trampolines since they were called often: labs@libc\.so\.6\n")
                self.assertEqual(harness.Summary(result.trace).rows[NAMES[1]]["calls"], 20000, result)
                self.assertEqual(len(re.findall(r"^labs@libc\.so\.6\(-?\d+\) += \d+$", result.trace, re.M)), count)

    def test_what_is_declined_is_said_with_its_reason_and_counted_all_the_same(self):
        words = ["-q", "-F", harness.CONF, "-x", "fork@libc.so.*", "-x", "printf@libc.so.*", "-x", "dlsym@libc.so.*",
                 "-x", "_init"]
        result = harness.run(COUNTING + words + LEAVES + [harness.target("counts"), "ticking", "10"])
        summary = harness.Summary(result.trace)
        said = dict(breakpoints_said(result.stderr))
        self.assertEqual(sorted(said), ["_init", "dlsym@libc.so.6", "fork@libc.so.6", "printf@libc.so.6"], result)
        self.assertIn("returns in two processes", said["fork@libc.so.6"])
        self.assertIn("goes by who calls it", said["dlsym@libc.so.6"])
        self.assertIn("may lie in memory", said["printf@libc.so.6"])
        self.assertIn("no prototype is known", said["_init"])
        self.assertEqual(summary.rows["_init"]["calls"], 1, result)
        self.assertEqual(summary.rows[NAMES[0]]["calls"], 10, result)

    def test_the_default_makes_breakpoints(self):
        result = harness.run(["-c"] + LEAVES + ["--explain", harness.target("counts"), "plain", "10"])
        self.assertNotIn("trampoline", result.stderr)

    def test_real_programs_lose_no_call(self):
        """The same number of calls by breakpoints and by trampolines, where the program is deterministic."""
        script = "x = [str(i) * 20 for i in range(300)]; print(len(x))"
        env = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
        before = {key: os.environ.get(key) for key in env}
        os.environ.update(env)
        try:
            words = ["-x", "strchr@libc.so.*", "-x", "strtol@libc.so.*", "-x", "mmap@libc.so.*", "-x", "memcpy@libc.so.*",
                     "-x", "memmove@libc.so.*", "/usr/bin/python3", "-I", "-c", script]
            counts = []
            for mechanism in ("breakpoint", "trampoline"):
                result = harness.run(["-c", "--mechanism=" + mechanism] + words)
                self.assertEqual((result.status, result.stdout), (0, "300\n"), result)
                counts.append(harness.Summary(result.trace).calls())
            self.assertEqual(breakpoints_said(result.stderr), [], result)
            self.assertEqual(counts[0], counts[1])
        finally:
            for key, value in before.items():
                os.environ.pop(key) if value is None else os.environ.__setitem__(key, value)


class AsByBreakpoints(unittest.TestCase):
    """Programs that check each function of the C library: same results, same counts, same errors."""
    PATTERNS = ("str*", "mem*", "wcs*", "wmem*", "is*", "to*", "a[bt]*", "l[adl]*", "malloc", "calloc", "realloc", "free",
                "*printf", "pthread_mutex*", "pthread_attr*", "pthread_rwlock*", "pthread_spin*", "pthread_key*", "m[bu]*",
                "sem_*", "getp*", "getenv", "set*", "*stat", "access", "dup*", "pipe*", "sock*", "inet_*", "sig*", "gmtime*",
                "difftime", "clock_get*")
    PROGRAMS = {"files": 20, "numbers": 30, "sockets": 15, "streams": 15, "strings": 40, "threads": 30, "times": 20,
                "wide": 40}

    def test_of_each_program(self):
        filters = [word for pattern in self.PATTERNS for word in ("-x", pattern + "@libc.so.*")]
        for name, fewest in self.PROGRAMS.items():
            command = [harness.target("libc_" + name)]
            rows, results = [], []
            for mechanism in ("breakpoint", "trampoline"):
                with tempfile.TemporaryDirectory() as folder:
                    results.append(harness.run(["-c", "--explain", "--mechanism=" + mechanism] + filters + command,
                                               cwd=folder))
                table = harness.Summary(results[-1].trace)
                rows.append({key: (row["calls"], row["errors"]) for key, row in table.rows.items()})
            with self.subTest(program=name):
                self.assertEqual(results[0].status, results[1].status, results[1])
                self.assertEqual(results[0].stdout, results[1].stdout)
                self.assertEqual(rows[0], rows[1])
                called = {key for key in rows[1]
                          if "rtrace: %s at " % key in results[1].stderr and
                          re.search(r"^rtrace: %s at \S+: trampoline;" % re.escape(key), results[1].stderr, re.M)}
                self.assertGreaterEqual(len(called), fewest, sorted(called))


class Vanishing(unittest.TestCase):
    """Pointers to memory that another thread takes away while they are followed: no call needs that memory."""
    COUNT = 30000

    def test_the_program_goes_on_and_every_call_is_seen(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("long shown(string);\nlong inside(struct(long, string)*);\n")
            conf.flush()
            result = harness.run(["-F", conf.name, "--mechanism=trampoline", "-x", "shown+inside", "--",
                                  harness.target("vanishes"), str(self.COUNT)])
        self.assertEqual(result.status, 0, result)
        self.assertIn("rtrace: 2 trampolines, 0 breakpoints", result.stderr)
        for name, text in (("shown", r"shown\(%s\)"), ("inside", r"inside\(\{ 1, %s \}\)")):
            shown = r'(?:0x[0-9a-f]+|"[a-z ,]*"(?:\.\.\.)?)'
            lines = re.findall(r"^(?:\[pid \d+\] )?" + text % shown + " += 1$", result.trace, re.M)
            self.assertEqual(len(lines), self.COUNT, name)


class Stopping(unittest.TestCase):
    """Wrappers whose calls stop their thread for values that no record has: a long double lies in x87's registers."""

    def test_what_a_stop_takes_is_no_call_s_own_time(self):
        result = harness.run(["-F", os.path.join(harness.HERE, "targets", "timed.conf"), "--mechanism=trampoline", "-T",
                              "-x", "around+widen", "--", harness.target("timed"), "wide", "50"])
        self.assertEqual(result.status, 0, result)
        self.assertIn("rtrace: 2 trampolines, 0 breakpoints", result.stderr)
        self.assertEqual(len(re.findall(r"widen\(\d+\.0+\) += \d+\.0+ <", result.trace)), 1000, result)
        took = [float(seconds) for seconds in re.findall(r"around resumed> \) += 1 <(\S+)>", result.trace)]
        self.assertEqual(len(took), 50, result)
        self.assertGreaterEqual(min(took), 95e-6)


class UnderLoad(unittest.TestCase):
    options = COUNTING
    leaves = LEAVES
    moments = (["stop-all:1", "detach:1", "waiting:1", "waiting:9", "stop-peeked:2", "registers-written:1"] +
               ["remote-call:%d" % n for n in range(1, 13)] + ["byte-write:%d" % n for n in range(1, 13, 2)])

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.load = Load(self.folder.name)
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(self.load.abandon)

    def attach(self, arguments=()):
        return harness.Attached(self.options + self.leaves + list(arguments), [self.load.pid])

    def is_wrapped(self):
        near, short = jumps(self.load.pid)
        return (len(near), len(short)) == (2, 0)

    def end(self):
        self.assertEqual(self.load.end(), 0, "wrong results: %d" % self.load.word(1))

    def test_attach_and_detach_leave_every_byte_as_it_was(self):
        for _ in range(ROUNDS * 5):
            attached = self.attach()
            try:
                harness.wait_until(self.is_wrapped, "the functions are wrapped")
                before = self.load.done()
                self.load.moves_on()
                after = self.load.done()
            finally:
                result = attached.stop()
            self.assertEqual(result.status, 0, result)
            if self.options == COUNTING:
                calls = harness.Summary(result.trace).rows["labs@libc.so.6"]["calls"]
                self.assertGreaterEqual(calls, sum(after) - sum(before), result)
            harness.wait_until(self.load.is_clean, "code and mappings are as they were")
        self.end()

    def kill(self, *whom):
        attached = self.attach()
        harness.wait_until(self.is_wrapped, "the functions are wrapped")
        pids = {"front": attached.process.pid, "engine": engine_of(attached.process.pid)}
        if len(whom) > 1:
            os.kill(pids["front"], signal.SIGSTOP)  # so that it cannot heal before it is killed
        for name in whom:
            os.kill(pids[name], signal.SIGKILL)
        attached.process.wait(harness.PATIENCE)
        attached.process.stdout.close()

    def test_it_survives_the_death_of_one_and_the_other_clears_away(self):
        for whom in ("front", "engine") * ROUNDS:
            with self.subTest(whom):
                self.kill(whom)
                harness.wait_until(self.load.is_clean, "code and mappings are as they were")
                self.load.moves_on()
        self.end()

    def test_it_survives_the_death_of_both_and_is_repaired(self):
        for _ in range(ROUNDS):
            self.kill("engine", "front")
            self.load.moves_on()
            self.assertTrue(self.is_wrapped())
            said = self.repair()
            self.load.moves_on()
            # What a stack shows may be older than its calls.
            harness.wait_until(lambda: "pages of rtrace stay" not in said or "stay" not in self.repair(),
                               "a later repair clears the pages away")
            self.assertTrue(self.load.is_clean(), (said, self.load.foreign()))
        self.end()

    def repair(self, statuses=(0,)):
        done = subprocess.run([harness.RTRACE, "--repair", "-p", str(self.load.pid)], capture_output=True, text=True,
                              timeout=harness.PATIENCE, check=False)
        self.assertIn(done.returncode, statuses, done.stderr)
        return done.stderr

    def die_at(self, moment, both):
        """Attaches, and has rtrace die at that moment, or be ended where it does not come to it."""
        os.environ["RTRACE_DIE_AT"] = moment + (":both" if both else "")
        try:
            rtrace = subprocess.Popen([harness.RTRACE, "-o", "/dev/null"] + self.options + self.leaves + ["-p", str(self.load.pid)],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=harness.environment())
        finally:
            del os.environ["RTRACE_DIE_AT"]
        harness.wait_until(lambda: rtrace.poll() is not None or self.is_wrapped(), "it dies or traces")
        if rtrace.poll() is None:
            self.load.moves_on()
            rtrace.send_signal(signal.SIGINT)
        return rtrace.communicate(timeout=harness.PATIENCE)[1].decode(errors="replace")

    def test_it_survives_a_death_at_any_moment(self):
        for moment in self.moments:
            for both in (False, True):
                said = self.die_at(moment, both)
                with self.subTest(moment=moment, both=both):
                    self.load.moves_on()
                    if both:
                        subprocess.run([harness.RTRACE, "--repair", "-p", str(self.load.pid)], capture_output=True,
                                       timeout=harness.PATIENCE, check=True)
                    harness.wait_until(self.load.is_clean, "nothing is left: " + said, 20)
                    self.load.moves_on()
        self.end()

    def test_the_next_tracer_clears_away_what_a_dead_one_has_left(self):
        self.kill("engine", "front")
        attached = self.attach()
        harness.wait_until(self.is_wrapped, "the functions are wrapped")
        self.load.moves_on()
        result = attached.stop()
        self.assertEqual(result.status, 0, result)
        self.assertIn("a tracer died in it", result.stderr)
        harness.wait_until(self.load.is_clean, "code and mappings are as they were")
        self.end()


class ThroughPadding(UnderLoad):
    """memcpy(), whose fourth byte mempcpy() jumps to: a short jump at its entry, to one in the padding near it."""
    leaves = LEAVES + ["-x", "memcpy@libc.so.*"]
    moments = ["detach:1"] + ["byte-write:%d" % n for n in range(1, 16)]

    def is_wrapped(self):
        near, short = jumps(self.load.pid)
        return len(short) > 0 and len(near) == 2 + len(short)

    def park_between_the_jumps(self):
        """A thread has made the short one, and not yet the other; the process is stopped."""
        near, short = jumps(self.load.pid)
        with open("/proc/%d/mem" % self.load.pid, "rb", buffering=0) as memory:
            distances = [memory.seek(at + 1) and int.from_bytes(memory.read(1), "little", signed=True) for at in short]
        hops = {at + 2 + distance for at, distance in zip(short, distances)}
        self.assertLessEqual(hops, set(near))
        thread = sorted(os.listdir("/proc/%d/task" % self.load.pid), key=int)[1]  # of those that only call
        for hop in hops:  # of two memcpy() the program uses one
            done = subprocess.run([harness.target("park"), thread, "%x" % hop], capture_output=True, text=True,
                                  timeout=harness.PATIENCE, check=False)
            if done.returncode == 0:
                return thread, hop
        self.fail("no thread came by: " + done.stderr)

    def test_who_stands_between_the_jumps_finds_the_other(self):
        self.kill("engine", "front")
        thread, hop = self.park_between_the_jumps()
        # Perhaps not all: it is stopped, and cannot be led out.
        said = self.repair((0, 1))
        near, short = jumps(self.load.pid)
        self.assertEqual(short, [], said)
        pc = int(harness.read_text("/proc/%d/task/%s/syscall" % (self.load.pid, thread)).split()[-1], 16)
        self.assertEqual(hop in near, pc == hop, (said, hex(pc)))
        os.kill(self.load.pid, signal.SIGCONT)
        self.load.moves_on()
        harness.wait_until(lambda: "stay" not in self.repair() and self.load.is_clean(), "nothing is left")
        self.end()


class RecordedUnderLoad(UnderLoad):
    """Each call, of which none is selected for output."""
    options = RECORDING


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        ROUNDS = int(sys.argv.pop(1))
    unittest.main()
