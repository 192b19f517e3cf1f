#!/usr/bin/python3
"""Called as ltrace: what scripts written for ltrace 0.7 rely on, with Debian's ltrace run on the same words."""
import os
import re
import subprocess
import tempfile
import unittest

import harness

LTRACE = "/usr/bin/ltrace"
PROTOTYPES = """\
int add(int, int);
int greet(string);
int twice(int);
ulong work(int, ulong);
"""


class Compat(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.conf = os.path.join(self.folder, "prototypes.conf")
        with open(self.conf, "w") as file:
            file.write(PROTOTYPES)
        self.called_ltrace = os.path.join(self.folder, "ltrace")
        os.symlink(os.path.abspath(harness.RTRACE), self.called_ltrace)

    def run_as(self, program, arguments):
        """(status, what it wrote to stderr, what it wrote to the file of -o)."""
        output = os.path.join(self.folder, "out")
        if os.path.exists(output):
            os.unlink(output)
        done = subprocess.run([program] + [word.replace("OUT", output) for word in arguments],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env=harness.environment(), timeout=harness.PATIENCE, check=False)
        return done.returncode, done.stderr, harness.read_text(output)

    def words(self, *options, program="calls_lazy", arguments=("3",)):
        return ["-F", self.conf, *options, harness.target(program), *arguments]

    @staticmethod
    def plain(text):
        """Without what differs from run to run: pids and times."""
        text = re.sub(r"(?m)^\d+ ", "PID ", re.sub(r"\[pid \d+\]", "[pid PID]", text))
        return re.sub(r"\d+\.\d{6}", "TIME", re.sub(r"(?m)^\d\d:\d\d:\d\d(\.\d{6})?", "CLOCK", text))

    def same(self, *options, **target):
        ours = self.run_as(self.called_ltrace, self.words(*options, **target))
        theirs = self.run_as(LTRACE, self.words(*options, **target))
        for mine, its in zip(ours, theirs):
            if isinstance(mine, str):
                mine, its = self.plain(mine), self.plain(its)
            self.assertEqual(mine, its, options)
        return ours

    def test_the_same_words_print_the_same_lines(self):
        calls = "add+greet+twice"
        for options in (["-e", calls], ["-e", calls, "-o", "OUT"], ["-f", "-e", calls, "-o", "OUT"],
                        ["-f", "-e", calls], ["-T", "-e", calls], ["-tt", "-e", calls], ["-a", "20", "-e", calls],
                        ["-n", "2", "-e", calls], ["-e", "/a.d\\|twice/"], ["-e", "add+greet-greet"],
                        ["-s", "3", "-e", "greet"], ["-b", "-e", calls]):
            with self.subTest(options=options):
                status, stderr, output = self.same(*options)
                self.assertEqual(status, 0)
                self.assertRegex(stderr + output, r"(add|greet|twice)\(")

    def test_the_table_has_its_header_and_columns(self):
        header = "% time     seconds  usecs/call     calls      function"
        for program in (self.called_ltrace, LTRACE):
            _, table, _ = self.run_as(program, self.words("-c", "-e", "add+greet+twice"))
            lines = table.splitlines()
            self.assertEqual(lines[0], header)
            rows = {line.split()[-1]: line for line in lines[2:-2]}
            self.assertEqual(sorted(rows), ["add", "greet", "twice"], table)
            self.assertRegex(rows["add"], r"^ *\d+\.\d\d +\d+\.\d{6} +\d+ +2 add$")
            self.assertRegex(lines[-1], r"^100.00 +\d+\.\d{6} +4 total$")

    def test_an_entry_comes_to_the_calls_of_the_program(self):
        both = self.run_as(self.called_ltrace, self.words("-x", "twice@libfixture.so"))[1]
        self.assertRegex(both, r"(?m)^add\(1, 2\) ")
        self.assertRegex(both, r"(?m)^twice@libfixture.so\(21")
        alone = self.run_as(self.called_ltrace, self.words("-L", "-x", "twice@libfixture.so"))[1]
        self.assertNotIn("add(", alone)
        self.assertIn("twice@libfixture.so(21", alone)

    def test_its_exit_status_tells_of_the_tracing_only(self):
        for program, options in ((self.called_ltrace, []), (harness.RTRACE, ["--ltrace-compat"])):
            for arguments, marker in (["-c", "exit 7"], "exited (status 7)"), (["-c", "kill -9 $$"], "killed by SIGKILL"):
                done = subprocess.run([program, *options, "-e", "nothing", "/bin/sh", *arguments], text=True,
                                      stderr=subprocess.PIPE, env=harness.environment(), check=False,
                                      timeout=harness.PATIENCE)
                self.assertEqual(done.returncode, 0, done)
                self.assertIn("+++ " + marker, done.stderr)
        self.assertEqual(self.run_as(self.called_ltrace, ["/nonexistent/program"])[0], 1)

    def test_threads_are_followed_only_when_asked(self):
        threads = dict(program="threads", arguments=("5",))
        _, stderr, _ = self.run_as(self.called_ltrace, self.words("-e", "work+pthread_join", **threads))
        self.assertNotIn("work(", stderr)
        self.assertEqual(stderr.count("pthread_join("), 4, stderr)
        _, _, output = self.run_as(self.called_ltrace, self.words("-f", "-o", "OUT", "-e", "work", **threads))
        calls = re.findall(r"(?m)^(\d+) .*work\(\d, \d", output)
        self.assertEqual(len(calls), 20, output)
        self.assertEqual(len(set(calls)), 4)


if __name__ == "__main__":
    unittest.main()
