#!/usr/bin/python3
"""Attaching to and detaching from four threads that never rest.

stress_test.py [ROUNDS]: 20 if not said.

What can be known from outside: the target tells, for each thread, the last call that has returned. A call with number
n was certainly entered while armed if n is at least two above the number read once rtrace was ready, and at most the
number read before rtrace was told to end; and certainly not, if it is not above the number read before rtrace was
started, or more than one above the number read after it had ended.
"""
import collections
import re
import sys
import tempfile
import unittest

import board
import harness

ROUNDS = 20
THREADS = 4
EACH = 100  # calls of every thread in every round, at least


class Busy(board.Target):
    def __init__(self, folder):
        super().__init__("busy", folder)

    def completed(self):
        return self.words(2, THREADS)

    def wrong(self):
        return self.word(1)


def entered(lines):
    """{thread: [sequence numbers]}, each number where its call was entered."""
    found = collections.defaultdict(list)
    for line in lines:
        match = re.match(r"(?:\[pid +\d+\] )?work@libfixture\.so\((\d+), (\d+)[ )]", line)
        if match:
            found[int(match.group(1))].append(int(match.group(2)))
    return found


class Stress(unittest.TestCase):
    def check(self, lines, before, armed, disarming, after):
        seen = entered(lines)
        self.assertEqual(sorted(seen), list(range(THREADS)))
        for thread in range(THREADS):
            numbers = seen[thread]
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))), "a gap in thread %d" % thread)
            self.assertLessEqual(numbers[0], armed[thread] + 2, "thread %d: the first calls are missing" % thread)
            self.assertGreaterEqual(numbers[-1], disarming[thread], "thread %d: the last calls are missing" % thread)
            self.assertGreater(numbers[0], before[thread], "thread %d: calls from before the attaching" % thread)
            self.assertLessEqual(numbers[-1], after[thread] + 1, "thread %d: calls after the detaching" % thread)

    def round(self, busy):
        before = busy.completed()
        rtrace = harness.Attached(["-F", harness.CONF, "-x", "work"], [busy.pid])
        try:
            armed = busy.completed()
            harness.wait_until(lambda: all(now - then >= EACH for now, then in zip(busy.completed(), armed)),
                               "every thread has made %d calls" % EACH)
            disarming = busy.completed()
            result = rtrace.stop()
        finally:
            rtrace.abandon()
        after = busy.completed()
        self.assertEqual(result.status, 0, result)
        self.check(result.lines, before, armed, disarming, after)
        self.assertEqual(busy.wrong(), 0)
        self.assertEqual(harness.altered_code(busy.pid), [])

    def test_threads_that_never_rest_lose_nothing_and_nothing_is_lost_of_them(self):
        with tempfile.TemporaryDirectory() as folder, Busy(folder) as busy:
            for number in range(ROUNDS):
                with self.subTest(round=number):
                    self.round(busy)
                self.assertIsNone(busy.process.poll(), "the target has died in round %d" % number)
            self.assertEqual(busy.end(), 0)

    def test_the_returned_value_of_every_call_is_its_own(self):
        with tempfile.TemporaryDirectory() as folder, Busy(folder) as busy:
            rtrace = harness.Attached(["-F", harness.CONF, "-x", "work"], [busy.pid])
            armed = busy.completed()
            harness.wait_until(lambda: all(now - then >= EACH for now, then in zip(busy.completed(), armed)),
                               "every thread has made %d calls" % EACH)
            result = rtrace.stop()
            whole = re.findall(r"work@libfixture\.so\((\d+), (\d+)\) += (\d+)", result.trace)
            self.assertNotEqual(whole, [])
            for thread, sequence, value in whole:
                self.assertEqual(int(value), int(sequence) * 3 + int(thread))
            self.assertEqual(busy.end(), 0)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        ROUNDS = int(sys.argv.pop(1))
    unittest.main()
