#!/usr/bin/python3
"""Debug information from servers: asked for only where the user's environment names some, and never for long."""
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import harness

ASK = """#!/bin/sh
echo "$1 $2" >> "%(folder)s/asked"
%(answer)s
"""


class Servers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.program = os.path.join(self.folder, "described")
        self.debug = os.path.join(self.folder, "elsewhere.debug")
        with_id = os.path.join(self.folder, "whole")
        shutil.copy(harness.target("described"), with_id)
        subprocess.run(["objcopy", "--only-keep-debug", with_id, self.debug], check=True)
        subprocess.run(["objcopy", "--strip-debug", with_id, self.program], check=True)

    def trace(self, answer, urls="http://127.0.0.1:9/", timeout="10"):
        script = os.path.join(self.folder, "debuginfod-find")
        with open(script, "w") as file:
            file.write(ASK % {"folder": self.folder, "answer": answer})
        os.chmod(script, 0o755)
        env = dict(harness.environment(), PATH=self.folder + ":" + os.environ["PATH"], DEBUGINFOD_TIMEOUT=timeout)
        if urls is not None:
            env["DEBUGINFOD_URLS"] = urls
        trace = os.path.join(self.folder, "trace")
        done = subprocess.run(harness.invocation(["-o", trace, "--explain", "-x", "greet@MAIN", "--", self.program]),
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env=env, timeout=harness.PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return harness.read_text(trace), harness.without_mechanism(done.stderr)

    def asked(self):
        return harness.read_text(os.path.join(self.folder, "asked")).splitlines()

    def test_what_they_have_is_used(self):
        trace, stderr = self.trace("echo %s" % self.debug)
        self.assertRegex(trace, r'^greet\("hi", RED, \{ 1, 2 \}, 1\.500000\)')
        self.assertIn("prototype: debug info of " + self.debug, stderr)
        self.assertEqual(len(self.asked()), 1)
        self.assertRegex(self.asked()[0], r"^debuginfo [0-9a-f]{40}$")

    def test_nobody_is_asked_where_the_environment_names_none(self):
        for urls in (None, ""):
            with self.subTest(urls=urls):
                self.assertRegex(self.trace("echo %s" % self.debug, urls)[1], r"prototype: none \(described has no debug")
                self.assertEqual(self.asked(), [])

    def test_what_is_another_file_s_is_not_believed(self):
        other = harness.target("described_cxx")
        self.assertRegex(self.trace("echo " + other)[1], r"prototype: none .*what debuginfod gave is not its debug file")

    def test_no_answer_is_said(self):
        self.assertRegex(self.trace("exit 1")[1], r"prototype: none .*debuginfod knows no debug file for it")

    def test_one_that_hangs_is_waited_for_no_longer_than_said(self):
        begin = time.monotonic()
        stderr = self.trace("echo $$ > '%s/pid'\nexec tail -f /dev/null" % self.folder, timeout="1")[1]
        self.assertRegex(stderr, r"prototype: none .*debuginfod-find had no answer within 1 s")
        self.assertLess(time.monotonic() - begin, harness.PATIENCE / 2)
        with open(os.path.join(self.folder, "pid")) as file:
            self.assertFalse(os.path.exists("/proc/%d" % int(file.read())))

    def test_a_table_of_counts_asks_nobody(self):
        env = dict(harness.environment(), PATH=self.folder + ":" + os.environ["PATH"], DEBUGINFOD_URLS="http://x/")
        self.trace("exit 1", urls=None)
        subprocess.run([harness.RTRACE, "-c", "-x", "greet", "--", self.program], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, timeout=harness.PATIENCE, check=True)
        self.assertEqual(self.asked(), [])


if __name__ == "__main__":
    unittest.main()
