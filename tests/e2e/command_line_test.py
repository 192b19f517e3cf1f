#!/usr/bin/python3
"""The command line: errors, where output goes, who the program runs as, what is said when nothing matched."""
import os
import re
import signal
import subprocess
import tempfile
import unittest

import harness
from survival_test import engine_of


def program(*words):
    return ["--", harness.target("entries")] + list(words)


class UsageErrors(unittest.TestCase):
    ROWS = [
        (["--entrey=add"], "--entrey", "--entry"),
        (["--summary-onyl"], "--summary-onyl", "--summary-only"),
        (["-Z"], "-Z", ""),
        (["-x"], "-x", ""),
        (["-s", "many"], "many", ""),
        (["-a", "12monkeys"], "12monkeys", ""),
        (["-p", "none"], "none", ""),
        (["-x", "/[/"], "[", ""),
        ([], "", ""),
    ]

    def test_one_line_with_the_offending_word_and_a_hint_status_1_and_nothing_traced(self):
        for arguments, word, hint in self.ROWS:
            with self.subTest(arguments=arguments):
                command = program("add", "1") if arguments and arguments != ["-x"] else []
                result = harness.run(arguments + command, separate=False)
                self.assertEqual(result.status, 1, result)
                self.assertIn(word, result.stderr)
                self.assertIn(hint, result.stderr)
                self.assertNotIn("exited", result.stderr)
                self.assertLessEqual(len(result.stderr.splitlines()), 3 if word == "[" else 2, result)

    def test_a_pattern_that_does_not_parse_has_a_caret_under_the_place(self):
        result = harness.run(["-x", "add+/(/", *program("add", "1")], separate=False)
        self.assertEqual(result.status, 1, result)
        self.assertRegex(result.stderr, r"(?m)^ *\^")

    def test_a_command_that_is_not_there_is_named(self):
        result = harness.run(["--", "/nonexistent/command"], separate=False)
        self.assertEqual(result.status, 1, result)
        self.assertIn("/nonexistent/command", result.stderr)
        self.assertIn("No such file", result.stderr)


class Help(unittest.TestCase):
    def test_help_fits_one_screen_and_names_every_short_option(self):
        result = harness.run(["-h"], separate=False)
        self.assertEqual(result.status, 0, result)
        text = result.stdout + result.stderr
        self.assertLessEqual(len(text.splitlines()), 60)
        for letter in "abcACDefFgLhilnopqrstTuVx":
            self.assertRegex(text, r"-%s\b" % letter)

    def test_version_is_one_line(self):
        for option in ("-V", "--version"):
            result = harness.run([option], separate=False)
            self.assertEqual(result.status, 0, result)
            self.assertRegex(result.stdout, r"^rtrace \d+\.\d+\.\d+\b")


