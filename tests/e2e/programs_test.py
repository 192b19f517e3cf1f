#!/usr/bin/python3
"""Debian's own programs: stripped, BIND_NOW, PIE and ET_EXEC."""
import os
import re
import shutil
import tempfile
import unittest

import harness


class CoreUtilities(unittest.TestCase):
    def test_a_summary_of_sort(self):
        text = "".join("%d\n" % (i * 7919 % 1000) for i in range(1000))
        result = harness.run(["-c", "--", "/usr/bin/sort"], stdin=text)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(result.stdout, "".join(sorted(text.splitlines(True))))
        calls = harness.Summary(result.trace).calls()
        self.assertTrue({"strcoll", "memcmp", "memcpy", "setlocale"} & set(calls), calls)

    def test_ls_prints_what_it_prints_and_its_calls_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("one", "two"):
                open(os.path.join(folder, name), "w").close()
            result = harness.run(["--", "/bin/ls", "-l", folder])
        self.assertEqual(result.status, 0, result)
        self.assertRegex(result.stdout, r"(?s)one\n.*two\n")
        for name in ("setlocale", "opendir", "readdir", "closedir"):
            self.assertRegex(result.trace, r"(?m)^%s\(" % name)
        # Three entries beside the two files: "." and ".." and the end of the folder.
        self.assertEqual(len(re.findall(r"(?m)^readdir\(", result.trace)), 5, result)

    def test_a_summary_of_make_and_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "Makefile"), "w") as file:
                file.write("all: one two\none two:\n\techo $@ | sort > $@\n")
            result = harness.run(["-f", "-c", "--", "/usr/bin/make", "-s", "-j2"], cwd=folder)
            self.assertEqual(result.status, 0, result)
            self.assertEqual(harness.read_text(os.path.join(folder, "one")), "one\n")
            self.assertEqual(harness.read_text(os.path.join(folder, "two")), "two\n")
        calls = harness.Summary(result.trace).calls()
        self.assertTrue({"strcoll", "setlocale"} & set(calls), calls)


@unittest.skipUnless(shutil.which("php"), "php is not installed")
class RelocationsInBetween(unittest.TestCase):
    """php's .rela.plt has IRELATIVE entries between the JUMP_SLOTs: counting them gives wrong names."""

    def traced(self, code, *filters):
        arguments = [word for one in filters for word in ("-e", one)]
        result = harness.run(arguments + ["--", "/usr/bin/php", "-n", "-r", code])
        self.assertEqual(result.status, 0, result)
        return [line for line in result.lines if "->" in line]

    def test_each_call_has_the_name_of_its_slot_s_relocation(self):
        lines = self.traced("gethostname(); umask(022); getmyuid(); sys_getloadavg();",
                            "gethostname@MAIN", "getloadavg@MAIN")
        self.assertEqual([re.search(r"->(\w+)\(", line).group(1) for line in lines], ["gethostname", "getloadavg"])

    def test_functions_that_are_not_called_are_not_named(self):
        lines = self.traced("gethostname();", "recv@MAIN", "SSL_*@MAIN", "gethostname@MAIN")
        self.assertEqual([re.search(r"->(\w+)\(", line).group(1) for line in lines], ["gethostname"])


if __name__ == "__main__":
    unittest.main()
