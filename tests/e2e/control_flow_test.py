#!/usr/bin/python3
"""Every way in which a thread can enter functions and leave them again, with exact counts.

The functions of libcounted count themselves, and the trace is compared with that: see counting.py.
"""
import collections
import json
import re
import tempfile
import unittest

import counting
import harness


class ControlFlow(counting.Counted):
    program = None
    functions = ("visit", "through", "counted_descend", "counted_first", "counted_middle", "counted_last",
                 "counted_tail_work")
    conf = harness.CONF

    @staticmethod
    def check(match):
        """visit(n) is n + 1, whoever calls it: where a line is whole, it must say so."""
        whole = match.group("name") == "visit" and match.group("result")
        return not whole or match.group("result") == "= %d" % (int(match.group("arguments")) + 1)

    def words(self, way, count):
        return [harness.target(self.program), way, str(count)]

    def by_attaching(self, way, count):
        self.attached(self.words(way, count))

    def by_launching(self, way, count):
        self.launched(self.words(way, count))

    def both(self, way, count):
        for mode in (self.by_launching, self.by_attaching):
            with self.subTest(mode=mode.__name__):
                mode(way, count)

    def by_call_sites(self, way, count):
        """The same calls seen where they are made: for ways in which the program itself makes all of them."""
        self.launched(self.words(way, count), "-e")


class OneThread(ControlFlow):
    program = "flow"

    def test_recursion_100000_deep_attached(self):
        self.by_attaching("deep", 100000)

    def test_longjmp_10000_times_over_traced_frames_some_of_them_tail_called(self):
        self.by_attaching("leaps", 3400)
        self.by_launching("leaps", 3400)
        self.by_call_sites("leaps", 1000)

    def test_siglongjmp_out_of_a_handler_on_a_stack_of_its_own_10000_times(self):
        self.by_launching("sigleaps", 10000)
        self.by_attaching("sigleaps", 1000)

    def test_coroutines_resumed_out_of_order_within_traced_calls(self):
        self.both("coroutines", 100)
        self.by_call_sites("coroutines", 100)

    def test_two_live_calls_with_the_same_stack_pointer(self):
        self.both("moved", 100)

    def test_tail_calls_between_traced_functions(self):
        self.both("tails", 1000)


class Signals(ControlFlow):
    program = "flow_signals"

    def test_handlers_within_handlers_within_traced_calls_and_on_a_stack_of_their_own(self):
        self.both("handlers", 1000)
        self.by_call_sites("handlers", 1000)

    def test_queued_signals_are_delivered_once_each_and_in_order(self):
        self.both("queued", 1000)

    def test_a_timer_of_10_kHz_is_delivered_as_often_as_it_was_and_loses_no_call(self):
        self.both("ticks", 1000)


class Threads(ControlFlow):
    program = "flow_threads"

    def test_threads_that_come_and_go(self):
        self.both("storm", 1000)

    def test_200_threads_at_once_in_a_traced_call(self):
        self.both("crowd", 5)

    def test_pthread_cancel_at_a_cancellation_point_under_traced_calls(self):
        self.both("cancels", 100)

    def test_pthread_cancel_anywhere_under_traced_calls(self):
        self.both("asynchronous", 100)

    def test_pthread_exit_under_traced_calls(self):
        self.both("exits", 200)
        self.by_call_sites("exits", 100)


