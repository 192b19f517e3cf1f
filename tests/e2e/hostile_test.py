#!/usr/bin/python3
"""Tracees that lie: values that are not what their prototypes say, link maps and files that are broken on purpose, and
names that a terminal would obey. The tracee is unharmed, its sound objects are traced exactly, and no control
character but the line's end leaves rtrace."""
import os
import shutil
import subprocess
import tempfile
import unittest

import harness

PROTOTYPES = """
typedef node = struct;
typedef node = struct(node*, node*);
int twice(string);
int inner(string);
int add(struct(long, array(char, 1000000), string, array(long, 1000000))*);
int alias_a(buffer[arg2], long);
int tail_inner(node*);
"""


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w") as file:
                file.write(text)
        return path

    def assert_printable(self, text):
        raw = sorted({c for c in text if not (" " <= c <= "~" or c == "\n")})
        self.assertEqual(raw, [], text[:2000])


class Values(Folder):
    def trace(self, *options):
        conf = self.path("hostile.conf", PROTOTYPES)
        names = "add+twice+inner+alias_a+tail_inner@libfixture.so"
        result = harness.run(["-F", conf, "-a", "0", "-x", names, *options, harness.target("hostile"), "values"])
        self.assertEqual(result.status, 0, result)
        self.assert_printable(result.trace + result.stderr)
        return [line.partition(" = ")[0] for line in result.lines]

    def test_what_cannot_be_read_is_a_question_mark_or_its_address(self):
        endless = '"%s"...' % ("A" * 32)
        lines = self.trace()
        self.assertEqual(lines[:4], [
            "twice@libfixture.so(0xdead0000)",
            'inner@libfixture.so("abcdefgh"...)',
            "inner@libfixture.so(%s)" % endless,
            'inner@libfixture.so("\\033[2J\\a\\233\\n")'])
        self.assertRegex(lines[4], r"^add@libfixture\.so\(\{ \d+, .*\?.*\}\)$")
        self.assertEqual(lines[5], "alias_a@libfixture.so(%s, 9223372036854775807)" % endless)
        self.assertRegex(lines[6], r"^alias_a@libfixture\.so\(0x[0-9a-f]+, -1\)$")
        self.assertEqual(lines[7:], [
            "alias_a@libfixture.so(0xdead0000, 5)",
            "tail_inner@libfixture.so({ recurse, recurse })",
            "+++ exited (status 0) +++"])

    def test_a_line_is_bounded_whatever_the_limits_are(self):
        lines = self.trace("-s", "1000000", "-A", "1000000")
        self.assertEqual(len(lines), 10, lines)
        self.assertLessEqual(max(map(len, lines)), 4096 + 100)
        self.assertGreaterEqual(len(lines[2]), 4096)


class LinkMaps(Folder):
    """Attached after the harm is done; 100 calls, twice."""

    def attacked(self, what, file=""):
        with harness.Target([harness.target("hostile"), what, file]) as process:
            process.expect("pid")
            rtrace = harness.Attached(["-F", harness.CONF, "-x", "add", "--explain"], [process.pid])
            for _ in range(2):
                process.go()
                process.expect("done")
            result = rtrace.stop()
            self.assertEqual(harness.altered_code(process.pid), [])
            process.go()
            process.expect("done")
            self.assertEqual(process.finish()[1], 0)
        self.assertEqual(result.status, 0, result)
        self.assert_printable(result.trace + result.stderr)
        return result

    def assert_all_calls(self, result):
        self.assertEqual(result.trace.count("add@libfixture.so("), 200, result)

    def test_a_process_name_cannot_drive_the_terminal(self):
        result = self.attacked("comm")
        self.assertIn("(\\033[2J", result.stderr)
        self.assert_all_calls(result)

    def test_a_cycle_is_said_and_what_stands_before_it_is_traced(self):
        result = self.attacked("cycle")
        self.assertIn("is broken; what follows the break is left out", result.stderr)
        self.assert_all_calls(result)

    def test_wild_names_and_hooks_do_not_matter(self):
        for what in ("names", "no_hook", "wild_hook"):
            with self.subTest(what):
                self.assert_all_calls(self.attacked(what))

    def test_made_up_entries_are_left_out(self):
        text = self.path("no \033[31melf.so", "x" * 4096)
        result = self.attacked("made_up", text)
        self.assertEqual(result.stderr.count("is left out"), 1, result)
        self.assertRegex(result.stderr, r"no \\033\[31melf\.so is left out: .*no ELF header")
        self.assert_all_calls(result)

    def test_a_link_map_that_leads_nowhere_is_said(self):
        for what in ("nowhere", "version", "state"):
            with self.subTest(what):
                result = self.attacked(what)
                self.assertRegex(result.stderr, "the link map of process [0-9]+ (is broken|cannot be read)")
                self.assertNotIn("add@", result.trace)


class Files(Folder):
    """A library whose file is spoilt, outside of what is mapped, after the process has loaded it."""

    def test_broken_section_headers_leave_the_exported_functions(self):
        library = self.path("libfixture.so")
        shutil.copy(harness.target("libfixture.so"), library)
        with harness.Target(["/usr/bin/env", "LD_PRELOAD=" + library, harness.target("hostile"), "nothing"]) as process:
            process.expect("pid")
            with open(library, "r+b") as file:
                header = file.read(64)
                file.seek(int.from_bytes(header[40:48], "little"))
                file.write(b"\xff" * (64 * int.from_bytes(header[60:62], "little")))
            rtrace = harness.Attached(["-F", harness.CONF, "-x", "add"], [process.pid])
            process.go()
            process.expect("done")
            result = rtrace.stop()
            self.assertEqual(result.trace.count("add@libfixture.so("), 100, result)
            self.assert_printable(result.trace + result.stderr)
            self.assertEqual(process.finish()[1], 0)

    def test_a_damaged_table_of_static_names_is_told(self):
        """Packed (.gnu_debugdata), and .symtab, which is said to lie behind the file's end."""
        program, garbage = self.path("program"), self.path("garbage", "no xz stream")
        subprocess.run(["objcopy", "--strip-all", "--add-section", ".gnu_debugdata=" + garbage, harness.target("entries"),
                        program], check=True)
        self.assert_told(program, ".gnu_debugdata: not a complete xz stream")
        shutil.copy(harness.target("entries"), program)
        with open(program, "r+b") as file:
            header = file.read(64)
            first, size, count = (int.from_bytes(header[at:at + n], "little") for at, n in ((40, 8), (58, 2), (60, 2)))
            for at in range(first, first + size * count, size):
                file.seek(at + 4)
                if file.read(4) == b"\2\0\0\0":  # SHT_SYMTAB
                    file.seek(at + 24)
                    file.write(b"\xff" * 6)  # sh_offset
        self.assert_told(program, ".symtab, or the table of its names, is not in the file")

    def assert_told(self, program, what):
        result = harness.run(["-x", "no_such_function", "-F", harness.CONF, "-x", "add", "--", program, "add", "3"])
        self.assertEqual((result.status, result.trace.count("add@libfixture.so(")), (0, 3), result)
        self.assertIn("rtrace: %s: %s" % (program, what), result.stderr)


if __name__ == "__main__":
    unittest.main()
