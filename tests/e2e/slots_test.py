#!/usr/bin/python3
"""Library calls without stubs (-fno-plt) by trampolines: GOT slots lead to wrappers, where they are called through only."""
import os
import re
import signal
import struct
import subprocess
import unittest

import harness
from leaving_test import kill_both, repair
from hosts import Host, attached

COUNT = 2000
OPTIONS = ["-F", harness.CONF, "--mechanism=trampoline"]
PROBES = ["-e", "add@MAIN", "-e", "twice@MAIN", "-e", "inner@MAIN"]
POINTER = "its address is taken, too: "


def sum_of_calls(count):
    return sum(i + 1 for i in range(1, count + 1))


def sum_of_tails(count):
    return sum(2 * (i + 1) + 2 * i for i in range(1, count + 1))


def sum_of_threads(count):
    return 4 * (sum_of_calls(count) + sum_of_tails(count) + sum_of_calls(count))


class Slots:
    """targets/slots.c, told what to do, and its GOT slots."""

    def __init__(self):
        self.target = harness.Target([harness.target("slots")])
        self.pid = int(self.target.expect(r"pid (\d+)").group(1))
        listed = subprocess.run(["readelf", "-rW", harness.target("slots")], capture_output=True, text=True, check=True).stdout
        with open("/proc/%d/maps" % self.pid) as maps:
            self.base = int(next(line for line in maps if line.rstrip().endswith("/slots")).split("-")[0], 16)
        self.slots = {name: self.base + int(offset, 16)
                      for offset, name in re.findall(r"^([0-9a-f]+) .* R_X86_64_GLOB_DAT +\S+ (\w+)", listed, re.M)}
        self.own = self.values()

    def values(self):
        with open("/proc/%d/mem" % self.pid, "rb", buffering=0) as memory:
            return {name: struct.unpack("=Q", os.pread(memory.fileno(), 8, at))[0] for name, at in self.slots.items()}

    def led_elsewhere(self):
        now = self.values()
        return {name for name in now if now[name] != self.own[name]}

    def wait_for_wrappers(self, *names):
        harness.wait_until(lambda: self.led_elsewhere() == set(names), "slots lead to wrappers")

    def tell(self, line):
        self.target.process.stdin.write(line + "\n")
        self.target.process.stdin.flush()

    def answer(self):
        return int(self.target.expect(r"is (-?\d+)").group(1))

    def ask(self, line):
        self.tell(line)
        return self.answer()

    def quit(self):
        self.tell("quit")
        rest, status = self.target.finish()
        if status != 0:
            raise harness.Failure("it ended with %d\n%s" % (status, rest))


class Case(unittest.TestCase):
    def setUp(self):
        self.program = Slots()
        self.addCleanup(self.program.target.abandon)

    def attach(self, *options):
        rtrace = harness.Attached(OPTIONS + list(options or PROBES), [self.program.pid])
        self.addCleanup(rtrace.abandon)
        return rtrace

    def is_as_before(self):
        self.assertEqual(self.program.led_elsewhere(), set())
        self.assertEqual(harness.altered_code(self.program.pid), [])
        self.assertEqual(harness.foreign_mappings(self.program.pid), [])

    def calls(self, result, name):
        return len(re.findall(r"\bslots->%s\(" % name, result.trace))


