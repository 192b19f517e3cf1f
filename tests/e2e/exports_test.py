#!/usr/bin/python3
"""All functions that an interpreter exports, and that may be trampolines, are trampolines at once, while a script does
something of most of what there is: it prints and ends as it does untraced. And where a prototype is wrong."""
import os
import re
import subprocess
import tempfile
import unittest

import harness

SCRIPTS = os.path.join(harness.HERE, "scripts")
LIBRUBY = "libruby-3.1.so.3.1"


def without_addresses(text):
    return re.sub("0x[0-9a-f]+", "0x", text)


class Exports(unittest.TestCase):
    def trampolines(self, scope, file, words):
        """The names that `file` exports but those that must be breakpoints. `words` print a version."""
        listed = subprocess.run(["nm", "-D", "--defined-only", file], stdout=subprocess.PIPE, text=True, check=True).stdout
        result = harness.run(["-c", "--mechanism=trampoline", "-x", "@" + scope, "--", *words])
        self.assertEqual(result.status, 0, result)
        declined = {name.partition("@")[0] for name in re.findall(r"(?m)^rtrace: (\S+): a breakpoint, no ", result.stderr)}
        return sorted(set(re.findall(r"(?m)^\w+ [TW] ([^@\s]+)", listed)) - declined)

    def check(self, scope, file, interpreter, version, script, least):
        words = [*interpreter, os.path.join(SCRIPTS, script)]
        plain = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=harness.environment(), errors="replace", check=False)
        self.assertEqual(plain.returncode, 7, plain.stderr)
        names = self.trampolines(scope, file, [*interpreter, *version])
        self.assertGreater(len(names), least)
        filters = [word for name in names for word in ("-x", "%s@%s" % (name, scope))]
        result = harness.run(["-f", "-c", "--mechanism=trampoline", *filters, "--", *words])
        self.assertEqual((result.status, without_addresses(result.stdout)), (7, without_addresses(plain.stdout)), result)
        # What an IFUNC has chosen of php's has a name of its own, without a prototype.
        self.assertRegex(result.stderr, r"(?m)^rtrace: \d+ trampolines, \d breakpoints?$")
        self.assertGreater(len(harness.Summary(result.trace).rows), least // 4, result)

    def test_ruby(self):
        self.check(LIBRUBY, "/usr/lib/x86_64-linux-gnu/" + LIBRUBY, ["/usr/bin/ruby"], ["--version"], "broad.rb", 1000)

    def test_python3(self):
        self.check("MAIN", "/usr/bin/python3", ["/usr/bin/python3"], ["--version"], "broad.py", 900)

    def test_perl(self):
        self.check("MAIN", "/usr/bin/perl", ["/usr/bin/perl"], ["-v"], "broad.pl", 1000)

    def test_php(self):
        self.check("MAIN", "/usr/bin/php", ["/usr/bin/php", "-n"], ["-v"], "broad.php", 1000)


class WrongPrototypes(unittest.TestCase):
    def test_a_name_is_taken_for_a_format_and_the_names_behind_it_are_passed_on(self):
        with tempfile.TemporaryDirectory() as folder:
            conf = os.path.join(folder, "wrong.conf")
            with open(conf, "w") as file:
                file.write("addr rb_struct_define_under(space=addr, name=format);\n")
            # Process::Tms and others: at the start, with more names than there are registers.
            result = harness.run(["--mechanism=trampoline", "-c", "-F", conf, "-x", "rb_struct_define_under@" + LIBRUBY,
                                  "--", "/usr/bin/ruby", "-retc", "-e", "p Etc.getpwuid(0).name, Etc::Passwd.members.size > 6"])
        self.assertEqual((result.status, result.stdout), (0, '"root"\ntrue\n'), result)
        self.assertRegex(result.stderr, "(?m)^rtrace: 1 trampoline, 0 breakpoints")
        self.assertGreater(harness.Summary(result.trace).calls()["rb_struct_define_under@" + LIBRUBY], 1, result)


if __name__ == "__main__":
    unittest.main()
