#!/usr/bin/python3
"""SDT probes: which are found, what is shown of them, and what becomes of their semaphores.

sdt_test.py [ROUNDS]: so many kills of rtrace while it has semaphores raised (4).
"""
import json
import os
import re
import signal
import subprocess
import sys
import unittest

import harness

ROUNDS = 4
PYTHON = "/usr/bin/python3"
RUBY = "/usr/bin/ruby"


class Marks(harness.Target):
    def __init__(self):
        super().__init__([harness.target("marks")])
        self.expect("pid ")

    def do(self, *commands):
        for command in commands:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            self.expect("done " + command.split()[0])

    def semaphores(self):
        self.process.stdin.write("show\n")
        self.process.stdin.flush()
        values = self.expect(r"semaphores (\d+) (\d+) (\d+) (\d+)").groups()
        self.expect("done show")
        return [int(value) for value in values]


def marks(arguments, *commands):
    """The program's whole life under rtrace."""
    return harness.run(arguments + [harness.target("marks")], stdin="".join(c + "\n" for c in commands))


def lines_of(result, probe):
    return [line for line in result.lines if "sdt:" + probe in line]


def end(target):
    target.process.kill()
    target.process.communicate()


class Probes(unittest.TestCase):
    def test_a_probe_is_a_line_without_a_result(self):
        result = marks(["-x", "sdt:marks:point"], "work 3")
        self.assertEqual(result.lines, ["sdt:marks:point(%d)" % i for i in range(3)] + ["+++ exited (status 0) +++"],
                         result)

    def test_arguments_have_the_size_and_sign_of_the_note(self):
        result = marks(["-x", "sdt:marks:args"], "args")
        self.assertEqual(lines_of(result, "marks:args"),
                         ['sdt:marks:args(-1, 255, -300, 0xffff, -7, 0xee6b2800, 0xfffffee08e04fb35, "some text", 5)'],
                         result)

    def test_globs_match_in_both_parts_and_each_probe_keeps_its_name(self):
        result = marks(["-x", "sdt:m*:[bp]*"], "work 1")
        self.assertEqual(result.lines[:-1], ['sdt:marks:begin(0, "outer")', "sdt:marks:point(0)",
                                             'sdt:marks:begin(0, "inner")'], result)

    def test_a_pair_of_one_place_is_from_one_time_to_the_next(self):
        result = marks(["-a", "0", "-x", "sdt:marks:point..point"], "work 3")
        self.assertEqual(lines_of(result, "marks"),
                         ["sdt:marks:point..point(0, 1) = <void>", "sdt:marks:point..point(1, 2) = <void>",
                          "sdt:marks:point..point(2 <no return ...>"], result)

    def test_a_pair_is_one_call_and_begins_stack(self):
        result = marks(["-T", "-x", "sdt:marks:begin..end"], "work 1")
        shown = [re.sub(r"<\d+\.\d{6}>", "<T>", re.sub(" +", " ", line)) for line in lines_of(result, "marks")]
        self.assertEqual(shown, ['sdt:marks:begin..end(0, "outer" <unfinished ...>',
                                 'sdt:marks:begin..end(0, "inner") = <void> <T>',
                                 "<... sdt:marks:begin..end resumed> ) = <void> <T>"], result)

    def test_pairs_nest_as_calls_do(self):
        result = marks(["-n", "2", "-x", "sdt:marks:begin..end", "-x", "sdt:marks:point", "-x", "strlen"], "work 1")
        shown = [re.sub(" +=", " =", line) for line in lines_of(result, "marks")]
        self.assertEqual(shown, ['sdt:marks:begin..end(0, "outer" <unfinished ...>', "  sdt:marks:point(0)",
                                 '  sdt:marks:begin..end(0, "inner") = <void>',
                                 "<... sdt:marks:begin..end resumed> ) = <void>"], result)

    def test_a_call_inside_a_pair_is_deeper_than_one_outside(self):
        lines = [json.loads(line) for line in marks(["--json", "-x", "sdt:marks:turn..turned", "-x", "inside"],
                                                    "turn 1", "turn 1").lines]
        self.assertEqual([(line["name"], line["depth"]) for line in lines if line["type"] == "call"],
                         [("inside", 0), ("inside", 1), ("marks:turn..turned", 0)] * 2)

    def test_one_behind_a_call_that_was_left_is_not_inside_it(self):
        lines = [json.loads(line) for line in marks(["--json", "-x", "leaves", "-x", "sdt:marks:begin..end"], "leave 3").lines]
        self.assertEqual([line["depth"] for line in lines if line.get("name") == "marks:begin..end"], [0, 0, 0])
        shown = marks(["-q", "-x", "leaves", "-x", "sdt:marks:begin..end", "--where", "depth == 0"], "leave 3")
        self.assertEqual(len(lines_of(shown, "marks:begin..end")), 3, shown)

    def test_arguments_of_the_end_follow_those_of_the_begin(self):
        result = marks(["-x", "sdt:marks:turn..turned"], "turn 5")
        self.assertEqual([re.sub(" +=", " =", line) for line in lines_of(result, "marks")],
                         ['sdt:marks:turn..turned(5, 10, "done") = <void>'], result)

    def test_an_end_alone_ends_nothing_and_a_begin_alone_has_no_return(self):
        result = marks(["-x", "sdt:marks:begin..end"], "lone", "half")
        self.assertEqual(lines_of(result, "marks"), ['sdt:marks:begin..end(-1, "half" <no return ...>'], result)

    def test_a_probe_may_be_part_of_a_pair_and_stand_for_itself(self):
        result = marks(["-x", "sdt:marks:begin..end", "-x", "sdt:marks:end"], "lone")
        self.assertEqual(lines_of(result, "marks"), ["sdt:marks:end()"], result)

    def test_pairs_belong_to_their_threads(self):
        result = marks(["-x", "sdt:marks:begin..end"], "threads 200")
        self.assertEqual(len([line for line in result.lines if "= <void>" in line]), 400, result)
        self.assertFalse([line for line in result.lines if "no return" in line], result)

    def test_the_table_counts_them(self):
        result = marks(["-c", "-x", "sdt:marks:point", "-x", "sdt:marks:begin..end"], "work 25")
        counts = dict(reversed(re.search(r"(\d+)\s+(?:\S+\s+)*(sdt:\S+)$", line).groups())
                      for line in result.lines if "sdt:" in line)
        self.assertEqual(counts.keys(), {"sdt:marks:point", "sdt:marks:begin..end"}, result)
        self.assertIn(" 25 ", [line for line in result.lines if "marks:point" in line][0] + " ", result)
        self.assertIn(" 50 ", [line for line in result.lines if "begin..end" in line][0] + " ", result)

    def test_a_library_that_comes_later(self):
        library = harness.target("libmarker.so")
        result = marks(["-x", "sdt:marker:mark"], "open " + library, "use 1", "close", "open " + library, "use 2")
        self.assertEqual(lines_of(result, "marker"), ["sdt:marker:mark(1)", "sdt:marker:mark(2)"], result)

    def test_no_match_is_explained(self):
        for probe, words in (("sdt:marks:poind", "provider marks has no SDT probe poind"),
                             ("sdt:mark:point", "providers are marks (marks)"),
                             ("sdt:marks:begin..ende", "no mapped object has the other end of the pair")):
            self.assertIn(words, marks(["-x", probe], "work 1").stderr)

    def test_explain_names_note_and_semaphore(self):
        said = marks(["--explain", "-x", "sdt:marks:point"], "work 1").stderr
        self.assertRegex(said, r"-x sdt:marks:point: sdt:marks:point at 0x\w+: breakpoint; SDT note, semaphore at 0x\w+; "
                               r"'nop' runs out of line; prototype: the note's -4@")

    def test_filters_that_make_no_sense(self):
        for text, words in (("sdt:marks", "sdt:PROVIDER:NAME is expected"), ("sdt:marks:", "a probe's name"),
                            ("sdt:m:a*..b", "a pair takes names"), ("sdt:a:b:c", "a second ':'")):
            result = harness.run(["-x", text, "true"])
            self.assertEqual(result.status, 1, result)
            self.assertIn(words, result.stderr)


