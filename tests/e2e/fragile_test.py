#!/usr/bin/python3
"""Attach and detach, again and again, to programs that a careless tracer breaks."""
import unittest

import harness

ROUNDS = 10


class Fragile(unittest.TestCase):
    def check(self, what, arguments=(), pages=True, rounds=ROUNDS):
        """The program's own judgement, its code, and its memory map after each detach."""
        with harness.Target([harness.target("fragile"), what]) as process:
            process.expect("pid ")
            for _ in range(rounds):
                result = harness.Attached(list(arguments) + ["-x", "add"], [process.pid]).stop()
                self.assertEqual(result.status, 0, result)
                self.assertEqual(harness.altered_code(process.pid), [], result)
                if pages:
                    self.assertEqual(harness.rtrace_mappings(process.pid), [], result)
            process.go()
            self.assertEqual(process.finish()[1], 0)

    def test_a_process_that_forks_all_the_time(self):
        self.check("forks")

    def test_the_same_with_its_children_followed(self):
        self.check("forks", ["-f"])

    def test_a_coroutine_on_a_stack_with_the_program_s_data_below_it(self):
        self.check("stack")

    def test_a_program_that_ignores_sigtrap(self):
        self.check("ignored")

    def test_a_program_that_blocks_sigtrap_and_has_a_handler_for_it(self):
        self.check("blocked")

    def test_a_program_that_blocks_sigtrap_just_when_it_is_attached_to(self):
        for _ in range(ROUNDS):
            self.check("blocked", rounds=1)

    def test_threads_keep_the_mask_they_were_given(self):
        self.check("threads")

    def test_a_seccomp_filter_set_while_traced_kills_nobody(self):
        with harness.Target([harness.target("fragile"), "filter"]) as process:
            process.expect("pid ")
            rtrace = harness.Attached(["-x", "add"], [process.pid])
            process.go()
            process.expect("filtered")
            self.assertEqual(rtrace.stop().status, 0)
            self.assertEqual(harness.altered_code(process.pid), [])
            process.go()
            self.assertEqual(process.finish()[1], 0)


class ProvidingItsOwnMemory(unittest.TestCase):
    """To read what an argument points to may mean to wait for a thread that stands at a probe itself."""

    def test_it_goes_on(self):
        with harness.Target([harness.target("provides")]) as process:
            first = process.process.stdout.readline()
            if not first.startswith("pid "):
                self.skipTest("no userfaultfd here")
            process.go()
            process.expect("wrong 0\n")
            rtrace = harness.Attached(["--mechanism=breakpoint", "-x", "strdup@libc.so.6"], [process.pid])
            process.go()
            process.expect("wrong 0\n")
            result = rtrace.stop()
            self.assertIn("the engine waits for memory", result.stderr)
            process.go()
            process.expect("wrong 0\n")
            self.assertEqual(harness.altered_code(process.pid), [], result)
            process.process.stdin.close()
            self.assertEqual(process.process.wait(harness.PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
