#!/usr/bin/python3
"""Moments at which a tracer and its tracee get in each other's way, each brought about on purpose."""
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

import harness
from leaving_test import kill_both
from survival_test import engine_of

ROUNDS = int(os.environ.get("RTRACE_ROUNDS", "15"))
ADD = "add@libfixture.so("


def attach(process, *options):
    return harness.Attached(["-F", harness.CONF, *(options or ("-x", "add"))], [process.pid])


class LateSigtrap(unittest.TestCase):
    def check(self, way):
        with harness.Target([harness.target("sigtrap"), way, "50", "later"]) as process:
            process.expect("pid ")
            rtrace = attach(process)
            process.go()
            status = process.finish()[1]
            result = rtrace.end()
            self.assertEqual((status, result.status, result.trace.count(ADD)), (0, 0, 50), result)
            return result.trace.count("--- SIGTRAP")

    def test_a_handler_set_after_the_attach_is_kept(self):
        self.assertEqual(self.check("handler"), 100)

    def test_sigtrap_ignored_after_the_attach_stays_ignored(self):
        self.check("ignored")

    def test_sigtrap_blocked_after_the_attach_stays_blocked(self):
        self.assertEqual(self.check("blocked"), 0)


class IgnoredByOneOfSeveral(unittest.TestCase):
    """Having a signal ignored discards what is pending of it in all threads: the SIGTRAP of a hit among it."""

    SCRIPT = """
import os, signal, sys, threading
signal.signal(signal.SIGTRAP, signal.SIG_IGN)
ready = threading.Barrier(2)
def call():
    for number in range(1000):
        os.getppid()
    ready.wait()
    threading.Event().wait()
threading.Thread(target=call, daemon=True).start()
ready.wait()
os.getppid()
if sys.argv[1] == "wait":
    print("pid", flush=True)
    sys.exit(0 if sys.stdin.readline() else 1)
show = ["grep", "SigIgn", "/proc/self/status"]
if sys.argv[1] == "exec":
    os.execvp(show[0], show)
if sys.argv[1] == "static":
    os.execv(sys.argv[2], sys.argv[2:])
if sys.argv[1] == "spawn":
    os.waitpid(os.posix_spawnp(show[0], show, os.environ, setsigdef=[signal.SIGTRAP]), 0)
    sys.exit()
child = os.fork()
if child == 0:
    os.execvp(show[0], show)
os.waitpid(child, 0)
"""

    @staticmethod
    def is_ignored(status):
        return int(re.search(r"SigIgn:\s+(\w+)", status).group(1), 16) >> (signal.SIGTRAP - 1) & 1 == 1

    def test_the_next_program_and_a_child_ignore_it_too(self):
        for how, options in (("exec", []), ("fork", []), ("fork", ["-f"])):
            with self.subTest(how=how, options=options):
                result = harness.run([*options, "-c", "-x", "getppid", "--", "/usr/bin/python3", "-c", self.SCRIPT, how])
                self.assertEqual(result.status, 0, result)
                self.assertTrue(self.is_ignored(result.stdout), result)

    def test_a_static_program_ignores_it_too(self):
        words = harness.invocation(["-c", "-o", os.devnull, "-x", "getppid", "--", "/usr/bin/python3", "-c", self.SCRIPT,
                                    "static", harness.target("waits_static"), "1"])
        with harness.Target(words) as rtrace:
            rtrace.go()
            rtrace.expect("done")
            child, = [int(pid) for pid in harness.read_text("/proc/%d/task/%d/children" % (rtrace.pid, rtrace.pid)).split()
                      if int(pid) != engine_of(rtrace.pid)]
            self.assertTrue(self.is_ignored(harness.read_text("/proc/%d/status" % child)))

    def test_a_child_that_is_spawned_to_have_the_default_has_it(self):
        for options in ((), ("-f",)):
            result = harness.run([*options, "-c", "-x", "getppid", "--", "/usr/bin/python3", "-c", self.SCRIPT, "spawn"])
            self.assertEqual(result.status, 0, result)
            self.assertFalse(self.is_ignored(result.stdout), result)

    def test_where_the_engine_is_killed_it_is_ignored_again(self):
        words = harness.invocation(["-o", os.devnull, "-x", "getppid", "--", "/usr/bin/python3", "-c", self.SCRIPT, "wait"])
        with harness.Target(words) as rtrace:
            rtrace.expect("pid")
            engine = engine_of(rtrace.pid)
            child, = [int(pid) for pid in harness.read_text("/proc/%d/task/%d/children" % (rtrace.pid, rtrace.pid)).split()
                      if int(pid) != engine]
            status = "/proc/%d/status" % child
            self.assertFalse(self.is_ignored(harness.read_text(status)))
            os.kill(engine, signal.SIGKILL)
            harness.wait_until(lambda: self.is_ignored(harness.read_text(status)), "it is ignored again")
            os.kill(child, signal.SIGTRAP)
            rtrace.go()
            self.assertEqual(rtrace.finish()[1], 1)  # the engine has died

    def launched(self, *arguments):
        for _ in range(ROUNDS // 5):
            result = harness.run(["-c", "-x", "add", "-F", harness.CONF, "--", harness.target("ignores"), *arguments])
            self.assertEqual(result.status, 0, result)
            yield result.stdout.split()[-1]

    def test_threads_that_are_in_probes_meanwhile_are_unharmed(self):
        self.assertEqual(set(self.launched("100")), {"ignored"})

    def test_nor_where_it_is_ignored_by_turns(self):
        self.assertEqual(set(self.launched("100", "default")), {"default"})

    def test_a_handler_that_is_taken_back_is_not_there_any_more(self):
        self.assertEqual(set(self.launched("30", "handler")), {"default"})

    def test_ignored_from_the_start_it_is_so_after_the_detach(self):
        with harness.Target(["env", "--ignore-signal=SIGTRAP", harness.target("ignores"), "0"]) as process:
            process.expect("pid ")
            for _ in range(ROUNDS // 3):
                rtrace = attach(process)
                harness.wait_until(lambda: len(rtrace.lines_so_far()) > 50, "calls are seen")
                self.assertEqual(rtrace.stop().status, 0)
                self.assertTrue(self.is_ignored(harness.read_text("/proc/%d/status" % process.pid)))
            process.go()
            rest, status = process.finish()
            self.assertEqual((status, rest.split()[-1]), (0, "ignored"))


class AttachedInAHandler(unittest.TestCase):
    def test_sigtrap_that_was_blocked_for_its_handler_alone_is_not_blocked_behind_it(self):
        with harness.Target([harness.target("in_handler"), "30"]) as process:
            process.expect("inside")
            rtrace = attach(process)
            process.go()
            self.assertEqual(process.finish()[1], 0)
            result = rtrace.end()
            self.assertEqual((result.status, result.trace.count(ADD)), (0, 30), result)


class FaultingInstructions(unittest.TestCase):
    """The displaced instruction itself faults; the handler goes by si_addr and rip, and must find its own."""
    COUNT = 40

    def check(self, way, function, call):
        # At the entry and, beside it, after the return.
        result = harness.run(["-b", "-x", function, "--", harness.target("faults"), way, str(self.COUNT)])
        self.assertEqual(result.status, 0, result)
        self.assertEqual(sum(line.startswith(call) for line in result.lines), self.COUNT, result)
        return result

    def test_a_handler_that_repairs_the_pointer_runs_the_instruction_again_and_that_is_no_new_call(self):
        result = self.check("fix", "peek", "peek(")
        self.assertEqual(result.trace.count("= 42"), self.COUNT, result)

    def test_a_handler_that_steps_over_the_instruction(self):
        result = self.check("skip", "peek", "peek(")
        self.assertEqual(result.trace.count("= 42"), self.COUNT, result)

    def test_a_handler_that_leaves_by_siglongjmp(self):
        result = self.check("leave", "peek", "peek(")
        self.assertEqual(result.trace.count("<no return ...>"), self.COUNT, result)

    def test_a_division_by_zero(self):
        self.check("divide", "quotient", "quotient(")

    def test_an_invalid_instruction(self):
        self.check("illegal", "invalid", "invalid(")


class Vfork(unittest.TestCase):
    """A vfork parent sleeps in state D: it stops for nobody until its child is gone."""

    def test_attach_and_detach_do_not_wait_for_it_and_the_child_is_unharmed(self):
        with harness.Target([harness.target("vforks")]) as process:
            process.expect("child")
            harness.wait_until(lambda: harness.state(process.pid) == "D", "the parent sleeps")
            for _ in range(3):
                begin = time.monotonic()
                result = attach(process).stop()
                self.assertEqual(result.status, 0, result)
                self.assertLess(time.monotonic() - begin, 10)
                self.assertEqual(harness.altered_code(process.pid), [])
            process.go()
            process.expect("collected")
            process.go()
            process.expect("done")
            process.process.stdin.close()
            self.assertEqual(process.process.wait(harness.PATIENCE), 0)

    def test_both_processes_of_rtrace_killed_while_it_sleeps(self):
        with harness.Target([harness.target("vforks")]) as process:
            process.expect("child")
            harness.wait_until(lambda: harness.state(process.pid) == "D", "the parent sleeps")
            kill_both(attach(process, "-e", "add"))  # whose first instruction could be emulated
            process.go()
            process.expect("collected")
            process.go()
            process.expect("done")
            process.process.stdin.close()
            self.assertEqual(process.process.wait(harness.PATIENCE), 0)

    def test_a_repair_says_that_code_on_loan_stays_until_the_child_is_gone(self):
        with harness.Target([harness.target("vforks"), "later"]) as process:
            process.expect("pid")
            os.environ["RTRACE_DIE_AT"] = "remote-call:1:both"
            try:
                with self.assertRaisesRegex(harness.Failure, "never ready"):
                    attach(process)
            finally:
                del os.environ["RTRACE_DIE_AT"]
            harness.wait_until(lambda: harness.tracer(process.pid) == 0, "no tracer is left")
            process.go()
            process.expect("child")
            lent = harness.altered_code(process.pid)
            self.assertEqual(len(lent), 1)
            repaired = harness.run(["--repair", "-p", str(process.pid)], separate=False)
            self.assertEqual(repaired.status, 1, repaired)
            self.assertIn("0 places in its code put back; 1 could not be yet: a child of it runs in its memory",
                          repaired.stderr)
            self.assertEqual(harness.altered_code(process.pid), lent)
            process.go()
            process.expect("collected")
            repaired = harness.run(["--repair", "-p", str(process.pid)], separate=False)
            self.assertEqual(repaired.status, 0, repaired)
            self.assertIn(": 1 place in its code put back\n", repaired.stderr)
            self.assertEqual(harness.altered_code(process.pid), [])
            process.process.stdin.close()
            self.assertEqual(process.process.wait(harness.PATIENCE), 0)

    def test_attached_while_it_sleeps_it_is_traced_once_it_wakes(self):
        with harness.Target([harness.target("vforks")]) as process:
            process.expect("child")
            harness.wait_until(lambda: harness.state(process.pid) == "D", "the parent sleeps")
            rtrace = attach(process)
            process.go()
            process.expect("collected")
            for _ in range(3):
                process.go()
                process.expect("done")
            result = rtrace.stop()
            self.assertEqual((result.status, result.trace.count("add@libfixture.so(3, 3)")), (0, 3), result)
            process.process.stdin.close()
            self.assertEqual(process.process.wait(harness.PATIENCE), 0)

    def test_a_detach_while_the_child_of_a_traced_vfork_is_slow(self):
        rtrace = subprocess.Popen([harness.RTRACE, "-x", "add", "-o", "/dev/null", "--", harness.target("vforks")],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                  env=harness.environment())
        try:
            pid = int(rtrace.stdout.readline().split()[1])
            self.assertEqual(rtrace.stdout.readline(), "child\n")
            harness.wait_until(lambda: harness.state(pid) == "D", "the parent sleeps")
            rtrace.send_signal(signal.SIGTERM)
            harness.wait_until(lambda: harness.tracer(pid) == 0 and harness.altered_code(pid) == [], "rtrace has let go")
            rtrace.stdin.write("go\ngo\n")
            self.assertEqual([rtrace.stdout.readline(), rtrace.stdout.readline()], ["collected\n", "done\n"])
        finally:
            rtrace.stdin.close()
            rtrace.stdout.close()
            rtrace.wait(harness.PATIENCE)


class ChildrenOfEveryKind(unittest.TestCase):
    def test_a_clone_without_exec_is_unharmed_with_memory_of_its_own_and_with_the_parent_s(self):
        for way in ("clone", "clonevm"):
            for options, calls in (([], 2), (["-f"], 3)):
                with self.subTest(way=way, options=options):
                    result = harness.run(options + ["-F", harness.CONF, "-x", "add", "--", harness.target("children"),
                                                    way])
                    seen = result.trace.count(ADD)
                    if harness.MECHANISM == "trampoline":  # two tasks, and one thread pointer
                        seen += result.trace.count("1 call lost")
                    self.assertEqual((result.status, seen), (0, calls), result)

    def test_of_many_that_share_one_thread_pointer_no_call_is_taken_for_another_s(self):
        """What the recorder in the process cannot tell apart is lost, and told."""
        for mechanism in ("breakpoint", "trampoline"):
            with self.subTest(mechanism):
                result = harness.run(["-f", "--mechanism=" + mechanism, "-F", harness.CONF, "-x", "add", "--",
                                      harness.target("children"), "clonevms"])
                self.assertEqual(result.status, 0, result)
                ends = re.findall(r"(?:\badd@\S+\((\d), (\d+)\)| add@\S+ resumed> \)) += (\d+)", result.trace)
                self.assertEqual([end for end in ends if end[0] and int(end[0]) + int(end[1]) != int(end[2])], [], result)
                lost = sum(int(count) for count in re.findall(r"--- (\d+) calls? lost: of a task that shares", result.trace))
                self.assertEqual(len(ends) + lost, 9000, result)
                self.assertGreaterEqual(len(ends), 9000 if mechanism == "breakpoint" else 1000, result)

    def test_what_posix_spawn_calls_in_the_child_may_be_traced_in_the_parent(self):
        for options in ([], ["-f"]):
            with self.subTest(options=options):
                result = harness.run(options + ["-F", harness.CONF, "-x", "add", "-x", "execve+sigprocmask+close+_exit",
                                                "--", harness.target("children"), "spawn"])
                self.assertEqual((result.status, result.trace.count(ADD)), (0, 3 if options else 2), result)


class ALeaderThatLeaves(unittest.TestCase):
    def test_what_the_others_call_after_that_is_seen_with_its_strings(self):
        for options in ([], ["--mechanism=breakpoint"]):
            with self.subTest(options=options):
                result = harness.run(options + ["-F", harness.CONF, "-x", "greet", "--", harness.target("leader_leaves"), "50"])
                self.assertEqual((result.status, result.trace.count('greet@libfixture.so("text")')), (0, 50), result)


class Exec(unittest.TestCase):
    """Of what kind the next program is, and which thread becomes it."""

    def traced(self, how, *words, options=()):
        return harness.run([*options, "-F", harness.CONF, "-x", "add", "--", harness.target("execs"), how, *words])

    def test_a_thread_becomes_another_program_which_is_traced(self):
        for options in ([], ["-f"]):
            with self.subTest(options=options):
                result = self.traced("thread", harness.target("children"), "leaf", options=options)
                self.assertEqual((result.status, result.trace.count(ADD)), (7, 2), result)
                self.assertIn("--- Called exec() ---", result.trace)

    def test_one_that_begins_while_the_process_is_attached_to_holds_nobody_up_and_is_traced(self):
        """The thread that calls exec may be seized already or not; the others end, and exec waits until that is taken."""
        for number in range(ROUNDS):
            options = (["--mechanism=trampoline"], ["-f"], ["-c"], [])[number % 4]
            wanted = "add@libfixture.so\n" if "-c" in options else ADD + "2, 2)"
            program = harness.target("execs")
            with harness.Target([program, "traced", program, "told"]) as process:
                attached = harness.Attached([*options, "-F", harness.CONF, "-x", "add"], [process.pid])
                process.go()
                status = process.finish()[1]
                result = attached.end()
                self.assertEqual((status, result.trace.count(wanted)), (7, 1), result)

    def attach_while_it_execs(self, how):
        with tempfile.NamedTemporaryFile() as board:
            board.write(b"\0")
            board.flush()
            with harness.Target([harness.target("execs"), how, board.name]) as process:
                for _ in range(4 * ROUNDS):
                    result = harness.Attached(["--mechanism=breakpoint", "-x", "main", "-e", "add"], [process.pid]).stop()
                    self.assertEqual((result.status, process.process.poll()), (0, None), result)
                    self.assertNotIn("not ours", result.stderr)
                    self.assertNotIn("for now only the main program", result.stderr)  # its dynamic linker has not begun yet
                board.seek(0)
                board.write(b"1")
                board.flush()
                self.assertEqual(process.finish()[1], 7)

    def test_what_is_attached_to_in_the_midst_of_it_has_one_set_of_probes(self):
        """Its memory is the new program's already, and that it has begun is still to be told."""
        self.attach_while_it_execs("again")

    def test_what_has_another_first_thread_all_the_time_is_attached_to(self):
        self.attach_while_it_execs("hop")

    def test_a_program_becomes_a_static_one(self):
        for how in ("self", "thread"):
            for options in ([], ["-f"]):
                with self.subTest(how=how, options=options):
                    result = self.traced(how, harness.target("tiny64"), options=(*options, "-x", "tiny_work"))
                    self.assertEqual(result.status, 7, result)
                    self.assertRegex(result.trace, r"tiny_work\(5\b.*\) += 7\b")

    @unittest.skipUnless(harness.runs_here("tiny32"), "this kernel runs no programs for 32 bits")
    def test_a_program_becomes_one_for_32_bits_which_runs_on_untraced_and_that_is_said(self):
        for how in ("self", "thread"):
            for options in ([], ["-f"]):
                with self.subTest(how=how, options=options):
                    result = self.traced(how, harness.target("tiny32"), options=options)
                    self.assertEqual((result.status, result.trace.count(ADD)), (7, 1), result)
                    self.assertRegex(result.stderr, r"tiny32.*untraced: .*32")

    @unittest.skipUnless(harness.runs_here("tiny32"), "this kernel runs no programs for 32 bits")
    def test_so_it_does_behind_a_call_about_sigtrap(self):
        result = harness.run(["-x", "add", "--", "env", "--ignore-signal=TRAP", harness.target("tiny32")])
        self.assertEqual(result.status, 7, result)
        self.assertRegex(result.stderr, r"tiny32.*untraced: .*32")

    def test_a_child_of_any_kind_leaves_the_parent_traced(self):
        for program in ("tiny32", "tiny64") if harness.runs_here("tiny32") else ("tiny64",):
            for options in ([], ["-f"]):
                with self.subTest(program=program, options=options):
                    result = self.traced("child", harness.target(program), options=options)
                    self.assertEqual((result.status, result.trace.count(ADD)), (0, 2), result)

    @unittest.skipUnless(harness.runs_here("tiny32"), "this kernel runs no programs for 32 bits")
    def test_attaching_to_a_program_for_32_bits_says_so_and_leaves_it_alone(self):
        with harness.Target([harness.target("tiny32"), "wait"]) as process:
            process.expect("pid")
            result = harness.run(["-x", "add", "-p", str(process.pid)])
            self.assertEqual(result.status, 1, result)
            self.assertRegex(result.stderr, r"cannot attach to \d+ \(tiny32\): .*32")
            self.assertEqual(harness.tracer(process.pid), 0)
            process.go()
            self.assertEqual(process.finish()[1], 7)


if __name__ == "__main__":
    unittest.main()
