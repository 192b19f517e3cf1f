#!/usr/bin/python3
"""What tools/bench makes of samples, without measuring anything."""
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest

BENCH = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "bench")
sys.path.insert(0, BENCH)

# pylint: disable=wrong-import-position
import rows  # noqa: E402
from rows import tracers  # noqa: E402
from runner import main, process, report, samples  # noqa: E402
from runner.row import AddsAtMost, AddsTimes, AtMost, NotAvailable, RatioAtLeast, RatioAtMost, Row, Side  # noqa: E402


def counting(values):
    """A side that measures these, one after the other."""
    left = iter(values)
    return lambda context: next(left)


def refusing(error):
    def measure(_):
        raise error
    return measure


class Samples(unittest.TestCase):
    def test_a_single_sample_is_its_own_median_and_quartiles(self):
        self.assertEqual(samples.quartiles([3]), (3, 3, 3))

    def test_quartiles_lie_between_samples(self):
        self.assertEqual(samples.quartiles([1, 2, 3, 4, 5]), (2, 3, 4))

    def test_a_ratio_is_that_of_sides_of_the_same_round(self):
        # The machine was ten times slower in the second round.
        self.assertEqual(samples.ratio([2, 20, 2], [1, 10, 1]), 2)

    def test_a_difference_is_that_of_sides_of_the_same_round(self):
        self.assertEqual(samples.difference([3, 103, 3], [1, 101, 1]), 2)

    def test_there_is_no_ratio_to_nothing(self):
        self.assertIsNone(samples.ratio([1], [0]))
        self.assertIsNone(samples.ratio([], [1]))


class Verdicts(unittest.TestCase):
    VALUES = {"rtrace": [130.0], "floor": [100.0], "ltrace": [400.0]}

    def holds(self, target):
        return report.judge(target, self.VALUES)[1]

    def test_a_ratio_holds_up_to_its_limit(self):
        self.assertTrue(self.holds(RatioAtMost("rtrace", "floor", 1.3)))
        self.assertFalse(self.holds(RatioAtMost("rtrace", "floor", 1.29)))

    def test_being_faster_holds_from_its_limit_on(self):
        self.assertTrue(self.holds(RatioAtLeast("ltrace", "rtrace", 3)))
        self.assertFalse(self.holds(RatioAtLeast("ltrace", "rtrace", 3.1)))

    def test_what_is_added_and_what_stands_alone(self):
        self.assertTrue(self.holds(AddsAtMost("rtrace", "floor", 30)))
        self.assertFalse(self.holds(AddsAtMost("rtrace", "floor", 29)))
        self.assertFalse(self.holds(AtMost("rtrace", 129)))

    def test_what_one_adds_in_terms_of_what_another_adds(self):
        self.assertTrue(self.holds(AddsTimes("ltrace", "rtrace", "floor", 10)))
        self.assertFalse(self.holds(AddsTimes("ltrace", "rtrace", "floor", 10.1)))
        self.assertEqual(report.judge(AddsTimes("ltrace", "floor", "rtrace", 1), self.VALUES), (None, None))

    def test_without_one_of_its_sides_nothing_is_said(self):
        self.assertEqual(report.judge(RatioAtMost("rtrace", "uftrace", 1), self.VALUES), (None, None))


class Rounds(unittest.TestCase):
    def measured(self, *sides, rounds=2):
        row = Row("r", "a row", "ns", sides, base="a")
        values, missing = main.measure(row, None, rounds)
        return report.row_as_json(row, (values, missing))["sides"]

    def test_sides_take_turns(self):
        order = []

        def side(name):
            return Side(name, lambda context: order.append(name) or 1.0)

        self.measured(side("a"), side("b"))
        self.assertEqual(order, ["a", "b", "a", "b"])

    def test_what_is_not_available_says_why_and_leaves_the_others(self):
        one, other = self.measured(Side("a", counting([1.0, 3.0])), Side("b", refusing(NotAvailable("no such program"))))
        self.assertEqual((one["median"], other), (2.0, {"name": "b", "not_available": "no such program"}))

    def test_a_failed_run_is_no_result(self):
        _, other = self.measured(Side("a", counting([1.0, 3.0])), Side("b", refusing(process.Failure("it hangs\nhere"))))
        self.assertEqual(other["not_available"], "failed: it hangs")


