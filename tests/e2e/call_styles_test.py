#!/usr/bin/python3
"""Every way in which a program can call a function, and a function can begin: counts are the program's own."""
import os
import re
import tempfile
import unittest

import harness
from hosts import Host, attached, count, sum_of
from leaving_test import kill_both

CALLS = 25
STYLES = ("now", "lazy", "ibtplt", "ibtplt_lazy", "noplt", "noplt_exec", "stripped")


def trace(arguments, program, *words):
    result = harness.run(["-F", harness.CONF, *arguments, "--", harness.target(program), *words])
    if result.status != 0:
        raise harness.Failure("status 0 expected\n%s" % result)
    return result


class Linked(unittest.TestCase):
    """The same source, linked in every way; attached, before and after its first call."""

    def traced(self, style, *options):
        with Host(program=harness.target("host_" + style)) as host:
            with attached(host, *options) as box:
                self.assertEqual(host.ask("add %d" % CALLS, "sum"), sum_of(1, CALLS, 1))
            with attached(host, *options) as again:
                self.assertEqual(host.ask("add %d" % CALLS, "sum"), sum_of(1, CALLS, 1))
            host.quit()
        return box.result, again.result

    def test_call_sites(self):
        for style in STYLES:
            for result in self.traced(style, "-e", "add@MAIN"):
                with self.subTest(style=style):
                    self.assertEqual(count(result, r"host_%s->add\(\d+, 1\) += \d+$" % style), CALLS, result)
                    self.assertEqual(len(result.lines), CALLS, result)

    def test_call_sites_by_the_library_that_implements_them(self):
        for style in STYLES:
            for result in self.traced(style, "-l", "libfixture.so"):
                with self.subTest(style=style):
                    self.assertEqual(count(result, r"host_%s->add\(\d+, 1\) += \d+$" % style), CALLS, result)

    def test_call_sites_and_entries_together(self):
        for style in STYLES:
            for result in self.traced(style, "-e", "add@MAIN", "-x", "add"):
                with self.subTest(style=style):
                    for pattern in (r"host_%s->add\(\d+, 1" % style, r"add@libfixture\.so\(\d+, 1\) += \d+$"):
                        self.assertEqual(count(result, pattern), CALLS, result)

    def test_counted_in_a_summary(self):
        for style in STYLES:
            for result in self.traced(style, "-c", "-e", "add@MAIN"):
                with self.subTest(style=style):
                    calls = harness.Summary(result.trace).calls()
                    self.assertEqual([calls[name] for name in calls if name.split("->")[-1] == "add"], [CALLS], result)

    def test_static_programs_attached(self):
        for program in ("waits_static", "waits_static_pie"):
            with self.subTest(program=program), harness.Target([harness.target(program), str(CALLS)]) as process:
                process.expect("pid ")
                rtrace = harness.Attached(["-F", harness.CONF, "-x", "add"], [process.pid])
                process.go()
                process.expect("done")
                result = rtrace.stop()
                self.assertEqual(count(result, r"add\(\d+, 1\) += \d+$"), CALLS, result)
                self.assertEqual(harness.altered_code(process.pid), [])
                process.go()
                process.expect("done")


class ByRegister(unittest.TestCase):
    """A slot that is loaded in front of a loop, beside a stub that other calls go through."""

    def test_every_call_is_seen(self):
        for options in (["-e", "add"], ["-l", "libfixture.so"]):
            with self.subTest(options):
                result = trace(options, "register_calls", "100")
                self.assertEqual(count(result, r"register_calls->add\(\d+, 1\) += \d+$"), 200, result)

    def test_a_pointer_that_is_only_kept_costs_nothing(self):
        result = trace(["--explain", "-e", "twice"], "register_calls", "100")
        self.assertEqual(count(result, r"register_calls->twice\(\d+\) += \d+$"), 100, result)
        self.assertNotIn("callee's entry", result.stderr)


