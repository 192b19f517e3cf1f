#!/usr/bin/python3
"""--slower and --where: which calls are shown, in text, in JSON and in the summary; and what is said of expressions that
can never hold."""
import os
import re
import tempfile
import unittest

import harness
import json_lines

ENTRIES = harness.target("entries")
NESTED = ["-F", harness.CONF, "-x", "outer+middle+inner"]
FIXTURE = ["-F", harness.CONF, "-x", "add"]


def lines(*arguments, status=0, **how):
    result = harness.run(["-a", "0", *arguments], **how)
    if result.status != status:
        raise harness.Failure(str(result))
    return [line for line in result.lines if not line.startswith("+++")]


class Where(unittest.TestCase):
    def test_arguments_and_results(self):
        self.assertEqual(lines(*FIXTURE, "--where=arg1 >= 2 && ret != 4", "--", ENTRIES, "add", "5"),
                         ["add@libfixture.so(2, 1) = 3", "add@libfixture.so(4, 1) = 5"])

    def test_names_of_parameters_strings_and_regexes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "named.conf")
            with open(path, "w") as file:
                file.write("int add(left=int, right=int);\nint greet(who=string);\n")
            words = ["-F", path, "-x", "add+greet", "--where"]
            program = ["--", harness.target("calls_now")]
            self.assertEqual(lines(*words, "left < 0", *program), ["add@libfixture.so(-3, 40000) = 39997"])
            for text in ("who == 'hello'", "who ~ /^hel+o$/", "arg1 ~ /ell/", "name == 'greet'"):
                self.assertEqual(lines(*words, text, *program), ['greet@libfixture.so("hello") = 5'], text)

    def test_strings_are_read_further_than_they_are_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            names = [os.path.join(folder, "n" * 100 + tail) for tail in ("tail", "other", "ta")]
            program = ["--", "/usr/bin/perl", "-e", "open(F, '<', $_) for @ARGV", *names]
            words = ["-e", "open64+openat+open@MAIN", "--where"]

            def shown(where):
                return len([line for line in lines(*words, where, *program) if '"' + names[0][:32] + '"...' in line])

            for where, calls in (("arg1 ~ /tail$/", 1), ("arg1 == '%s'" % names[0], 1), ("arg1 ~ /n{32}$/", 0),
                                 ("arg1 != '%s' && arg1 ~ /nnn/" % names[1], 2), ("arg1 ~ /nnn/", 3)):
                self.assertEqual(shown(where), calls, where)
            end = harness.run([*words, "arg1 ~ /tail$/", "--", "/usr/bin/perl", "-e", "open(F, '<', 'n' x 5000 . 'tail')"])
            self.assertRegex(end.stderr, "--where left out [0-9]+ calls? with strings that are longer", end)

    def test_tables_know_of_debug_information_what_lines_know(self):
        for mechanism in ("breakpoint", "trampoline"):
            for where, calls in (("list.value == 1", 2), ("list.value == 9", 0), ("arg2 == 5", 0)):
                words = ["--mechanism=" + mechanism, "-L", "-x", "length", "--where", where, "--", harness.target("described")]
                self.assertEqual(len(lines(*words)), calls, (mechanism, where))
                table = harness.Summary(harness.run(["-c", *words]).trace).calls()
                self.assertEqual(table, {"length": calls} if calls else {}, (mechanism, where))

    def test_keys_of_enums_and_flags_are_words(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "keyed.conf")
            with open(path, "w") as file:
                file.write("int add(which=flags(ONE=1, TWO=2, FOUR=4), enum(NONE=0, SINGLE=1));\n")
            words = ["-F", path, "-x", "add", "--where"]
            program = ["--", ENTRIES, "add", "5"]
            both = ["add@libfixture.so(ONE|TWO, SINGLE) = 4", "add@libfixture.so(TWO, SINGLE) = 3"]
            self.assertEqual(sorted(lines(*words, "which & TWO && arg2 == SINGLE", *program)), both)
            self.assertEqual(lines(*words, "which == ONE | TWO", *program), both[:1])

    def test_names_that_only_system_calls_have_are_known(self):
        result = harness.run(["-L", "-S", "--where=flags & O_CREAT", "--", "/bin/sh", "-c", ": > /dev/null"])
        self.assertNotIn("--where", result.stderr)
        self.assertIn('openat@SYS(AT_FDCWD, "/dev/null", O_WRONLY|O_CREAT|O_TRUNC, 0666)', "\n".join(result.lines))

    def test_nested_calls_are_whole_lines_inner_ones_first_at_their_own_depth(self):
        self.assertEqual(lines(*NESTED, "-n", "2", "--where=(1)", "--", ENTRIES, "nested"),
                         ["    inner@libfixture.so(3) = 4", "  middle@libfixture.so(2) = 5",
                          "outer@libfixture.so(1) = 6"])
        self.assertEqual(lines(*NESTED, "-n", "2", "--where=depth == 1", "--", ENTRIES, "nested"),
                         ["  middle@libfixture.so(2) = 5"])

    def test_stamps_are_those_of_the_entry_and_relative_ones_do_not_run_backwards(self):
        stamps = [float(line.split()[0]) for line in
                  lines(*NESTED, "-qq", "-ttt", "--where=(1)", "--", ENTRIES, "nested")]
        self.assertEqual(stamps, sorted(stamps, reverse=True))
        for line in lines(*NESTED, "-r", "--where=(1)", "--", ENTRIES, "nested"):
            self.assertRegex(line, r"^ *\d\.\d{6} ")

    def test_signals_and_the_exit_go_through(self):
        result = harness.run([*FIXTURE, "--where=(0)", "--", harness.target("signals"), "2"])
        self.assertEqual(result.trace.count("--- SIGUSR1"), 2)
        self.assertIn("+++ exited", result.trace)
        self.assertNotIn("add@", result.trace)

    def test_failed_calls_by_their_errno(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ["-e", "open64+openat+open@MAIN", "--where", "errno == ENOENT", "--", "/usr/bin/perl", "-e",
                     'open(F, "<", "%s/missing"); open(F, "<", "/etc/passwd")' % folder]
            found = [line for line in lines(*words) if "missing" in line or "passwd" in line]
        self.assertEqual(len(found), 1, found)
        self.assertIn("-1 ENOENT (No such file or directory)", found[0])

    def test_json_and_the_summary_hold_the_same_calls(self):
        select = [*FIXTURE, "--where=arg1 < 3"]
        program = ["--", ENTRIES, "add", "10"]
        trace = json_lines.trace(*select, *program)
        self.assertEqual([call["args"][0]["value"] for call in trace.calls], [0, 1, 2])
        table = harness.run(["-c", *select, *program]).trace
        self.assertRegex(table, r"(?m) 3 .*add")
        summary = json_lines.trace("-c", *select, *program).of("summary")
        self.assertEqual([row["calls"] for row in summary], [3])

    def test_threads_keep_their_own_calls(self):
        trace = json_lines.trace("-F", harness.CONF, "-x", "work", "--where=arg2 == 7 || arg2 == 9", "--",
                                 harness.target("threads"), "20")
        self.assertEqual(sorted((call["args"][0]["value"], call["args"][1]["value"]) for call in trace.calls),
                         [(thread, sequence) for thread in range(4) for sequence in (7, 9)])


class Slower(unittest.TestCase):
    def test_only_calls_that_took_that_long(self):
        script = "select(undef, undef, undef, $_) for 0, 0.05, 0, 0.06, 0"
        found = lines("-e", "select@MAIN", "-T", "--slower=40ms", "--", "/usr/bin/perl", "-e", script)
        took = [float(re.search(r"<([\d.]+)>$", line).group(1)) for line in found]
        self.assertEqual(len(took), 2, found)
        self.assertTrue(all(duration >= 0.04 for duration in took))

    def test_a_call_that_is_cut_off_by_the_end_counts_with_its_time(self):
        with harness.Target(["/usr/bin/perl", "-e", "$| = 1; print qq(ready\\n); sleep 1000"]) as process:
            process.expect("ready")
            rtrace = harness.Attached(["-x", "nanosleep+clock_nanosleep@libc.so.6", "--slower=1ns"], [process.pid])
            self.assertEqual(rtrace.stop().status, 0)


class Messages(unittest.TestCase):
    def test_a_mistake_is_shown_with_a_caret_and_nothing_is_run(self):
        result = harness.run(["--where=arg1 = 2", "--", "/bin/echo", "ran"])
        self.assertEqual((result.status, result.stdout), (1, ""))
        self.assertEqual(result.stderr.splitlines()[1:], ["  arg1 = 2", "       ^"])
        self.assertIn("== is expected", result.stderr)

    def test_a_name_that_no_probe_knows_is_said_once(self):
        result = harness.run([*FIXTURE, "--where=sighs > 2", "--", ENTRIES, "add", "3"])
        self.assertEqual(result.stderr.count("has a parameter 'sighs'"), 1, result)

    def test_so_is_a_member_that_no_call_had_with_those_that_there_are(self):
        for name, there_are in (("name", None), ("d_name", "name")):
            result = harness.run(["-x", "readdir@libc.so.6", "--where=ret.%s == 'bin'" % name, "--", "ls", "/"])
            said = re.findall(r"--where: no call had 'ret\.%s': .*; there are (.*)" % name, result.stderr)
            self.assertEqual([there_are in said[0].split(", ")] if there_are else said, [True] if there_are else [], result)

    def test_that_nothing_was_selected_is_said_and_the_probes_were_hit(self):
        result = harness.run([*FIXTURE, "--where=arg1 > 100", "--", ENTRIES, "add", "3"])
        self.assertIn("of 3 calls none was let through by --where", result.stderr)
        self.assertNotIn("never hit", result.stderr)

    def test_a_duration_needs_its_unit(self):
        result = harness.run(["--slower=5", "--", "/bin/echo", "ran"])
        self.assertEqual((result.status, result.stdout), (1, ""))
        self.assertIn("--slower=5: a duration is expected", result.stderr)


if __name__ == "__main__":
    unittest.main()
