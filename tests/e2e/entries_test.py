#!/usr/bin/python3
"""Entries of functions: exact counts where a golden trace would be too long."""
import collections
import re
import unittest

import harness


def trace(arguments, program, *words, status=0):
    result = harness.run(["-F", harness.CONF] + arguments + ["--", harness.target(program)] + list(words))
    if result.status != status:
        raise harness.Failure("status %d expected\n%s" % (status, result))
    return result


def count(lines, pattern):
    return sum(1 for line in lines if re.search(pattern, line))


class Frames(unittest.TestCase):
    def test_recursion_100000_deep_has_as_many_entries_and_returns(self):
        deep = 100000
        lines = trace(["-x", "descend"], "entries", "descend", str(deep)).lines
        self.assertEqual(count(lines, r"^descend@libfixture\.so\(\d+ <unfinished \.\.\.>$"), deep)
        self.assertEqual(count(lines, r"^descend@libfixture\.so\(0\) += 0$"), 1)
        returned = [int(line.rpartition("= ")[2]) for line in lines if line.startswith("<... descend@libfixture.so resumed> )")]
        self.assertEqual(returned, list(range(1, deep + 1)))
        self.assertEqual(len(lines), 2 * deep + 2)

    def test_longjmp_over_a_traced_frame_10000_times_leaves_the_program_unharmed(self):
        leaps = 10000
        lines = trace(["-x", "leap"], "entries", "leaps", str(leaps)).lines
        self.assertEqual(count(lines, r"^leap@libfixture\.so\("), leaps)
        self.assertEqual(count(lines, r"<no return \.\.\.>$"), leaps)
        self.assertEqual(count(lines, r"leap.* = "), 0)

    def test_longjmp_itself_may_be_traced_with_the_function_that_calls_it(self):
        lines = trace(["-x", "leap+longjmp"], "entries", "leaps", "50").lines
        self.assertEqual(count(lines, r"^leap@libfixture\.so\("), 50)
        self.assertGreaterEqual(count(lines, r"longjmp@libc\.so\.6\("), 50)


class WrongSymbols(unittest.TestCase):
    def test_one_that_points_into_an_instruction_is_declined_and_one_that_points_behind_it_is_traced(self):
        for mechanism in ("breakpoint", "trampoline", "auto"):
            result = harness.run(["--mechanism=" + mechanism, "-x", "inside@MAIN", "-x", "behind@MAIN", "-x", "sdt:inside:probe",
                                  "--", harness.target("inside")])
            self.assertEqual(result.status, 0, result)
            self.assertIn("inside in inside: its symbol points into an instruction", result.stderr)
            self.assertIn("inside:probe in inside: its note points into an instruction", result.stderr)
            self.assertEqual(count(result.lines, r"^behind\("), 3, result)


class Plugins(unittest.TestCase):
    def test_a_library_that_is_opened_closed_and_opened_again_is_traced_both_times(self):
        plugin = harness.target("libplugin_a.so")
        lines = trace(["-x", "plugin_work"], "loads", "2", plugin, "1000").lines
        self.assertEqual([re.sub(r"\) +=", ") =", line) for line in lines[:-1]],
                         ["plugin_work@libplugin_a.so(%d) = %d" % (i, i + 1000) for i in (1, 2)])

    def test_two_plugins_that_take_turns_at_one_address_lose_no_call(self):
        words = ["100", harness.target("libplugin_a.so"), "1000", harness.target("libplugin_b.so"), "2000"]
        lines = trace(["-x", "plugin_work"], "loads", *words).lines
        expected = []
        for turn in range(1, 101):
            expected.append("plugin_work@libplugin_a.so(%d) = %d" % (turn, turn + 1000))
            expected.append("plugin_work@libplugin_b.so(%d) = %d" % (turn, turn + 2000))
        self.assertEqual([re.sub(r"\) +=", ") =", line) for line in lines[:-1]], expected)

    def test_a_pattern_for_one_plugin_leaves_the_other_alone(self):
        words = ["10", harness.target("libplugin_a.so"), "1000", harness.target("libplugin_b.so"), "2000"]
        lines = trace(["-x", "plugin_work@libplugin_b.so"], "loads", *words).lines
        self.assertEqual(count(lines, "plugin_work@libplugin_b"), 10)
        self.assertEqual(count(lines, "plugin_work@libplugin_a"), 0)


