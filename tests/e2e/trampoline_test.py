#!/usr/bin/python3
"""Calls that are counted inside the process: --mechanism=trampoline with -c."""
import os
import re
import signal
import subprocess
import tempfile
import unittest

import harness
import json_lines
from survival_test import engine_of

COUNTING = ["-c", "--mechanism=trampoline"]
LEAVES = ["-x", "strtol@libc.so.*", "-x", "labs@libc.so.*"]
ROUNDS = int(os.environ.get("RTRACE_ROUNDS", "15"))
NAMES = ("strtol@libc.so.6", "labs@libc.so.6")


def traced(way, count, arguments=()):
    words = COUNTING + LEAVES + list(arguments) + [harness.target("counts"), way, str(count)]
    result = harness.run(words)
    return result, harness.Summary(result.trace)


def breakpoints_said(stderr):
    return re.findall(r"^rtrace: (\S+): a breakpoint, no trampoline: (.*)$", stderr, re.M)


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

    def test_a_program_that_may_not_read_the_time_stamp_counter_lives_and_counts(self):
        untraced = subprocess.run([harness.target("counts"), "clock-read", "1"]).returncode
        self.assertIn(untraced, (0, -signal.SIGSEGV))  # some hypervisors let it be read all the same
        for way in ("clockless", "strict"):
            with self.subTest(way):
                result, _ = self.expect(way, 300, 300, 300)
                self.assertEqual(len(re.findall(r"(?m)^rtrace: process \d+ may not read the time stamp counter: ",
                                                result.stderr)), int(untraced != 0), result)
                result = harness.run(["--mechanism=trampoline"] + LEAVES + [harness.target("counts"), way, "300"])
                self.assertEqual((result.status, result.trace.count("labs@libc.so.6(")), (0, 300), result.stderr)

    def test_a_handler_may_leave_a_wrapped_call_for_good(self):
        result, summary = traced("leaving", 3000000)
        ticks = int(re.search(r"ticks (\d+)", result.stdout).group(1))
        self.assertEqual(result.status, 0, result)
        self.assertEqual(summary.rows[NAMES[1]]["calls"], ticks, result)
        # A call that was left is made again.
        self.assertTrue(3000000 <= summary.rows[NAMES[0]]["calls"] <= 3000000 + ticks, result)

    def test_children_that_a_handler_forks_in_the_midst_of_a_wrapped_call_live(self):
        """They return into it from the handler: what the recorder knew is gone."""
        for options in (COUNTING, ["--mechanism=trampoline", "--where", "dur > 3600s"]):
            with self.subTest(options):
                result = harness.run(options + ["-x", "labs@libc.so.*", harness.target("counts"), "forking", "800"])
                self.assertEqual(result.status, 0, result)
                self.assertIn("forks 800 died 0\n", result.stdout, result)
                self.assertEqual(breakpoints_said(result.stderr), [], result)
                # Those between two forks take 300 us.
                if options == COUNTING:
                    self.assertGreater(harness.Summary(result.trace).rows[NAMES[1]]["calls"], 100000, result)

    def test_children_that_a_handler_forks_in_the_midst_of_the_first_wrapped_call_live(self):
        """There the thread is given its records, which the child has none of."""
        for _ in range(ROUNDS):
            result = harness.run(["--mechanism=trampoline", "--where", "dur > 3600s", "-x", "labs@libc.so.*",
                                  harness.target("counts"), "forking", "3"])
            self.assertEqual((result.status, result.stdout), (0, "forks 3 died 0\n"), result)

    def test_children_that_a_handler_forks_as_a_failure_is_counted_live(self):
        """Whose errno it is the recorder's memory does not tell them."""
        for follow in ([], ["-f"]):
            with self.subTest(follow):
                result = harness.run(COUNTING + follow + ["-x", "sem_trywait@libc.so.*",
                                                          harness.target("counts"), "forking-failing", "800"])
                self.assertEqual((result.status, result.stdout), (0, "forks 800 died 0\n"), result)

    def test_children_that_a_handler_above_what_it_interrupts_forks_live(self):
        """Its own stack lies in the same mapping: what leads back into the wrapper lies below."""
        result = harness.run(COUNTING + ["-x", "strtol@libc.so.*", harness.target("counts"), "forking-above", "800"])
        self.assertEqual((result.status, result.stdout), (0, "forks 800 died 0\n"), result)

    def test_a_program_that_may_not_read_the_time_stamp_counter_is_left_in_the_midst_of_a_call(self):
        for options in (COUNTING, ["--mechanism=trampoline"]):
            with self.subTest(options), harness.Target([harness.target("counts"), "clockless-reading", "4"]) as process:
                process.expect("reading")
                attached = harness.Attached(options + ["-x", "read@libc.so.*"], [process.pid])
                for _ in range(2):
                    process.process.stdin.write("x")
                    process.process.stdin.flush()
                    process.expect("reading")
                harness.wait_until(lambda: harness.state(process.pid) == "S", "it reads")
                attached.stop()
                process.process.stdin.write("xx")
                self.assertEqual(process.finish()[1], 0)

    def test_children_that_a_handler_forks_while_rtrace_leaves_live(self):
        """Nobody sees them, and what they return into is the recorder's code still."""
        for options in (COUNTING, ["--mechanism=trampoline", "--where", "dur > 3600s"]):
            with self.subTest(options), harness.Target([harness.target("counts"), "forking", "1000000"]) as process:
                for _ in range(ROUNDS):
                    harness.Attached(options + ["-x", "labs@libc.so.*"], [process.pid]).stop()
                os.kill(process.pid, signal.SIGUSR1)
                said, status = process.finish()
                self.assertEqual(status, 0, said)
                self.assertRegex(said, r"forks \d+ died 0\n")

    def test_children_that_a_handler_forks_when_the_engine_is_dead_live(self):
        """Nobody leads them back; where the recorder's memory says nothing any more, it records nothing."""
        for options in (COUNTING, ["--mechanism=trampoline", "--where", "dur > 3600s"]):
            with self.subTest(options), harness.Target([harness.target("counts"), "forking", "1000000"]) as process:
                for _ in range(ROUNDS // 3):
                    attached = harness.Attached(options + ["-x", "labs@libc.so.*"], [process.pid])
                    os.kill(engine_of(attached.process.pid), signal.SIGKILL)
                    attached.process.wait(harness.PATIENCE)
                    attached.process.stdout.close()
                os.kill(process.pid, signal.SIGUSR1)
                said, status = process.finish()
                self.assertEqual(status, 0, said)
                self.assertRegex(said, r"forks \d+ died 0\n")

    def test_a_limited_address_space_is_left_to_the_program(self):
        result = harness.run(["--mechanism=trampoline", *LEAVES, "--", "sh", "-c", "ulimit -v 1500000; exec \"$@\"", "sh",
                              harness.target("counts"), "plain", "100"])
        self.assertEqual((result.status, result.trace.count("labs@libc")), (0, 100), result)
        said = breakpoints_said(result.stderr)
        self.assertEqual(sorted(name for name, _ in said), sorted(NAMES), result)
        for _, reason in said:
            self.assertIn("RLIMIT_AS", reason)

    def test_memory_that_would_be_locked_is_not_taken(self):
        with harness.Target([harness.target("repeats"), "add", "locked"]) as process:
            process.expect("pid ")
            rtrace = harness.Attached(["-F", harness.CONF, "--mechanism=trampoline", "-x", "add"], [process.pid])
            process.process.stdin.write("100\n")
            process.expect("done ")
            self.assertLess(int(harness.status_field(process.pid, "VmRSS").split()[0]), 100 << 10)
            result = rtrace.stop()
        self.assertEqual((result.status, result.trace.count("add@libfixture.so(")), (0, 100), result)
        self.assertIn("mlockall", result.stderr)

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

    def test_it_waits_for_no_luck_with_where_the_threads_stand(self):
        """On one processor a thread that is let run from the breakpoint often stands in its copy still."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(before)})
        self.addCleanup(os.sched_setaffinity, 0, before)
        for _ in range(20):
            result = harness.run(["-D", "session:1", "--summary", "-x", "labs@libc.so.*", harness.target("counts"),
                                  "plain", "5000"])
            self.assertIn("trampolines since they were called often", result.trace, result)
            self.assertNotIn("no trampoline at", result.stderr, result)
            self.assertEqual(harness.Summary(result.trace).rows[NAMES[1]]["calls"], 5000, result)

    def test_what_is_declined_is_said_with_its_reason_and_counted_all_the_same(self):
        words = ["-q", "-F", harness.CONF, "-x", "fork@libc.so.*", "-x", "dlsym@libc.so.*", "-x", "_init"]
        result = harness.run(COUNTING + words + LEAVES + [harness.target("counts"), "ticking", "10"])
        summary = harness.Summary(result.trace)
        said = dict(breakpoints_said(result.stderr))
        self.assertEqual(sorted(said), ["_init", "dlsym@libc.so.6", "fork@libc.so.6"], result)
        self.assertIn("returns in two processes", said["fork@libc.so.6"])
        self.assertIn("goes by who calls it", said["dlsym@libc.so.6"])
        self.assertIn("no prototype is known", said["_init"])
        self.assertEqual(summary.rows["_init"]["calls"], 1, result)
        self.assertEqual(summary.rows[NAMES[0]]["calls"], 10, result)

    def test_a_function_that_goes_on_in_one_that_goes_by_its_caller_is_declined(self):
        for name in ("finds_next", "finds_next_noplt"):
            result = harness.run(["--mechanism=trampoline", "--explain", "-o", "/dev/null", "-x", "find_next", "--", harness.target(name), "500"])
            self.assertEqual((result.status, result.stdout), (0, "500\n"), result)
            self.assertIn("it goes on in dlsym: it goes by who calls it", result.stderr)

    def test_a_function_whose_second_instruction_a_table_leads_to_does_as_before(self):
        conf = os.path.join(harness.HERE, "targets", "operations.conf")
        for name in ("operations", "operations_exec"):
            result = harness.run(["-F", conf, "-c", "--mechanism=trampoline", "-x", "interpret", "--", harness.target(name), "500"])
            self.assertEqual((result.status, result.stdout), (0, "1500\n"), result)
            self.assertEqual(harness.Summary(result.trace).calls(), {"interpret": 500})

    def test_a_function_whose_code_leads_behind_its_end_where_it_never_returns_is_wrapped(self):
        conf = os.path.join(harness.HERE, "targets", "never_back.conf")
        result = harness.run(["-F", conf, "-c", "--mechanism=trampoline", "-x", "takes", "--", harness.target("never_back"), "5"])
        self.assertEqual(result.status, 20, result)
        self.assertEqual(harness.Summary(result.trace).calls(), {"takes": 5})
        self.assertIn("1 trampoline, 0 breakpoints", result.stderr)

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


class FaultingWhereTheyWereMoved(unittest.TestCase):
    """Handlers see the program's own code, may throw, and come back to what was moved."""

    def check(self, mechanism, options):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf, \
                harness.Target([harness.target("faulting")]) as process:
            conf.write("long first(addr);\nlong second(addr);\n")
            conf.flush()

            def go(way):
                process.process.stdin.write(way + "\n")
                process.process.stdin.flush()
                process.expect("seen 20 right 20 of 20\n")

            def each_way():
                for way in ("throw", "retry", "skip", "throw", "retry"):
                    go(way)

            def jumps():
                go("retry")
                self.before += 1
                return 2 == sum(now == 0xe9 != own for path, _, _, here, there in harness.mapped_code(process.pid)
                                for now, own in zip(here, there) if path.endswith("/faulting"))
            process.expect("pid ")
            rtrace = harness.Attached(["-b", "-F", conf.name, "--mechanism=" + mechanism, *options,
                                       "-x", "first", "-x", "second"], [process.pid])
            self.before = 0
            if mechanism == "trampoline":
                harness.wait_until(jumps, "both are wrapped")
            each_way()
            result = rtrace.stop()
            each_way()
            process.process.stdin.close()
            self.assertEqual((result.status, process.process.wait(harness.PATIENCE)), (0, 0), result)
        return result

    def test_of_calls_that_are_shown(self):
        for mechanism in ("trampoline", "auto", "breakpoint"):
            with self.subTest(mechanism=mechanism):
                result = self.check(mechanism, [])
                for name in ("first", "second"):
                    self.assertEqual(len(re.findall(r"^%s\(" % name, result.trace, re.M)), 50 + 10 * self.before, result)
                self.assertEqual(result.trace.count("<no return ...>"), 40, result)
                self.assertEqual(result.trace.count("= 42"), 40 + 20 * self.before, result)

    def test_of_calls_that_are_counted(self):
        table = harness.Summary(self.check("trampoline", ["-c"]).trace)
        self.assertEqual([table.rows[name]["calls"] for name in ("first", "second")], [50 + 10 * self.before] * 2)


class InAnInterpretersLoop(unittest.TestCase):
    """What is called there returns to where all else does."""
    BLOCKS, INSIDE = 50, 2000

    def check(self, mechanism):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("int op_block(int);\n")
            conf.flush()
            result = harness.run(["-F", conf.name, "--mechanism=" + mechanism, "-x", "op_block",
                                  harness.target("interpreter"), str(self.BLOCKS)])
        self.assertEqual((result.status, result.trace.count("op_block(7) ")), (0, self.BLOCKS), result)
        self.assertIn("value 7\n", result.stdout)
        return result, int(re.search(r"waits (\d+)", result.stdout).group(1))

    def test_a_function_there_becomes_a_trampoline_though_it_is_called_seldom(self):
        _, waits = self.check("auto")
        self.assertLess(waits, self.BLOCKS * self.INSIDE / 4)

    def test_by_a_breakpoint_it_is_said_what_that_costs(self):
        result, waits = self.check("breakpoint")
        self.assertGreater(waits, self.BLOCKS * self.INSIDE)
        self.assertRegex(result.stderr, "op_block: other calls return to the same place all the time")
        self.assertEqual(result.stderr.count("all the time"), 1, result)


class Nested(unittest.TestCase):
    COUNT = 400

    def test_no_call_is_shorter_than_those_inside_of_it(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("int mid(int);\nint out(int);\n")  # leaf, of which nothing is known, stays a breakpoint
            conf.flush()
            for mechanism in ("auto", "trampoline"):
                with self.subTest(mechanism):
                    result = harness.run(["--mechanism=" + mechanism, "--json", "-F", conf.name, "-x", "leaf+mid+out@MAIN",
                                          "--", harness.target("nest"), str(self.COUNT)])
                    self.assertEqual(result.status, 0, result)
                    took = {"leaf": {}, "mid": {}, "out": {}}
                    for call in json_lines.Lines(result.trace).calls:
                        took[call["name"]][int(call["args"][0]["text"])] = call["dur"]
                    for number in range(self.COUNT):
                        self.assertGreaterEqual(took["out"][number], took["mid"][number], number)
                        self.assertGreaterEqual(took["mid"][number], took["leaf"][number], number)

    def test_nor_is_a_sum_of_them(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("int mid(int);\nint out(int);\nint main(int, addr);\n")
            conf.flush()
            result = harness.run(["--mechanism=trampoline", "-c", "-F", conf.name, "-x", "mid+out+main@MAIN",
                                  "--", harness.target("nest"), "300000"])
        self.assertEqual(result.status, 0, result)
        rows = harness.Summary(result.trace).rows
        took = [float(rows[name]["seconds"]) for name in ("main", "out", "mid")]
        self.assertEqual(took, sorted(took, reverse=True))


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


class Crowd(unittest.TestCase):
    """What threads record all the time keeps nobody waiting who records nothing."""
    def test_threads_are_made_beside_others_whose_rings_are_full(self):
        for output in ([], ["--json"]):
            with self.subTest(output=output):
                result = harness.run([*output, "-o", "/dev/null", "--mechanism=trampoline", "-x", "labs@libc.so.*",
                                      harness.target("crowd"), "12", "24"], separate=False)
                self.assertEqual(result.status, 0, result)
                # Each fills its ring in some 3000; the next event of another comes behind one ring, not behind all of them.
                self.assertLess(int(result.stdout), 40000, result)

    def test_a_call_of_a_thread_that_ends_as_the_next_one_begins_is_seen(self):
        result = harness.run(["--mechanism=trampoline", "-e", "labs+llabs+getcontext@MAIN", harness.target("crowd"), "2",
                              "600"])
        self.assertEqual(result.status, 0, result.stderr)
        self.assertRegex(result.stderr, "getcontext: a breakpoint")
        seen = {int(number) for number in re.findall(r"->llabs\((\d+)", result.trace)}
        self.assertEqual(set(range(1, 601)) - seen, set())


class LateStacks(unittest.TestCase):
    def test_no_code_changes_under_a_thread_whose_stack_was_mapped_since_the_last_look(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("int victim(addr);\nint warm(int);\n")
            conf.flush()
            result = harness.run(["-F", conf.name, "--mechanism=auto", "--explain", "-x", "victim+warm",
                                  harness.target("late_stack")])
        self.assertEqual((result.status, result.stdout), (0, "8\n"), result.stderr)
        for name in ("warm", "victim"):
            self.assertRegex(result.stderr, "%s at 0x[0-9a-f]+: trampoline; " % name)


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


if __name__ == "__main__":
    unittest.main()
