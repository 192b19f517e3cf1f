#!/usr/bin/python3
"""What --explain says: each kind of sentence once."""
import re
import tempfile
import unittest

import harness


def explained(*arguments):
    result = harness.run(["--explain", *arguments])
    if result.status != 0:
        raise harness.Failure("status 0 expected\n%s" % result)
    return result.stderr


class Probes(unittest.TestCase):
    def line(self, pattern, *arguments):
        text = explained(*arguments)
        found = re.search(r"(?m)^rtrace: .*%s.*$" % pattern, text)
        self.assertIsNotNone(found, text)
        return found.group()

    def test_an_entry_says_where_its_name_is_from_and_how_it_is_passed(self):
        line = self.line("greet at", "-x", "greet", "--", harness.target("described"))
        self.assertRegex(line, r"^rtrace: -x greet: greet at 0x[0-9a-f]+: breakpoint; function in \.symtab; "
                               r"'[a-z]+\b.*' (is emulated|runs out of line); prototype: ")

    def test_a_call_site_names_its_stub_and_its_jump(self):
        line = self.line("spot_find at", "-e", "spot_find@MAIN", "--", harness.target("spotter_bare"))
        self.assertRegex(line, r"breakpoint; (PLT stub|stub in \.plt\.got); 'jmp qword ptr \[rip \+ 0x[0-9a-f]+\]' is emulated;")

    def test_a_prototype_has_its_file_and_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("\nvoid greet(addr);\n")
            conf.flush()
            line = self.line("greet at", "-F", conf.name, "-x", "greet", "--", harness.target("described"))
        self.assertTrue(line.endswith("prototype: %s:2" % conf.name), line)

    def test_or_the_source_file_that_its_debug_information_describes(self):
        line = self.line("greet at", "-x", "greet", "--", harness.target("described"))
        self.assertTrue(line.endswith("prototype: debug info of %s (described.c)" % harness.target("described")), line)

    def test_or_why_it_is_guessed(self):
        line = self.line("spot_find at", "-e", "spot_find@MAIN", "--", harness.target("spotter_both_bare"))
        self.assertIn("prototype: none (libspot_bare.so has no debug info; spotter_both_bare has no debug info); "
                      "four arguments are guessed", line)

    def test_the_other_names_of_an_address(self):
        self.assertRegex(self.line("strdup@libc", "-x", "*strdup@libc.so.6", "--", harness.target("described")),
                         r"; also called (\w+, )*(__)?strdup\b")

    def test_what_a_kill_of_rtrace_would_do(self):
        self.line("if rtrace is killed by SIGKILL, a SIGTRAP handler bridges its probes", "-x", "greet", "--",
                  harness.target("described"))


class Nothing(unittest.TestCase):
    def test_near_names_begin_with_what_others_import_from_that_object(self):
        text = explained("-x", "spot_fnd@libspot.so", "--", harness.target("spotter_bare"))
        self.assertRegex(text, r"-x spot_fnd@libspot\.so: libspot\.so defines no function spot_fnd; .*nearest names: spot_find")

    def test_an_object_that_is_not_there(self):
        text = explained("-x", "f@libsport.so", "--", harness.target("spotter_bare"))
        self.assertRegex(text, r"no mapped object is called libsport\.so; nearest: libspot\.so")

    def test_a_call_that_nobody_makes(self):
        text = explained("-e", "spot_fnd@MAIN", "--", harness.target("spotter_bare"))
        self.assertRegex(text, r"spotter_bare calls no imported function spot_fnd; nearest names: spot_find")


if __name__ == "__main__":
    unittest.main()
