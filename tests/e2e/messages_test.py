#!/usr/bin/python3
"""rtrace never just prints nothing: what was armed, what matched nothing, what was never hit, what was lost, and how it
ended. All of it on stderr."""
import re
import resource
import signal
import threading
import unittest

import harness

ADD = "add@libfixture.so("


def waits(*words):
    process = harness.Target([harness.target("waits"), *(words or ("3",))])
    process.expect("pid ")
    return process


def attached(process, *options):
    return harness.Attached(["-F", harness.CONF, *options], [process.pid])


class Attaching(unittest.TestCase):
    def line(self, *options):
        with waits() as process:
            result = attached(process, *options).stop()
            self.assertEqual((result.status, result.stdout, result.trace), (0, "", ""), result)
            self.assertRegex(result.stderr, r"(?m)^rtrace: detached from %d \(waits\)$" % process.pid)
            return re.search(r"(?m)^rtrace: attached to .*$", result.stderr).group(0)

    def test_the_probes_of_all_patterns_are_counted(self):
        self.assertRegex(self.line("-x", "add", "-x", "twice"), r"; 2 probes armed$")
        self.assertRegex(self.line("-x", "add+twice+outer"), r"; 3 probes armed$")
        self.assertRegex(self.line("-e", "add@MAIN"), r"; 1 probe armed$")

    def test_patterns_for_libraries_that_may_come_later_are_pending(self):
        self.assertRegex(self.line("-x", "add", "-x", "plugin_work"), r"; 1 probe armed, 1 pattern pending$")
        self.assertRegex(self.line("-x", "mysql_*", "-x", "plugin_work"), r"; 0 probes armed, 2 patterns pending$")


class NothingSeen(unittest.TestCase):
    def notices(self, *options):
        with waits() as process:
            rtrace = attached(process, *options)
            process.go()
            process.expect("done")
            result = rtrace.stop()
            self.assertEqual((result.status, result.stdout), (0, ""), result)
            self.assertNotIn("rtrace:", result.trace)
            return [line for line in result.stderr.splitlines() if "tached" not in line]

    def test_a_name_nobody_has_with_the_nearest(self):
        (line,) = self.notices("-x", "tail_iner")
        self.assertRegex(line, r"^rtrace: -x tail_iner: no mapped object defines tail_iner.*nearest names:.*tail_inner")

    def test_a_part_of_a_filter_where_another_matches(self):
        lines = self.notices("-x", "tail_inner+tail_iner")
        self.assertRegex(lines[0], r"^rtrace: -x tail_inner\+tail_iner: no mapped object defines tail_iner.*nearest names:.*tail_inner")
        self.assertRegex(self.notices("-x", "tail_inner+ad+twise")[0], r"^rtrace: -x \S+: nothing matches ad, twise$")

    def test_a_library_that_is_not_mapped_with_those_that_are(self):
        (line,) = self.notices("-x", "add@libfixtures.so")
        self.assertRegex(line, r"no mapped object is called libfixtures\.so; nearest: libfixture\.so")

    def test_a_function_of_another_library_than_the_one_named(self):
        (line,) = self.notices("-x", "add@libc.so.6")
        self.assertRegex(line, r"libc\.so\.6 defines no function add; libfixture\.so defines it")

    def test_a_call_that_the_program_does_not_make_with_those_that_it_makes(self):
        (line,) = self.notices("-e", "great@MAIN")
        self.assertRegex(line, r"waits calls no imported function great; nearest names:.*greet")

    def test_a_function_that_its_own_object_calls_without_a_plt(self):
        (line,) = self.notices("-e", "setenv@libfixture.so")
        self.assertRegex(line, r"libfixture\.so calls no imported function setenv")

    def test_a_probe_that_was_not_hit_with_what_is_imported_instead(self):
        (line,) = self.notices("-x", "twice")
        self.assertRegex(line, r"^rtrace: twice was armed in libfixture\.so and never hit; waits imports .*add.*, not twice$")

    def test_a_probe_that_was_not_hit_though_it_is_imported(self):
        (line,) = self.notices("-x", "greet")
        self.assertRegex(line, r"^rtrace: greet was armed in libfixture\.so and never hit; waits imports greet, but did not")

    def test_children_that_are_not_followed_may_have_made_the_calls(self):
        command = ["--", harness.target("children"), "fork"]
        told = "rtrace: a child process was not traced: -f follows it"
        self.assertIn(told, harness.run(["-x", "greet", *command]).stderr.splitlines())
        for options in (["-f", "-x", "greet"], ["-x", "add"]):
            self.assertNotIn("not traced", harness.run([*options, *command]).stderr)

    def test_several_patterns_have_a_line_each(self):
        lines = self.notices("-x", "add", "-x", "twice", "-x", "no_such_thing")
        self.assertEqual([line.split(":")[1].split()[:2] for line in lines],
                         [["twice", "was"], ["-x", "no_such_thing"]], lines)

    def test_q_silences_attaching_and_detaching(self):
        for quiet, options, said in (("-q", ("-x", "add"), 0), ("-q", ("-x", "twice"), 1), ("-q", ("-x", "no_such_thing"), 1),
                                     ("-qq", ("-e", "no_such_thing"), 1), ("--quiet", ("-l", "libnothing.so"), 1),
                                     ("-q", ("-x", "add", "--hist=ad"), 1)):
            with self.subTest(options=options), waits() as process:
                rtrace = attached(process, quiet, *options)
                process.go()
                process.expect("done")
                lines = rtrace.stop().stderr.splitlines()
                self.assertEqual(len(lines), said, lines)
                self.assertNotIn("attached", "".join(lines))

    def test_explain_is_what_was_asked_for_so_q_does_not_silence_it(self):
        with waits() as process:
            self.assertRegex(attached(process, "-q", "--explain", "-x", "add").stop().stderr, r"add.*breakpoint")