class Begun(unittest.TestCase):
    """Functions by their first instruction."""

    def names(self):
        path = os.path.join(harness.HERE, "targets", "firsts.inc")
        return re.findall(r"(?m)^FIRST\((\w+),", harness.read_text(path))

    def test_every_kind_of_first_instruction_is_passed_unharmed_and_every_call_seen(self):
        rounds, names = 20, self.names()
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("".join("long first_%s(long,long);\n" % name for name in names))
            conf.flush()
            result = trace(["-F", conf.name, "-x", "first_*"], "firsts", str(rounds))
        self.assertGreater(len(names), 40)
        self.assertNotIn("declined", result.stderr)
        expected = ["first_" + name for _ in range(rounds) for name in names]
        entered = [match.group(1) for match in (re.match(r"(first_\w+)\(", line) for line in result.lines) if match]
        self.assertEqual(entered, expected)
        # Entry and return, on one line or on two.
        self.assertEqual(count(result, r"(first_\w+\(|<\.\.\. first_\w+ resumed>).* = -?\d+$"), len(expected), result)
        self.assertEqual(count(result, r"first_push\(7, 21\) += 8$"), 1)
        self.assertEqual(count(result, r"first_syscall\(7, 21\) += -38$"), 1)
        self.assertEqual(count(result, r"first_back_to_first\(7, 21\) += 0$"), 1)

    def test_all_at_once_with_what_they_call(self):
        result = trace(["-x", "first_*", "-x", "twice_it", "-x", "call_first"], "firsts", "20")
        self.assertEqual(count(result, r"first_\w+\("), 20 * len(self.names()), result)
        self.assertEqual(count(result, r"call_first\("), 20 * len(self.names()), result)
        self.assertEqual(count(result, r"twice_it\("), 2 * 20, result)


class Ifunc(unittest.TestCase):
    ROUNDS = 50

    def counts(self, program, *options):
        return trace(options, program, str(self.ROUNDS))

    def test_an_entry_is_that_of_the_implementation_under_the_symbol_s_name(self):
        for program in ("ifunc_user", "ifunc_user_noplt"):
            with self.subTest(program=program):
                result = self.counts(program, "-x", "chosen")
                self.assertEqual(count(result, r"chosen@libifunc\.so\("), 2 * self.ROUNDS, result)
                self.assertEqual(len(result.lines), 2 * self.ROUNDS + 1, result)

    def test_one_of_an_object_s_own(self):
        result = self.counts("ifunc_user", "-x", "local_chosen")
        self.assertEqual(count(result, r"local_chosen@libifunc\.so\("), self.ROUNDS, result)

    def test_call_sites(self):
        for program in ("ifunc_user", "ifunc_user_noplt"):
            with self.subTest(program=program):
                result = self.counts(program, "-e", "chosen+strlen+memcpy@MAIN", "-e", "chosen@libifunc.so")
                for pattern, times in ((program + "->chosen", 1), (r"libifunc\.so->chosen", 1),
                                       (program + "->strlen", 1), (program + "->memcpy", 1)):
                    self.assertEqual(count(result, pattern + r"\("), times * self.ROUNDS, result)

    def test_those_of_the_C_library(self):
        result = self.counts("ifunc_user", "-x", "strlen", "-x", "memcpy", "-e", "strlen+memcpy@MAIN")
        for name in ("strlen", "memcpy"):
            self.assertEqual(count(result, r"ifunc_user->%s\(" % name), self.ROUNDS, result)
            # The dynamic linker and the C library may call theirs as well.
            self.assertGreaterEqual(count(result, r"%s@libc\.so\.6\(" % name), self.ROUNDS, result)

    def test_one_line_where_what_it_chose_was_asked_for_by_its_own_name_too(self):
        for program in ("ifunc_user", "ifunc_user_noplt", "ifunc_static"):
            with self.subTest(program=program):
                result = self.counts(program, "-L", "-x", "*chosen+*plain-resolve*")
                self.assertEqual(count(result, r"\b(?:chosen|plain)(?:@libifunc\.so)?\("), 2 * self.ROUNDS, result)
                self.assertEqual(count(result, r"\blocal_(?:chosen|plain)(?:@libifunc\.so)?\("), self.ROUNDS, result)

    def test_bound_at_its_first_call_after_the_attach(self):
        with Host() as host:
            number = host.open(harness.target("libifunc.so"), "lazy")
            with attached(host, "-x", "chosen", "-x", "local_chosen", "-e", "chosen@libifunc.so") as box:
                self.assertEqual(host.ask("call %d 1 %d" % (number, CALLS), "sum"),
                                 2 * sum(range(1, CALLS + 1)) + 15 * CALLS)
            host.quit()
        for pattern in (r"chosen@libifunc\.so\(", r"local_chosen@libifunc\.so\(", r"libifunc\.so->chosen\("):
            self.assertEqual(count(box.result, pattern), CALLS, box.result)

    def test_in_static_programs(self):
        for program in ("ifunc_static", "ifunc_static_pie"):
            with self.subTest(program=program):
                result = self.counts(program, "-x", "chosen")
                self.assertEqual(count(result, r"chosen\("), 2 * self.ROUNDS, result)


