#!/usr/bin/python3
"""The table of failures in tests/README.md: every row is there once, and names tests that exist."""
import os
import re
import unittest

import harness

TESTS = os.path.dirname(harness.HERE)
ROWS = 54


def rows():
    """[(number, [cells])], and the text of the section."""
    text = harness.read_text(os.path.join(TESTS, "README.md")).partition("## What breaks other tracers")[2]
    found = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in text.splitlines() if re.match(r"\| *\d+ *\|", line)]
    return [(int(cells[0]), cells) for cells in found], text


def references(text):
    return re.findall(r"`([\w/]+\.(?:py|cc|case))(?:: (\w+))?`", text)


def source(path):
    folder = TESTS if path.startswith(("unit/", "e2e/")) else harness.HERE
    return harness.read_text(os.path.join(folder, path))


class Table(unittest.TestCase):
    def test_every_row_is_there_once_and_in_order(self):
        self.assertEqual([number for number, _ in rows()[0]], list(range(1, ROWS + 1)))

    def test_every_row_names_a_test_or_says_that_it_does_not_hold(self):
        for number, cells in rows()[0]:
            self.assertEqual(len(cells), 5, cells)
            self.assertTrue(references(cells[2]) or "does not hold" in cells[4], "row %d" % number)
            self.assertTrue(all(cells), "row %d has an empty cell" % number)

    def test_every_test_named_exists(self):
        for path, name in references(rows()[1]):
            code = source(path)
            self.assertNotEqual(code, "", path)
            if name:
                self.assertRegex(code, r"(?m)^ *(class|def|TEST(_[FP])?\() *%s\b" % name, path)


if __name__ == "__main__":
    unittest.main()