class OutputThatEnds(unittest.TestCase):
    def check(self, process, result, reason):
        self.assertEqual(result.status, 1, result)
        self.assertRegex(result.stderr, reason)
        self.assertEqual(harness.altered_code(process.pid), [])
        self.assertEqual(harness.tracer(process.pid), 0)
        process.go()
        process.expect("done")
        process.process.stdin.close()
        self.assertEqual(process.process.wait(harness.PATIENCE), 0)

    def test_a_full_disk_while_attached(self):
        with waits() as process:
            rtrace = attached(process, "-x", "add", "-o", "/dev/full")
            process.go()
            process.expect("done")
            self.check(process, rtrace.end(), r"(?m)^rtrace: cannot write the output: No space left on device")

    def test_a_reader_that_has_gone_while_attached(self):
        with waits() as process:
            rtrace = attached(process, "-x", "add", "-o", "|head -n 1 > /dev/null")
            while rtrace.process.poll() is None and process.process.poll() is None:
                process.go()
                process.expect("done")
            self.check(process, rtrace.end(), r"(?m)^rtrace: nobody reads the output any more")

    def test_a_full_disk_and_a_reader_that_has_gone_do_not_end_a_command(self):
        for output, reason in (("/dev/full", "No space left"), ("|exec true", "nobody reads")):
            with self.subTest(output=output):
                result = harness.run(["-F", harness.CONF, "-x", "add", "-o", output, "--", harness.target("entries"),
                                      "add", "20000"], separate=False)
                self.assertEqual(result.status, 1, result)
                self.assertRegex(result.stderr, reason)

    def test_a_summary_that_cannot_be_written(self):
        result = harness.run(["-c", "-x", "add", "-o", "/dev/full", "--", harness.target("entries"), "add", "5"],
                             separate=False)
        self.assertEqual(result.status, 1, result)
        self.assertIn("No space left on device", result.stderr)