class Vdso(unittest.TestCase):
    """Functions of the C library whose implementation is the kernel's."""
    ENTRIES = ("-x", "gettimeofday", "-x", "time")

    def check(self, program, options, followed=0, leave=None):
        """The trace of so many rounds while it is traced; `leave` ends that otherwise than by SIGINT."""
        with harness.Target([harness.target(program)]) as process:
            def rounds():
                process.process.stdin.write("%d\n" % CALLS)
                process.process.stdin.flush()
                process.expect("wrong 0 child 0\n")
            process.expect("pid ")
            rounds()
            rtrace = harness.Attached(options, [process.pid])
            rounds()
            if leave is None:
                result = rtrace.stop()
                self.assertEqual(result.status, 0, result)
                for name in ("gettimeofday", "time"):
                    self.assertEqual(count(result, r"(?:\[pid \d+\] )?(?:\d+ )?(?:%s->)?%s(?:@[\w.]+)?\(" % (program, name)),
                                     CALLS + followed, result)
            else:
                leave(rtrace, process.pid)
            rounds()
            process.process.stdin.close()
            self.assertEqual(process.process.wait(harness.PATIENCE), 0)

    def test_they_are_traced_by_their_names(self):
        for program in ("clocks", "clocks_noplt", "clocks_static"):
            with self.subTest(program=program):
                self.check(program, self.ENTRIES)

    def test_their_calls_are_traced_where_they_are_made(self):
        for program in ("clocks", "clocks_noplt"):
            with self.subTest(program=program):
                self.check(program, ("-e", "gettimeofday+time@MAIN"))

    def test_in_children(self):
        self.check("clocks_noplt", ("-f", *self.ENTRIES), followed=1)

    def test_when_both_of_rtrace_s_processes_are_killed(self):
        def killed(rtrace, pid):
            kill_both(rtrace)
            self.assertEqual(harness.run(["--repair", "-p", str(pid)]).status, 0)
        for options in (self.ENTRIES, ("-e", "gettimeofday+time@MAIN")):
            with self.subTest(options=options):
                self.check("clocks_noplt", options, leave=killed)


