#!/usr/bin/python3
"""The examples of rtrace(1) are run as they stand there; only the process id is that of a program started here."""
import os
import re
import shlex
import signal
import subprocess
import tempfile
import unittest

import harness

MANUAL = os.path.join(harness.SOURCE, "man", "rtrace.1")
READY = "import sys; print('ready', flush=True); sys.stdin.read()"

# What the process of `-p 1234` is, by a word of the command: it waits until its input ends.
PROCESSES = [
    ("rb_", ["/usr/bin/ruby", "-e", "$stdout.sync = true; require 'mysql2'; puts 'ready'; $stdin.read"]),
    ("gc_start", ["/usr/bin/ruby", "-e", "$stdout.sync = true; puts 'ready'; $stdin.read"]),
    ("gc__mark", ["/usr/bin/ruby", "-e", "$stdout.sync = true; puts 'ready'; $stdin.read"]),
    ("mysql", ["/usr/bin/python3", "-c", "import MySQLdb; " + READY]),
    ("1234", ["/usr/bin/python3", "-c", READY]),
]


def examples():
    """The lines of the section that begin with a `$`, each with the lines that a backslash joins to it."""
    with open(MANUAL) as file:
        section = re.search(r"^\.Sh EXAMPLES\n(.*?)^\.Sh ", file.read(), re.M | re.S).group(1)
    text = section.replace("\\e\n", " ").replace("\\e", "\\").replace("\\&", "").replace("\\-", "-")
    return [re.sub(r"\s+", " ", line) for line in re.findall(r"^(?:\.Dl )?\$ (.*)$", text, re.M)]


class Manual(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("Makefile", "all:\n\t@true\n")
        self.write("file", "what gzip reads\n" * 100)
        os.mkdir(os.path.join(self.folder, "bin"))
        self.write("bin/rtrace", '#!/bin/sh\nexec %s "$@"\n' % shlex.join(
            [os.path.abspath(harness.RTRACE), *harness.by_mechanism([])]))
        os.chmod(os.path.join(self.folder, "bin", "rtrace"), 0o755)
        self.environment = dict(harness.environment())
        self.environment["PATH"] = os.path.join(self.folder, "bin") + ":" + self.environment["PATH"]

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def start(self, command):
        words = next(words for word, words in PROCESSES if word in command)
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), b"ready\n", words)
        return process

    def run_attached(self, command):
        process = self.start(command)
        ready, theirs = os.pipe()
        command = re.sub(r"^rtrace ", "exec rtrace --ready-fd=%d " % theirs, command.replace("1234", str(process.pid)))
        rtrace = subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=self.environment, pass_fds=[theirs],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        os.close(theirs)
        with os.fdopen(ready, "rb") as armed:
            told = armed.read(1)
        rtrace.send_signal(signal.SIGINT)
        _, stderr = rtrace.communicate(timeout=harness.PATIENCE)
        self.assertEqual(rtrace.returncode, 0, stderr)
        stderr = harness.without_mechanism(stderr)
        self.assertNotEqual(told, b"", stderr)
        self.assertRegex(stderr, r"rtrace: attached to %d \(" % process.pid)
        self.assertIsNone(process.poll())

    def run_launched(self, command):
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.folder, env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=harness.PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done)
        harness.without_mechanism(done.stderr)  # counts them
        if "rtrace" in shlex.split(command):
            self.assertRegex(done.stdout + done.stderr + harness.read_text(os.path.join(self.folder, "trace")),
                             r"\w", command)
            self.assertNotIn("rtrace: unknown", done.stderr)

    def test_each_example_does_what_it_says(self):
        commands = examples()
        self.assertGreaterEqual(len(commands), 6, commands)
        for command in commands:
            with self.subTest(command=command):
                if "1234" in command:
                    self.run_attached(command)
                else:
                    self.run_launched(command)


if __name__ == "__main__":
    unittest.main()