class OwnActionForSigtrap(unittest.TestCase):
    """Who would not survive a kill -9 of rtrace is told of, once for each name."""
    LINE = r"(?m)^rtrace: process \d+ \((\S+)\) has set an action for SIGTRAP of its own: .*$"

    def said(self, program, *options):
        result = harness.run(["-f", "-x", "getpid@libc.so.*", *options, "--", "sh", "-c", program], separate=False)
        self.assertEqual(result.status, 0, result)
        return re.findall(self.LINE, result.stderr)

    def test_programs_that_ignore_it(self):
        ignores = "/usr/bin/python3 -c 'import signal; signal.signal(signal.SIGTRAP, signal.SIG_IGN)'"
        self.assertEqual(self.said(ignores + "; " + ignores), ["python3"])
        self.assertEqual(self.said(ignores, "-q"), [])
        self.assertEqual(self.said("/usr/bin/python3 -c 'import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)'"), [])

    def test_programs_with_a_handler_that_serves_once(self):
        catches = ("/usr/bin/perl -MPOSIX -e 'sigaction(SIGTRAP, POSIX::SigAction->new(sub {}, POSIX::SigSet->new, %s));"
                   " getppid() for 1..%d'")
        for calls in (0, 5000):  # whether a call follows or not
            with self.subTest(calls=calls):
                self.assertEqual(self.said(catches % ("SA_RESETHAND", calls), "-x", "getppid@libc.so.*"), ["perl"])
                self.assertEqual(self.said(catches % ("SA_RESTART", calls), "-x", "getppid@libc.so.*"), [])

    def test_shells_that_trap_their_exit_survive(self):
        self.assertEqual(self.said("bash -c 'trap : EXIT; true'"), [])


class StalledReader(unittest.TestCase):
    COUNT, LENGTH = 20000, 3900  # 78 MB, where the buffer holds 64 MiB

    def test_the_process_runs_on_and_the_loss_is_counted_and_said(self):
        with waits(str(self.COUNT), str(self.LENGTH)) as process:
            rtrace = attached(process, "-x", "greet", "-s", "4000", "-o", "-")
            text = []
            reader = threading.Thread(target=lambda: text.extend(rtrace.process.stdout))
            try:
                process.go()
                process.expect("done")  # though nobody has read a line
                reader.start()
                process.go()
                process.expect("done")
                rtrace.process.send_signal(signal.SIGINT)
                reader.join(harness.PATIENCE)
                self.assertEqual(rtrace.process.wait(harness.PATIENCE), 0, rtrace.notices())
            finally:
                rtrace.abandon()
                rtrace.process.stdout.close()
            calls = sum(line.startswith(b"greet@libfixture.so(") for line in text)
            said = [re.search(rb"^--- (\d+) calls? lost: nobody was reading the output ---", line) for line in text]
            lost = sum(int(match.group(1)) for match in said if match)
            at_the_end = re.search(r"(\d+) calls lost at the end: nobody was reading the output", rtrace.notices())
            lost += int(at_the_end.group(1)) if at_the_end else 0
            self.assertGreater(lost, 0)
            self.assertEqual(calls + lost, 2 * self.COUNT, ([line for line in text if line.startswith(b"---")], rtrace.notices()))


class Ends(unittest.TestCase):
    def test_a_command_s_exit_status_is_rtrace_s(self):
        for status in (0, 1, 7, 255):
            result = harness.run(["-x", "add", "--", harness.target("entries"), "exit", str(status)])
            self.assertEqual(result.status, status, result)

    def test_a_command_that_dies_of_a_signal_is_followed(self):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGUSR1, signal.SIGTRAP):
            with self.subTest(signal=number):
                result = harness.run(["-x", "kill", "--", "/bin/sh", "-c", "kill -%d $$" % number])
                self.assertEqual(result.status, -number, result)
                self.assertIn("+++ killed by %s +++" % number.name, result.trace)

    def test_the_death_of_an_attached_process_is_said_and_is_no_failure_of_rtrace(self):
        with waits() as process:
            rtrace = attached(process, "-x", "add")
            process.process.kill()
            result = rtrace.end()
            self.assertEqual(result.status, 0, result)
            self.assertIn("+++ killed by SIGKILL +++", result.trace)

    def test_the_status_is_the_command_s_and_not_a_child_s(self):
        result = harness.run(["-f", "-x", "add", "--", "/bin/sh", "-c", "(exit 9); sh -c 'kill -9 $$'; exit 3"])
        self.assertEqual(result.status, 3, result)


if __name__ == "__main__":
    unittest.main()