class Names(unittest.TestCase):
    """What libraries and functions are called in patterns, and how often one counts."""

    def loads(self, *options, libraries=(("libversioned.so", 4000),), rounds=5):
        words = [str(rounds)]
        for name, adds in libraries:
            words += [harness.target(name), str(adds)]
        return trace(options, "loads", *words)

    def test_a_library_by_names_with_signs_in_them(self):
        path = harness.target("libversioned.so")
        for library in ("libturn++-3.1.so.3.1", "libturn++-3.1", "libturn++", "libturn*", "libversioned.so", path,
                        os.path.dirname(path) + "/libv*", "/.*turn[+]+-3.*/", "'libturn++-3.1.so.3.1'"):
            with self.subTest(library=library):
                result = self.loads("-x", "plugin_work@" + library)
                self.assertEqual(count(result, r"plugin_work@libturn\+\+-3\.1\.so\.3\.1\("), 5, result)
        self.assertEqual(count(self.loads("-x", "plugin_work@libturn"), "plugin_work"), 0)

    @unittest.skipUnless(os.path.exists("/usr/bin/cmake"), "cmake is not installed")
    def test_debian_s_own(self):
        result = harness.run(["-c", "-x", "_Znwm@libstdc++.so.6", "-x", "malloc@/usr/lib/x86_64-linux-gnu/libc.*", "--",
                              "/usr/bin/cmake", "--version"])
        self.assertEqual(result.status, 0, result)
        calls = {name.split("@")[0]: times for name, times in harness.Summary(result.trace).calls().items()}
        self.assertGreater(calls["_Znwm"], 0, result)
        # operator new allocates by malloc, each time.
        self.assertGreaterEqual(calls["malloc"], calls["_Znwm"], result)

    def test_the_same_name_in_two_libraries_is_kept_apart_in_a_summary(self):
        result = self.loads("-c", "-x", "plugin_work", rounds=7,
                            libraries=(("libplugin_a.so", 1000), ("libplugin_b.so", 2000)))
        table = harness.Summary(result.trace)
        self.assertEqual(table.calls(), {"plugin_work@libplugin_a.so": 7, "plugin_work@libplugin_b.so": 7}, result)
        self.assertEqual(table.total["calls"], 14)

    def test_one_address_with_two_symbols_is_one_call_under_the_name_that_was_asked_for(self):
        for pattern in ("plugin_work", "sized_work"):
            result = self.loads("-x", pattern, libraries=(("libalias_zero.so", 5),))
            self.assertEqual(count(result, r"%s@libalias_zero\.so\(" % pattern), 5, result)
            self.assertEqual(len(result.lines), 6, result)
        result = self.loads("-x", "*_work", libraries=(("libalias_zero.so", 5),))
        self.assertEqual(count(result, r"\w+@libalias_zero\.so\("), 5, result)

    def test_each_call_of_a_function_with_two_names_is_shown_by_the_one_it_is_called_by(self):
        each = {"strtol": 1, "strtoll": 3, "memcpy": 2, "memmove": 1}
        for program in ("two_names", "two_names_noplt", "two_names_noplt_exec"):
            for options, names in (((), tuple(each)), (("-e", "strtoll", "-e", "memmove"), ("strtoll", "memmove")),
                                   (("-e", "strtol+strtoll+memcpy+memmove@MAIN"), tuple(each)),
                                   (("-l", "libc"), tuple(each))):
                with self.subTest(program=program, options=options):
                    result = trace(options, program, str(CALLS))
                    shown = {name: count(result, r"^(?:%s->)?%s\(" % (program, name)) for name in each}
                    self.assertEqual(shown, {name: CALLS * each[name] if name in names else 0 for name in each}, result)
                    self.assertEqual(count(result, r'.*strtoll\("4", nil, 8\) += 4$'),
                                     CALLS if "strtoll" in names else 0, result)

    def test_names_packed_into_a_stripped_library(self):
        result = self.loads("--explain", "-x", "garbage_collect", libraries=(("libpacked.so", 1),))
        self.assertEqual(count(result, r"garbage_collect@libstatics\.so\(\d+\) += \d+$"), 5, result)
        self.assertIn("function in .gnu_debugdata", result.stderr)

    def test_a_cold_part_named_exactly_shows_its_entries_and_no_return(self):
        result = self.loads("-x", "plugin_work.cold", "-x", "plugin_work", rounds=9, libraries=(("libcold.so", 3),))
        self.assertEqual(count(result, r"plugin_work\.cold@libcold\.so~?\(.* = \?$"), 3, result)
        self.assertEqual(count(result, r"plugin_work@libcold\.so\("), 9, result)
        result = self.loads("-x", "plugin_*", rounds=9, libraries=(("libcold.so", 3),))
        self.assertEqual(count(result, r"plugin_work@libcold\.so\("), 9, result)
        self.assertEqual(count(result, r".*cold\(|.*\.cold@"), 0, result)


if __name__ == "__main__":
    unittest.main()