class Seen(Case):
    def test_every_call_is_a_line_tail_calls_and_those_by_threads_included(self):
        rtrace = self.attach()
        self.program.wait_for_wrappers("add", "twice")
        self.assertEqual(self.program.ask("calls %d" % COUNT), sum_of_calls(COUNT))
        self.assertEqual(self.program.ask("tails %d" % COUNT), sum_of_tails(COUNT))
        self.assertEqual(self.program.ask("pointer %d" % COUNT), sum_of_calls(COUNT))
        self.assertEqual(self.program.ask("threads %d" % COUNT), sum_of_threads(COUNT))
        result = rtrace.stop()
        self.is_as_before()
        self.assertEqual([self.calls(result, name) for name in ("add", "twice", "inner")],
                         [5 * COUNT, 10 * COUNT, 5 * COUNT], result)
        self.assertIn("slots->twice(2) ", result.trace)
        self.assertRegex(result.trace, r"slots->add\(1, 1\) += 2\n")
        self.program.quit()

    def test_what_a_callee_jumps_to_is_no_call_of_the_caller_s(self):
        for mechanism in ("breakpoint", "trampoline"):
            rtrace = self.attach("--mechanism=" + mechanism, "-e", "tail_outer+tail_inner@MAIN")
            self.assertEqual(self.program.ask("passed 5"), 10 + sum(10 * (i + 1) for i in range(1, 6)))
            result = rtrace.stop()
            self.assertEqual([self.calls(result, name) for name in ("tail_outer", "tail_inner")], [5, 1], result)

    def test_counted_but_for_what_is_a_pointer_too(self):
        rtrace = self.attach("-c", *PROBES)
        self.program.wait_for_wrappers("add", "twice")
        self.assertEqual(self.program.ask("threads %d" % COUNT), sum_of_threads(COUNT))
        result = rtrace.stop()
        self.is_as_before()
        calls = harness.Summary(result.trace).calls()
        self.assertEqual(calls, {"slots->add": 4 * COUNT, "slots->twice": 8 * COUNT, "slots->inner": 4 * COUNT}, result)
        self.assertIn("slots->inner: a breakpoint, no trampoline: " + POINTER, result.stderr)
        self.assertIn("rtrace: 3 trampolines, 1 breakpoint\n", result.stderr)
        self.program.quit()

    def test_what_is_called_often_goes_by_trampoline_by_itself(self):
        rtrace = harness.Attached(["-F", harness.CONF, "--mechanism=auto", "--summary", *PROBES], [self.program.pid])
        self.addCleanup(rtrace.abandon)
        asked = 0
        while self.program.led_elsewhere() != {"add", "twice"}:
            self.assertEqual(self.program.ask("threads 100"), sum_of_threads(100))
            asked += 100
        result = rtrace.stop()
        self.is_as_before()
        self.assertRegex(result.trace, r"trampolines since they were called often: .*slots->twice")
        self.assertEqual([self.calls(result, name) for name in ("add", "twice")], [4 * asked, 8 * asked], result)
        self.program.quit()

    def test_the_function_itself_may_be_wrapped_too(self):
        rtrace = self.attach("-e", "add@MAIN", "-x", "add@libfixture.so")
        self.program.wait_for_wrappers("add")
        self.assertEqual(self.program.ask("calls %d" % COUNT), sum_of_calls(COUNT))
        result = rtrace.stop()
        self.is_as_before()
        self.assertIn("rtrace: 2 trampolines, 0 breakpoints\n", result.stderr)
        self.assertEqual(self.calls(result, "add"), COUNT, result)
        self.assertEqual(len(re.findall(r"^ *(?:\S+ )?add@libfixture\.so\(", result.trace, re.M)), COUNT, result)
        self.program.quit()

    def test_children_call_through_the_same_slots(self):
        for follow, seen in (([], 0), (["-f"], 50)):
            with self.subTest(follow=follow):
                rtrace = self.attach("-c", *follow, *PROBES)
                self.program.wait_for_wrappers("add", "twice")
                self.assertEqual(self.program.ask("children 50"), 50)
                result = rtrace.stop()
                self.is_as_before()
                self.assertEqual(harness.Summary(result.trace).calls().get("slots->add", 0), seen, result)
        self.program.quit()