class StaticFunctions(unittest.TestCase):
    def traced(self, pattern):
        return trace(["-x", pattern], "loads", "2", harness.target("libstatics.so"), "1").lines

    def test_a_static_function_of_a_library_opened_later_is_found(self):
        lines = self.traced("garbage_collect")
        self.assertEqual([re.sub(r"\) +=", ") =", line) for line in lines[:-1]],
                         ["garbage_collect@libstatics.so(%d) = %d" % (i, i + 5) for i in (1, 2)])

    def test_the_separate_debug_file_of_a_stripped_library_names_its_static_functions(self):
        lines = trace(["-x", "garbage_collect"], "loads", "2", harness.target("libsplit.so"), "1").lines
        self.assertEqual(count(lines, r"^garbage_collect@libstatics\.so\(\d\) += \d$"), 2)

    def test_in_a_stripped_library_a_static_function_is_not_found_and_that_is_said(self):
        result = trace(["-x", "garbage_collect"], "loads", "2", harness.target("libstripped.so"), "1")
        self.assertEqual(count(result.lines, "garbage_collect"), 0)
        self.assertRegex(result.stderr, r"garbage_collect.*stripped")
        result = trace(["-x", "@MAIN"], "calls_stripped")
        self.assertRegex(result.stderr, r"calls_stripped defines no function; .*stripped")

    def test_a_plain_name_matches_the_clones_that_compilers_make_of_it(self):
        lines = self.traced("gc")
        self.assertEqual(count(lines, r"^gc\S*~\(.*\) += "), 6, lines)
        self.assertEqual(sorted(int(line.rpartition("= ")[2]) for line in lines if line.startswith("gc")),
                         [2, 3, 3, 4, 4, 5])

    def test_cold_parts_match_only_when_named_exactly(self):
        self.assertEqual(count(self.traced("gc*"), r"cold"), 0)
        self.assertEqual(count(self.traced("gc.cold"), r"^gc\.cold@libstatics\.so~?\("), 2)


class Threads(unittest.TestCase):
    def test_every_call_of_four_threads_is_there_in_its_thread_s_order(self):
        each = 2000
        lines = trace(["-x", "work"], "threads", str(each)).lines
        seen, resumed = collections.defaultdict(list), 0
        for line in lines:
            entry = re.match(r"\[pid (\d+)\] work@libfixture\.so\((\d+), (\d+)(?:\) += (\d+)| <unfinished \.\.\.>)$", line)
            if entry:
                seen[entry.group(1), int(entry.group(2))].append(int(entry.group(3)))
                if entry.group(4):
                    self.assertEqual(int(entry.group(4)), int(entry.group(3)) * 3 + int(entry.group(2)))
                else:
                    resumed += 1
        self.assertEqual(len(seen), 4)
        for sequence in seen.values():
            self.assertEqual(sequence, list(range(1, each + 1)))
        self.assertEqual(count(lines, r"^\[pid \d+\] <\.\.\. work@libfixture\.so resumed> \) += \d+$"), resumed)


class Mangled(unittest.TestCase):
    def test_a_pattern_with_colons_matches_demangled_names(self):
        lines = trace(["-x", "shop::Cart::total*"], "shop").lines
        self.assertEqual(count(lines, r"^_ZNK4shop4Cart5totalEi@libcart\.so\("), 1)

    def test_with_C_names_are_printed_demangled(self):
        for options in (["-C"], ["--demangle"]):
            lines = trace(options + ["-x", "_ZNK4shop4Cart5totalEi"], "shop").lines
            self.assertEqual(count(lines, r"^shop::Cart::total\b.*@libcart\.so\("), 1)

    def test_calls_into_a_library_are_printed_demangled_and_match_demangled_names(self):
        for chosen in (["-l", "libcart.so"], ["-e", "shop::Cart::total*"], ["-e", "*::total(int) const@shop"]):
            with self.subTest(chosen):
                lines = trace(["-C"] + chosen, "shop").lines
                self.assertEqual(count(lines, r"^shop->shop::Cart::total\(int\) const\("), 1, lines)


class Summary(unittest.TestCase):
    def test_c_counts_calls_and_prints_no_lines(self):
        result = trace(["-c", "-x", "add"], "entries", "add", "1000")
        table = harness.Summary(result.trace)
        self.assertEqual(table.calls(), {"add@libfixture.so": 1000})
        self.assertEqual(table.total["calls"], 1000)
        self.assertNotIn("add@libfixture.so(", result.trace)


if __name__ == "__main__":
    unittest.main()