class Proof(unittest.TestCase):
    """That a tracer has seen the calls."""

    def shows(self, text, calls):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            tracers.shows(types.SimpleNamespace(output=lambda: file.name), calls)

    def test_lines_are_counted_once_where_threads_interrupt_them(self):
        self.shows("[pid 1] work_two(1, 2 <unfinished ...>\n[pid 2] work_two(1, 2) = 3\n"
                   "[pid 1] <... work_two resumed> ) = 3\n", 2)

    def test_names_may_have_an_object(self):
        self.shows("work_two@libwork.so(1, 2) = 3\ncaller->work_text(1, 2, \"a\") = 3\n", 2)

    def test_a_tracer_that_has_seen_less_is_no_peer(self):
        with self.assertRaisesRegex(process.Failure, "1 of 2 calls"):
            self.shows("work_two(1, 2) = 3\n", 2)

    def test_tables_name_the_number(self):
        rtrace = "% time seconds usecs/call calls errors p50\n100.00 0.1 5.0 2000 0 5us caller->work_two\n"
        ltrace = "% time     seconds  usecs/call     calls      function\n100.00    1.0     516      2000 work_two\n"
        for table in (rtrace, ltrace):
            self.shows(table, 2000)
            with self.assertRaises(process.Failure):
                self.shows(table, 2001)


class Rows(unittest.TestCase):
    def test_names_are_there_once(self):
        names = [row.name for row in rows.all_rows()]
        self.assertEqual(sorted(names), sorted(set(names)))

    def test_bases_and_targets_name_sides_of_their_row(self):
        for row in rows.all_rows():
            sides = {side.name for side in row.sides}
            wanted = {row.base} - {""}
            for target in row.targets:
                wanted |= {target.side} if isinstance(target, AtMost) else {target.above, target.below}
            self.assertLessEqual(wanted, sides, row.name)

    def test_list_names_them_all(self):
        done = subprocess.run([os.path.join(BENCH, "run"), "--list"], stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], [row.name for row in rows.all_rows()])

    def test_a_row_that_does_not_exist_is_refused(self):
        done = subprocess.run([os.path.join(BENCH, "run"), "--only", "nosuch"], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, "no row nosuch" in done.stderr), (1, True))


class Reports(unittest.TestCase):
    def test_both_forms_say_what_was_measured_what_holds_and_what_is_missing(self):
        row = Row("call", "a call", "ns/call", (Side("floor", counting([100.0])), Side("rtrace", counting([120.0])),
                                               Side("ltrace", refusing(NotAvailable("not installed")))),
                  (RatioAtMost("rtrace", "floor", 1.3), RatioAtLeast("ltrace", "rtrace", 3)), base="floor")
        entry = report.row_as_json(row, main.measure(row, None, 1))
        run = {"machine": {"cpu": "a cpu", "cores": 2, "memory_mb": 1, "kernel": "6"}, "versions": {"rtrace": "0"},
               "quick": False, "clock": "wall", "rounds": 1, "load": [0.0, 0.0]}
        self.assertEqual(json.loads(report.as_json(run, [entry]))["rows"][0]["sides"][1]["ratio"], 1.2)
        text = report.as_markdown(run, [entry])
        for part in ("| rtrace | 120.0 | 120.0 - 120.0 | 1.20 |", "rtrace <= 1.3 x floor: holds (1.20 x)",
                     "| ltrace | not available: not installed | | |", "ltrace >= 3 x rtrace: not measured"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