class Unharmed(Case):
    ROUNDS = 25

    def test_slots_are_as_before_however_often_it_is_attached_to_under_load(self):
        for mode in ([], ["-c"]):
            for _ in range(self.ROUNDS):
                self.program.tell("threads %d" % (50 * COUNT))
                rtrace = self.attach(*mode, *PROBES)
                result = rtrace.stop()
                self.assertEqual(self.program.answer(), sum_of_threads(50 * COUNT))
                self.assertEqual(result.status, 0, result)
                self.is_as_before()
        self.program.quit()

    def test_when_both_are_killed_calls_pass_through_until_it_is_repaired(self):
        for _ in range(self.ROUNDS // 5):
            self.program.tell("threads %d" % (50 * COUNT))
            rtrace = self.attach("-c", *PROBES)
            kill_both(rtrace)
            self.assertEqual(self.program.answer(), sum_of_threads(50 * COUNT))
            self.assertEqual(self.program.led_elsewhere() - {"add", "twice"}, set())
            self.assertEqual(self.program.ask("children 10"), 10)
            done = repair(self.program.pid)
            self.assertEqual(done.status, 0, done)
            self.is_as_before()
        self.program.quit()

    def test_when_the_engine_is_killed_the_other_puts_them_right(self):
        rtrace = self.attach("-c", *PROBES)
        self.program.wait_for_wrappers("add", "twice")
        self.program.tell("threads %d" % (50 * COUNT))
        from survival_test import engine_of
        os.kill(engine_of(rtrace.process.pid), signal.SIGKILL)
        self.assertEqual(self.program.answer(), sum_of_threads(50 * COUNT))
        rtrace.process.wait(harness.PATIENCE)
        self.is_as_before()
        self.program.quit()

    def test_a_program_may_keep_what_a_slot_held(self):
        """Hooking libraries read it and write their own function there: what they call then must stay."""
        rtrace = self.attach("-c", *PROBES)
        self.program.wait_for_wrappers("add", "twice")
        self.assertEqual([self.program.ask("keep"), self.program.ask("hook")], [0, 0])
        self.assertEqual(self.program.ask("calls %d" % COUNT), sum_of_calls(COUNT))
        self.assertEqual(self.program.ask("children 50"), 50)
        result = rtrace.stop()
        self.assertEqual(self.program.led_elsewhere(), {"add"})
        self.assertEqual(self.program.ask("calls %d" % COUNT), sum_of_calls(COUNT))
        self.assertEqual(self.program.ask("kept %d" % COUNT), sum_of_calls(COUNT))
        self.assertEqual(self.program.ask("hooked"), 2 * COUNT)
        self.assertEqual(harness.Summary(result.trace).calls()["slots->add"], COUNT, result)
        self.assertIn("was lost: the program has unmapped, written to", result.stderr)
        self.program.quit()


class Loaded(unittest.TestCase):
    def test_slots_of_a_library_are_wrapped_when_it_has_been_relocated(self):
        with Host() as host:
            with attached(host, "--mechanism=trampoline", "-e", "add@libworker_noplt.so") as box:
                for _ in range(3):
                    library = host.open(harness.target("libworker_noplt.so"))
                    host.work(library, 2)
                    self.assertEqual(host.ask("close %d" % library, "closed"), 0)
            host.quit()
        self.assertEqual(len(re.findall(r"libworker_noplt\.so->add\(", box.result.trace)), 75, box.result)
        self.assertIn("rtrace: 6 trampolines, 0 breakpoints\n", box.result.stderr)


    def test_a_caller_that_takes_the_address_may_be_loaded_any_number_of_times(self):
        for mode in ([], ["-c"]):
            with self.subTest(mode=mode), Host() as host:
                with attached(host, "--mechanism=trampoline", *mode, "-e", "twice@libpointers.so") as box:
                    for _ in range(3):
                        library = host.open(harness.target("libpointers.so"))
                        host.work(library, 1000)
                        self.assertEqual(host.ask("close %d" % library, "closed"), 0)
                host.quit()
                if mode:
                    calls = harness.Summary(box.result.trace).calls()
                    self.assertEqual(calls, {"libpointers.so->twice": 75}, box.result)
                else:
                    self.assertEqual(len(re.findall(r"libpointers\.so->twice\(", box.result.trace)), 75, box.result)
                words = "libpointers.so->twice: a breakpoint, no trampoline: " + POINTER
                self.assertEqual(box.result.stderr.count(words), 1, box.result)

    def test_another_object_s_call_behind_a_tail_call_is_not_the_program_s(self):
        for mechanism in ("breakpoint", "trampoline", "auto"):
            with self.subTest(mechanism=mechanism):
                result = harness.run(["-F", harness.CONF, "--mechanism=" + mechanism, "-c", "-e", "add@MAIN", "-e", "twice@MAIN",
                                      harness.target("crossing"), "3000"])
                self.assertEqual(result.status, 0, result)
                self.assertEqual(harness.Summary(result.trace).calls(), {"crossing->add": 10, "crossing->twice": 3000}, result)


ROUNDS = 40


class JumpsByRegister(unittest.TestCase):
    """What is called several times in a function may be kept in a register, by which the last call is a jump."""

    def counted(self, mechanism, *options, program="by_register"):
        result = harness.run(["-F", harness.CONF, "--mechanism=" + mechanism, "-c", *options, "--", harness.target(program),
                              str(ROUNDS)])
        self.assertEqual(result.status, 0, result)
        self.assertEqual(int(result.stdout), sum(range(ROUNDS)) + 3 * ROUNDS + 6, result)
        return harness.Summary(result.trace).calls()

    def test_those_of_a_function_that_another_object_has_called_are_the_program_s(self):
        for mechanism in ("breakpoint", "trampoline", "auto"):
            with self.subTest(mechanism=mechanism):
                calls = self.counted(mechanism, "-e", "free@MAIN")
                self.assertEqual(calls, {"by_register->free": 3 * ROUNDS})

    def test_those_of_a_library_are_its_and_not_the_program_s(self):
        its, own = {"libthrice.so->add": 3 * ROUNDS}, {"by_register->add": 2}
        for mechanism in ("breakpoint", "trampoline", "auto"):
            for options, wanted in ((["-e", "add@libthrice.so"], its), (["-e", "add@MAIN"], own),
                                    (["-l", "libfixture.so"], its | own), (["-e", "add+thrice"], its | own | {
                                        "by_register->thrice": ROUNDS})):
                with self.subTest(mechanism=mechanism, options=options):
                    self.assertEqual(self.counted(mechanism, *options), wanted)

    def test_a_jump_that_leads_elsewhere_is_no_call(self):
        """The C library's printf jumps by registers to its own labels, and loads its slots."""
        result = harness.run(["--explain", "-e", "*@libc.so.6", "--", harness.target("by_register"), "1"])
        self.assertEqual(result.status, 0, result)
        self.assertIn("_IO_funlockfile at", result.stderr)
        self.assertNotIn("_IO_funlockfile at", "".join(
            line for line in result.stderr.splitlines(True) if "jmp *%reg" in line))


if __name__ == "__main__":
    unittest.main()