class Output(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "out")

    def tearDown(self):
        self.folder.cleanup()

    def traced(self, *options):
        result = harness.run(["-F", harness.CONF, "-x", "add", *options, *program("add", "3")], separate=False)
        self.assertEqual(result.status, 0, result)
        return result

    def test_lines_go_to_stderr_by_themselves(self):
        result = self.traced()
        self.assertEqual(result.stderr.count("add@libfixture.so("), 3)
        self.assertEqual(result.stdout, "")

    def test_a_minus_is_standard_output(self):
        self.assertEqual(self.traced("-o", "-").stdout.count("add@libfixture.so("), 3)

    def test_a_bar_pipes_into_a_command_and_waits_for_it(self):
        self.traced("-o", "|grep -c add@ > " + self.path)
        self.assertEqual(harness.read_text(self.path), "3\n")

    def test_of_a_command_that_dies_of_a_signal_too(self):
        result = harness.run(["-o", "|exec >&- 2>&-; sleep 0.2; cat > " + self.path, "-S", "--", "sh", "-c", "kill -9 $$"], separate=False)
        self.assertEqual(result.status, -signal.SIGKILL, result)
        self.assertIn("SIGKILL", harness.read_text(self.path))

    def test_it_may_be_ended_while_that_command_reads_on(self):
        fifo, marker = self.path + ".fifo", self.path + ".marker"
        os.mkfifo(fifo)
        rtrace = subprocess.Popen(harness.invocation(["-o", "|exec cat " + fifo, "-x", "getppid", "--", "touch", marker]),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            harness.wait_until(lambda: os.path.exists(marker), "the program runs")

            def ends():  # the first signal may end the trace, and the next what is waited for behind that
                rtrace.send_signal(signal.SIGTERM)
                return rtrace.poll() is not None
            harness.wait_until(ends, "it has ended")
        finally:
            rtrace.kill()
            rtrace.wait()
            open(fifo, "w").close()

    def test_one_that_cannot_be_run_or_dies_of_a_signal_is_told_of(self):
        for command, why in (("/no/such/program", "could not be run"), ("cat >&2; kill -SEGV $$", "was ended by SIGSEGV")):
            with self.subTest(command=command):
                result = harness.run(["-o", "|" + command, "-x", "getppid", "--", "true"], separate=False)
                self.assertEqual(result.status, 1, result)
                self.assertIn("the command that was to read the output %s\n" % why, result.stderr)
        self.assertEqual(harness.run(["-o", "|exec grep nothing", "-x", "getppid", "--", "true"], separate=False).status, 0)

    def test_a_file_is_replaced_and_with_append_it_grows(self):
        self.traced("-o", self.path)
        self.traced("-o", self.path)
        self.assertEqual(harness.read_text(self.path).count("add@"), 3)
        self.traced("--append", "-o", self.path)
        self.assertEqual(harness.read_text(self.path).count("add@"), 6)

    def test_the_output_file_is_not_open_in_the_program(self):
        result = harness.run(["-o", self.path, "-x", "no_such_function", "--", "/bin/ls", "-l", "/proc/self/fd"],
                             separate=False)
        self.assertEqual(result.status, 0, result)
        self.assertNotIn(self.path, result.stdout)

    def test_a_file_that_cannot_be_written_is_named(self):
        result = harness.run(["-o", "/nonexistent/folder/out", *program("add", "1")], separate=False)
        self.assertEqual(result.status, 1, result)
        self.assertIn("/nonexistent/folder/out", result.stderr)

    def test_a_fifo_that_nobody_reads_is_named_and_waited_for(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            process = subprocess.Popen(harness.invocation(["-o", pipe, "-x", "add", *program("add", "1")]), text=True,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=harness.environment())
            with process:
                try:
                    self.assertEqual(process.stderr.readline(), "rtrace: waiting for a reader of %s\n" % pipe)
                    with open(pipe) as file:
                        self.assertIn("add@libfixture.so(", file.read())
                    self.assertEqual(process.wait(harness.PATIENCE), 0)
                finally:
                    process.kill()

    def test_a_bar_without_a_command_is_an_error(self):
        result = harness.run(["-o", "|", *program("add", "1")])
        self.assertEqual(result.status, 1)
        self.assertIn("-o |: the command is missing", result.stderr)

    def test_a_reader_that_has_gone_ends_the_trace_and_not_the_program(self):
        result = harness.run(["-o", "|head -n 1 > " + self.path, "-F", harness.CONF, "-x", "add",
                              *program("add", "20000")], separate=False)
        self.assertIn(result.status, (0, 1), result)
        self.assertEqual(len(harness.read_text(self.path).splitlines()), 1)


class User(unittest.TestCase):
    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_u_runs_the_command_with_that_user_s_ids_and_groups(self):
        for who, ids in (("nobody", "65534 65534 65534"), ("1234:5678", "1234 5678 5678"), ("0:5678", "0 5678 5678")):
            result = harness.run(["-x", "no_such_function", "-u", who, "--", "/bin/sh", "-c",
                                  'echo "$(id -u) $(id -g) $(id -G)"'])
            self.assertEqual(result.status, 0, result)
            self.assertEqual(result.stdout.strip(), ids)

    def test_a_user_who_does_not_exist_is_an_error(self):
        for who in ("no-such-user-here", "+0", " 0", "4294967296", "4294967295", "--help", "0:x", "root:0"):
            result = harness.run(["-u", who, *program("add", "1")], separate=False)
            self.assertEqual(result.status, 1, result)
            self.assertIn("-u " + who, result.stderr)


class NothingMatched(unittest.TestCase):
    def test_a_pattern_that_never_matched_is_reported_with_near_names(self):
        result = harness.run(["-x", "alias_c", *program("add", "1")])
        self.assertEqual(result.status, 0, result)
        self.assertRegex(result.stderr, r"alias_c")
        self.assertRegex(result.stderr, r"alias_[ab]")

    def test_probes_that_were_armed_and_never_hit_are_reported(self):
        result = harness.run(["-x", "twice", *program("add", "1")])
        self.assertRegex(result.stderr, r"(?s)twice.*libfixture\.so|libfixture\.so.*twice")
        self.assertRegex(result.stderr, r"never hit")

    def test_explain_says_where_each_pattern_matched_and_how_it_is_realised(self):
        result = harness.run(["--explain", "-x", "add", *program("add", "1")])
        self.assertRegex(result.stderr, r"add.*libfixture\.so|libfixture\.so.*add")
        self.assertRegex(result.stderr, r"breakpoint")


class DefaultRule(unittest.TestCase):
    def test_without_patterns_the_main_program_s_calls_are_shown_and_the_caller_is_not(self):
        for name in ("calls_lazy", "calls_now", "calls_ibtplt", "calls_noplt", "calls_stripped"):
            with self.subTest(program=name):
                result = harness.run(["-F", harness.CONF, "--", harness.target(name)])
                calls = [line for line in result.lines if re.match(r"(add|greet|twice)\(", line)]
                self.assertEqual(len(calls), 4, result)
                self.assertNotIn("->", result.trace)

    def test_L_leaves_them_out(self):
        for option in ("-L", "-g", "--no-plt"):
            result = harness.run([option, "-x", "twice", *program("add", "2")])
            self.assertEqual((result.status, result.lines), (0, ["+++ exited (status 0) +++"]), result)

    def test_L_and_no_pattern_leave_nothing_to_trace(self):
        self.assertEqual(harness.run(["-L", *program("add", "2")]).status, 1)

    def test_as_ltrace_that_runs_the_command_all_the_same(self):
        result = harness.run(["--ltrace-compat", "-L", *program("add", "2")])
        self.assertEqual((result.status, result.lines), (0, ["+++ exited (status 0) +++"]), result)

    def test_no_control_character_of_the_command_line_reaches_the_terminal(self):
        strange = "no\033[31msuch\n"
        for arguments in ([strange], ["--" + strange], ["-p", strange], ["-F", strange, "true"], ["-o", "/" + strange + "/x", "true"],
                          ["-u", strange, "true"]):
            with self.subTest(arguments=arguments):
                result = harness.run(arguments, separate=False)
                self.assertEqual(result.status, 1, result)
                self.assertNotIn("\033", result.stderr)
                self.assertRegex(result.stderr, r"^rtrace: .*no\\033\[31msuch")

    def test_x_alone_adds_nothing_to_what_it_names(self):
        result = harness.run(["-x", "twice", "--", harness.target("calls_now")])
        self.assertEqual(len(result.lines), 2, result)


class Surroundings(unittest.TestCase):
    """What rtrace was started with is the command's, and in nobody's way."""

    def under(self, script, *words):
        """A shell's `script` runs "$@" in the end."""
        return subprocess.run(["sh", "-c", script, "sh", *words], capture_output=True, text=True, timeout=harness.PATIENCE,
                              env=harness.environment(), check=False)

    def signals(self, *prefix):
        done = self.under("trap '' HUP INT USR1 PIPE CHLD; exec \"$@\"", *prefix, "grep", "^Sig[BI]", "/proc/self/status")
        return done.stdout.splitlines()

    def test_the_command_ignores_and_blocks_what_rtrace_was_started_with(self):
        plain = self.signals()
        self.assertEqual(len(plain), 2)
        self.assertEqual(self.signals(harness.RTRACE, "-o", "/dev/null", "-x", "labs", "--"), plain)

    def test_an_output_larger_than_files_may_be_is_told_and_the_command_gets_its_SIGXFSZ(self):
        with tempfile.NamedTemporaryFile() as output:
            done = self.under("ulimit -f 1; exec \"$@\"", harness.RTRACE, "-o", output.name, "-F", harness.CONF, "-x", "add",
                              "--", harness.target("entries"), "add", "1000")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("cannot write the output: File too large; detached", done.stderr)
            done = self.under("ulimit -f 1; exec \"$@\"", harness.RTRACE, "-o", "/dev/null", "-x", "labs", "--",
                              "sh", "-c", "head -c 10000 /dev/zero > " + output.name + "; kill -l $?")
            self.assertEqual(done.stdout, "XFSZ\n", done.stderr)

    def test_a_command_is_ready_where_no_pattern_has_matched_yet(self):
        ready, theirs = os.pipe()
        with subprocess.Popen([harness.RTRACE, "--ready-fd=%d" % theirs, "-o", "/dev/null", "-x", "no_such_function", "--", "cat"],
                              stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=[theirs],
                              env=harness.environment()) as process:
            os.close(theirs)
            with os.fdopen(ready, "rb") as told:
                self.assertEqual(told.read(1), b"\n")  # while cat reads
            process.stdin.close()
            self.assertEqual(process.wait(harness.PATIENCE), 0)

    def test_where_SIGCHLD_is_ignored_the_command_s_end_is_told_all_the_same(self):
        done = subprocess.run([harness.RTRACE, "-o", "/dev/null", "-x", "labs", "--", "sh", "-c", "exit 6"],
                              capture_output=True, text=True, timeout=harness.PATIENCE, env=harness.environment(), check=False,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 6, done.stderr)

    def test_what_was_closed_is_closed_for_the_command_and_takes_no_output(self):
        show = "for fd in 0 1 2; do test -e /proc/self/fd/$fd && echo $fd >> %s; done; true"
        with tempfile.NamedTemporaryFile(mode="r") as seen:
            done = self.under("exec \"$@\" 0<&- 1>&-", harness.RTRACE, "-o", "/dev/null", "-x", "labs", "--",
                              "sh", "-c", show % seen.name)
            self.assertEqual((done.returncode, seen.read().split()), (0, ["2"]), done.stderr)
        done = self.under("exec \"$@\" 1>&-", harness.RTRACE, "-o", "-", "-x", "labs", "--", "true")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("rtrace: cannot write the output: Bad file descriptor; detached", done.stderr)

    def test_where_no_thread_can_be_made_it_says_so_and_leaves(self):
        limited = "ulimit -v %d; exec \"$@\""
        if self.under(limited % 400000, harness.RTRACE, "--version").returncode != 0:
            self.skipTest("built with sanitizers, it takes terabytes of address space")
        for limit in range(150000, 400000, 2500):
            done = self.under(limited % limit, harness.RTRACE, "-o", "/dev/null", "-x", "labs", "--", "true")
            self.assertIn(done.returncode, (0, 1), done)
            if done.returncode == 0:
                return
            self.assertIn("rtrace: ", done.stderr)
        self.fail(done)


class OutlivesRtrace(unittest.TestCase):
    """A command that rtrace lets go of, or is not traced any more, before its end."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.go, self.marker, self.errors = (os.path.join(folder.name, name) for name in ("go", "marker", "errors"))
        os.mkfifo(self.go)
        script = "echo $$ > %s.new; mv %s.new %s; read word < %s; exit 5" % (self.marker, self.marker, self.marker, self.go)
        with open(self.errors, "w") as errors:
            self.rtrace = subprocess.Popen(harness.invocation(["-x", "getppid", "--", "sh", "-c", script]),
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                           env=harness.environment())
        self.addCleanup(self.rtrace.wait)
        self.addCleanup(self.rtrace.kill)
        harness.wait_until(lambda: os.path.exists(self.marker), "the command runs")
        self.command = int(harness.read_text(self.marker))

    def let_it_end(self):
        with open(self.go, "w") as go:
            go.write("on\n")
        harness.wait_until(lambda: not os.path.exists("/proc/%d" % self.command), "the command has ended")

    def test_one_that_it_is_told_to_let_go_of_leaves_it_the_status_of_the_signal(self):
        self.rtrace.send_signal(signal.SIGTERM)
        self.assertEqual(self.rtrace.wait(harness.PATIENCE), 128 + signal.SIGTERM)
        self.assertTrue(os.path.exists("/proc/%d" % self.command))
        self.let_it_end()

    def test_one_whose_engine_is_killed_is_waited_for(self):
        os.kill(engine_of(self.rtrace.pid), signal.SIGKILL)
        harness.wait_until(lambda: "; the command is waited for\n" in harness.read_text(self.errors), "it is put right")
        self.assertIsNone(self.rtrace.poll())
        self.let_it_end()
        self.assertEqual(self.rtrace.wait(harness.PATIENCE), 1)


if __name__ == "__main__":
    unittest.main()