class Semaphores(unittest.TestCase):
    def target(self):
        started = Marks()
        self.addCleanup(end, started)
        return started

    def test_raised_while_attached_and_lowered_after(self):
        target = self.target()
        target.do("add 3")
        attached = harness.Attached(["-x", "sdt:marks:point", "-x", "sdt:marks:begin..end"], [target.pid])
        self.assertEqual(target.semaphores(), [4, 4, 4, 3])
        target.do("work 2", "add 2")
        result = attached.stop()
        self.assertEqual(target.semaphores(), [5, 5, 5, 5], "others' counts must survive")
        self.assertEqual([line for line in result.lines if "point" in line],
                         ["sdt:marks:point(0)", "sdt:marks:point(1)"], result)
        self.assertEqual(len([line for line in result.lines if "= <void>" in line]), 4, result)

    def test_attached_in_the_middle_nothing_is_paired_wrongly(self):
        target = self.target()
        target.do("half")
        attached = harness.Attached(["-x", "sdt:marks:begin..end"], [target.pid])
        target.do("lone", "half", "work 1")
        result = attached.stop()
        self.assertEqual(len([line for line in result.lines if "= <void>" in line]), 2, result)
        # Its end may come when nobody looks any more: as of a call that is open at a detach, nothing is said of it.
        self.assertEqual(len([line for line in result.lines if '"half" <unfinished ...>' in line]), 1, result)
        self.assertNotIn("<no return ...>", result.trace)

    def test_a_child_that_is_not_followed_has_them_as_before(self):
        target = self.target()
        with_children = harness.Attached(["-x", "sdt:marks:point"], [target.pid])
        target.process.stdin.write("fork\n")
        target.process.stdin.flush()
        self.assertEqual(target.expect("child (.*)").group(1), "0 0 0 0")
        target.expect("done fork")
        self.assertEqual(target.semaphores(), [0, 0, 1, 0])
        result = with_children.stop()
        self.assertEqual(lines_of(result, "marks"), [], result)

    def test_a_child_that_is_followed_is_traced(self):
        result = marks(["-f", "-x", "sdt:marks:point"], "fork")
        self.assertEqual(len(lines_of(result, "marks:point")), 2, result)
        self.assertIn("child 0 0 1 0", result.stdout)

    def killed(self, whom):
        target = self.target()
        target.do("add 1")
        attached = harness.Attached(["-x", "sdt:marks:*"], [target.pid])
        self.assertEqual(target.semaphores(), [2, 2, 2, 2])
        target.do("work 1")
        with open("/proc/%d/task/%d/children" % (attached.process.pid, attached.process.pid)) as file:
            engine = int(file.read().split()[0])
        if whom == "both":
            os.kill(attached.process.pid, signal.SIGSTOP)  # so that it cannot heal before it is killed
        os.kill(engine, signal.SIGKILL)
        if whom == "both":
            attached.process.kill()
        attached.end()
        harness.wait_until(lambda: harness.tracer(target.pid) == 0, "no tracer is left")
        return target

    def test_the_front_end_lowers_them_when_the_engine_is_killed(self):
        for _ in range(ROUNDS):
            target = self.killed("engine")
            target.do("work 2")
            self.assertEqual(target.semaphores(), [1, 1, 1, 1])

    def test_repair_lowers_them_when_both_were_killed(self):
        for _ in range(ROUNDS):
            target = self.killed("both")
            target.do("work 2")
            self.assertEqual(target.semaphores(), [2, 2, 2, 2])
            for _ in range(2):
                done = subprocess.run([harness.RTRACE, "--repair", "-p", str(target.pid)], env=harness.environment(),
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True,
                                      timeout=harness.PATIENCE)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(target.semaphores(), [1, 1, 1, 1], done.stderr)
            target.do("work 2")