class Exceptions(ControlFlow):
    program = "flow_throws"

    def test_thrown_through_traced_frames_rethrown_replaced_and_caught_above(self):
        self.both("throws", 500)
        self.by_call_sites("throws", 500)

    def test_in_four_threads_at_once_and_from_thread_to_thread(self):
        self.both("threads", 100)

    def test_uncaught_the_program_dies_of_it_as_without_rtrace(self):
        words = self.words("uncaught", 1)
        result = harness.run(self.options() + ["--"] + words)
        self.assertEqual((counting.said(result.stdout), result.status), self.untraced(words), result)
        self.assertEqual(counting.of_trace(result, self.functions), {"through": counting.Counts(1, 0, 1)}, result)
        self.assertIn("+++ killed by SIGABRT", result.trace)

    def test_the_unwinder_s_own_functions_may_be_traced_too(self):
        words = self.words("throws", 200)
        names = ("__cxa_throw", "__cxa_rethrow", "_Unwind_RaiseException", "__cxa_begin_catch", "__cxa_end_catch")
        result = harness.run([word for name in names for word in ("-x", name)] + ["--"] + words)
        self.assertEqual((counting.said(result.stdout), result.status), self.untraced(words), result)
        for name, calls in zip(names, (400, 200, 600, 600, 600)):
            self.assertEqual(len(re.findall(r"(?m)^%s@lib" % name, result.trace)), calls, name)


class LeftForGood(unittest.TestCase):
    """Calls that exceptions have left in a process that goes on, as a server's do."""
    COUNT = 400

    @staticmethod
    def ask(process, line):
        process.process.stdin.write(line + "\n")
        process.process.stdin.flush()
        process.expect("done")

    def traced(self, *options, lines=("400",), look=None):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf, \
                harness.Target([harness.target("requests")]) as process:
            conf.write("long parse(long, string);\nlong handle(long);\n")
            conf.flush()
            process.expect("pid ")
            rtrace = harness.Attached(["-F", conf.name, *options, "-x", "parse", "-x", "handle"], [process.pid])
            try:
                for line in lines:
                    self.ask(process, line)
                if look is not None:
                    look(rtrace)
                result = rtrace.stop()
            finally:
                rtrace.abandon()
        self.assertEqual(result.status, 0, result)
        return result

    def calls(self, result):
        records = [json.loads(line) for line in result.trace.splitlines()]
        return collections.Counter((call["name"], call.get("outcome") or "returned", call.get("inherited", False))
                                   for call in records if call["type"] == "call")

    def test_they_do_not_stand_open_when_rtrace_leaves(self):
        calls = self.calls(self.traced("--json"))
        # Of the last one nothing has begun in its place yet.
        self.assertLessEqual(calls.pop(("parse", "open", False), 0), 1, calls)
        self.assertEqual(calls, {("handle", "returned", False): self.COUNT, ("parse", "returned", False): self.COUNT // 2,
                                 ("parse", "no return", False): self.COUNT // 2}, calls)

    def test_children_are_not_in_them(self):
        calls = self.calls(self.traced("-f", "--json", lines=("400", "fork", "fork", "fork")))
        self.assertEqual([call for call in calls if call[2]], [], calls)

    def test_they_are_told_of_while_the_process_goes_on(self):
        def look(rtrace):
            harness.wait_until(lambda: len(re.findall("parse resumed> <no return", harness.read_text(rtrace.output))) >=
                               self.COUNT // 2 - 32, "calls that were left are told of")
        result = self.traced(look=look)
        self.assertEqual(len(re.findall("parse resumed> <no return", result.trace)), self.COUNT // 2, result)


class AConventionOfItsOwn(unittest.TestCase):
    """Functions that preserve no register, in an object that says so."""

    def test_their_returns_are_seen(self):
        result = harness.run(["-q", "-a0", "-x", "clobbers", "--", harness.target("own_convention_go"), "40"])
        self.assertEqual((result.status, result.stdout), (0, "820\n"), result)
        self.assertNotIn("no return", result.trace)
        self.assertEqual([int(line.rsplit("= ", 1)[1]) for line in result.lines if line.startswith("clobbers(")],
                         list(range(1, 41)))

    def test_elsewhere_they_are_not_taken_for_such(self):
        result = harness.run(["-q", "-x", "clobbers", "--", harness.target("own_convention"), "40"])
        self.assertEqual((result.status, result.stdout), (0, "820\n"), result)
        self.assertGreater(result.trace.count("no return"), 30)


if __name__ == "__main__":
    unittest.main()
