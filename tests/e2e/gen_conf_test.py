#!/usr/bin/python3
"""--gen-conf: prototypes from debug information as a file that says the same."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import harness


def generated(name):
    done = subprocess.run([harness.RTRACE, "--gen-conf", harness.target(name)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=harness.environment(), timeout=harness.PATIENCE,
                          check=False)
    return done


def lines(arguments):
    result = harness.run(["-A", "16"] + arguments)
    if result.status != 0:
        raise harness.Failure("status 0 expected\n%s" % result)
    return [re.sub(r"0x[0-9a-f]{5,}", "ADDR", line) for line in result.lines], result.stderr


class GenConf(unittest.TestCase):
    maxDiff = None

    def same_lines(self, name, patterns):
        """The program by its debug information, and a stripped copy of it by the generated file."""
        with_debug = lines(["-x", patterns, "--", harness.target(name)])
        with tempfile.TemporaryDirectory() as folder:
            bare, conf = os.path.join(folder, name), os.path.join(folder, "made.toml")
            done = generated(name)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(conf, "w") as file:
                file.write(done.stdout)
            shutil.copy(harness.target(name), bare)
            subprocess.run(["objcopy", "--strip-debug", bare], check=True)
            with_conf = lines(["-F", conf, "-x", patterns, "--", bare])
        self.assertEqual(with_conf, with_debug)
        self.assertGreater(len(with_conf[0]), 5)

    def test_c(self):
        self.same_lines("described", "greet+paint+length+copy+bytes+words+say+sum+mean")

    def test_every_shape_of_argument(self):
        for compiler in ("gcc", "clang"):
            with self.subTest(compiler):
                self.same_lines("shapes_" + compiler, "[thov]_*@MAIN-h_flexible-o_wide_on_stack")

    def test_cxx(self):
        self.same_lines("described_cxx", "_ZN*shop*@MAIN")

    def test_of_a_large_program_all_is_read_again(self):
        """rtrace itself: thousands of functions, classes that hold each other through vectors and shared pointers."""
        done = subprocess.run([harness.RTRACE, "--gen-conf", harness.RTRACE], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        bare = re.search(r"(\d+)  its debug information describes no parameters", done.stderr)
        if bare and int(bare.group(1)) > 1000:
            self.skipTest("rtrace was built with line numbers only")
        self.assertGreater(done.stdout.count("\n"), 3000, done.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as conf:
            conf.write(done.stdout)
            conf.flush()
            result = harness.run(["-F", conf.name, "-x", "five", "--", harness.target("timed"), "1"])
        self.assertEqual(result.stderr, "")
        self.assertIn("five(", result.trace)

    def test_types_come_first_and_all_is_sorted(self):
        text = generated("described").stdout
        types, functions = re.search(r"\[types\]\n(.*)\n\n\[functions\]\n(.*)\n$", text, re.S).groups()
        for section in (types, functions):
            names = [line.split(" = ")[0] for line in section.split("\n")]
            self.assertEqual(names, sorted(names))
        self.assertIn('greet = "void(s=string, c=color, p=point*, d=double)"', functions)

    def test_what_is_left_out_is_counted_by_reasons(self):
        done = generated("shapes_clang_avx")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^rtrace: \d+ functions written, \d+ left out:\n")
        self.assertRegex(done.stderr, r"(?m)^ +2  vectors of 32 bytes travel in registers with -mavx only")

    def test_without_debug_information_it_fails_and_says_so(self):
        done = generated("libspot_bare.so")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^rtrace: .*libspot_bare.so has no debug information")

    def test_what_is_no_object_is_an_error(self):
        done = subprocess.run([harness.RTRACE, "--gen-conf", __file__], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("not an ELF file", done.stderr)


if __name__ == "__main__":
    unittest.main()