def semaphores_of(pid, path, probes):
    """What a running process has in the semaphores of these probes of an object."""
    notes = subprocess.run(["readelf", "-nW", path], stdout=subprocess.PIPE, check=True, text=True).stdout
    with open("/proc/%d/maps" % pid) as maps:
        lines = [line.split() for line in maps if os.path.realpath(path) == line.split()[-1]]
    header = subprocess.run(["readelf", "-hW", path], stdout=subprocess.PIPE, check=True, text=True).stdout
    bias = int(lines[0][0].split("-")[0], 16) if "DYN" in header else 0
    found = []
    with open("/proc/%d/mem" % pid, "rb") as memory:
        for probe in probes:
            place = re.search(r"Name: %s\n.*Semaphore: (0x\w+)" % probe, notes)
            memory.seek(int(place.group(1), 16) + bias)
            found.append(int.from_bytes(memory.read(2), "little"))
    return found


class Interpreters(unittest.TestCase):
    """Of the distribution, stripped."""

    def test_ruby_marks_as_often_as_it_says(self):
        script = "GC.disable; before = GC.count; 7.times { GC.start }; $stdout.puts GC.count - before"
        result = harness.run(["-x", "sdt:ruby:gc__mark__begin..gc__mark__end", RUBY, "--disable=gems", "-e", script])
        pairs = [line for line in result.lines if "= <void>" in line]
        alone = harness.run(["-x", "sdt:ruby:gc__mark__begin..gc__mark__end", RUBY, "--disable=gems", "-e", "GC.disable"])
        before = len([line for line in alone.lines if "= <void>" in line])
        self.assertEqual(result.stdout, "7\n", result)
        self.assertEqual(len(pairs) - before, 7, result)

    def test_python_collects_ten_times(self):
        script = "import gc\ngc.disable()\nfor i in range(10): gc.collect(1)\n"
        trace = ["-x", "sdt:python:gc__start..gc__done", "-x", "sdt:python:gc__done"]
        result = harness.run(trace + [PYTHON, "-S", "-c", script])
        alone = harness.run(trace + [PYTHON, "-S", "-c", "import gc\ngc.disable()\n"])
        count = lambda shown: len([l for l in shown.lines if l.startswith("sdt:python:gc__start..gc__done(1")])
        self.assertEqual(count(result) - count(alone), 10, result)
        self.assertRegex("\n".join(result.lines), r"(?m)^sdt:python:gc__done\(\d+\)$")

    def attach(self, words, path, probes, filters, work, expected):
        target = harness.Target(words)
        self.addCleanup(end, target)
        target.expect("ready")
        before = semaphores_of(target.pid, path, probes)
        attached = harness.Attached(filters, [target.pid])
        self.assertEqual(semaphores_of(target.pid, path, probes), [value + 1 for value in before])
        target.go()
        target.expect(work)
        result = attached.stop()
        self.assertEqual(semaphores_of(target.pid, path, probes), before)
        self.assertEqual(len([line for line in result.lines if "= <void>" in line]), expected, result)
        target.go()
        target.expect(work)

    def test_ruby_attached(self):
        library = "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1"
        self.attach([RUBY, "--disable=gems", "-e", "$stdout.sync = true; puts 'ready'\n"
                     "while gets; GC.disable; 5.times { GC.start }; puts 'collected'; end"],
                    library, ["gc__mark__begin", "gc__mark__end"], ["-x", "sdt:ruby:gc__mark__begin..gc__mark__end"],
                    "collected", 5)

    def test_python_attached(self):
        self.attach([PYTHON, "-S", "-u", "-c", "import gc, sys\ngc.disable()\nprint('ready')\n"
                     "for line in sys.stdin:\n  for i in range(10): gc.collect()\n  print('collected')"],
                    os.path.realpath(PYTHON), ["gc__start", "gc__done"], ["-x", "sdt:python:gc__start..gc__done"],
                    "collected", 10)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        ROUNDS = int(sys.argv.pop(1))
    unittest.main()
