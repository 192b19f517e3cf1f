#!/usr/bin/python3
"""--json: every line of many runs is valid and whole, and says what happened."""
import json
import os
import subprocess
import tempfile
import unittest

import jsonschema

import harness
import json_lines
from json_lines import trace

ENTRIES = harness.target("entries")
FIXTURE = ["-F", harness.CONF, "-x", "outer+middle+inner"]


def waits(*words):
    process = harness.Target([harness.target("waits"), *words])
    process.expect("pid ")
    return process


class Calls(unittest.TestCase):
    def test_a_call_has_its_arguments_result_and_place(self):
        lines = trace("-F", harness.CONF, "-x", "add", "-x", "greet", "--", harness.target("calls_now"))
        one, two = lines.named("add")
        self.assertEqual(one["args"], [{"type": "int", "raw": "1", "text": "1", "value": 1},
                                       {"type": "int", "raw": "2", "text": "2", "value": 2}])
        self.assertEqual(one["ret"], {"type": "int", "raw": "3", "text": "3", "value": 3})
        self.assertEqual([argument["value"] for argument in two["args"]], [-3, 40000])
        self.assertEqual(two["args"][0]["raw"], "-3")
        self.assertEqual((one["object"], one["caller"], one["kind"], one["depth"]), ("libfixture.so", "calls_now", "entry", 0))
        greet, = lines.named("greet")
        self.assertEqual(greet["args"], [{"type": "string", "raw": None, "text": '"hello"', "value": "hello"}])
        self.assertGreater(one["dur"], 0)
        self.assertLessEqual(one["ts"] + one["dur"], two["ts"])
        self.assertEqual(one["pid"], one["tid"])

    def test_call_sites_name_their_caller_and_the_object_they_reach(self):
        lines = trace("-F", harness.CONF, "-e", "add", "--", harness.target("calls_now"))
        self.assertEqual({(call["kind"], call["object"]) for call in lines.calls}, {("plt", "libfixture.so")})
        self.assertTrue(all(call["caller"] in (None, "calls_now") for call in lines.calls))

    def test_what_is_called_by_a_tail_call_has_the_caller_that_it_returns_to(self):
        lines = trace("-F", harness.CONF, "-x", "tail_outer+tail_inner@libfixture.so", "--", ENTRIES, "tail")
        self.assertEqual([(call["name"], call["caller"]) for call in lines.calls],
                         2 * [("tail_inner", "entries"), ("tail_outer", "entries")])

    def test_inner_calls_stand_before_the_calls_they_were_made_in(self):
        lines = trace(*FIXTURE, "--", ENTRIES, "nested")
        self.assertEqual([(call["name"], call["depth"]) for call in lines.calls],
                         [("inner", 2), ("middle", 1), ("outer", 0)])
        self.assertIsNone(json_lines.nested_wrong(lines.calls))

    def test_names_of_parameters_and_members(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "named.conf")
            with open(path, "w") as file:
                file.write("int add(left=int, right=enum(SMALL=2,LARGE=40000));\nint greet(who=string);\n"
                           "int twice(flags(ONE=1,FOUR=4,SIXTEEN=16));\n")
            lines = trace("-F", path, "-x", "add", "-x", "twice", "--", harness.target("calls_now"))
        left, right = lines.named("add")[0]["args"]
        self.assertEqual((left["name"], right["name"]), ("left", "right"))
        self.assertEqual((right["value"], right["text"], right["raw"]), ({"name": "SMALL", "bits": 2}, "SMALL", "2"))
        flags, = lines.named("twice")[0]["args"]
        self.assertEqual(flags["value"], {"name": "ONE|FOUR|SIXTEEN", "bits": 21})

    def test_without_a_prototype_the_guess_says_that_it_is_one(self):
        call, = trace("-x", "spot_find", "--", harness.target("spotter_both_bare")).calls
        self.assertEqual([argument["type"] for argument in call["args"]][0], "string")
        self.assertEqual(call["args"][0]["value"], "home")
        self.assertEqual(call["ret"], {"type": "guess(long)", "raw": "105", "text": "105", "value": 105})

    def test_deep_recursion(self):
        lines = trace("-F", harness.CONF, "-x", "descend", "--", ENTRIES, "descend", "1000")
        self.assertEqual([call["depth"] for call in lines.calls], list(range(len(lines.calls) - 1, -1, -1)))
        self.assertGreaterEqual(len(lines.calls), 1000)

    def test_hostile_values(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "hostile.conf")
            with open(path, "w") as file:
                file.write("typedef node = struct;\ntypedef node = struct(node*, node*);\nint twice(string);\n"
                           "int inner(string);\nint alias_a(buffer[arg2], long);\nint tail_inner(node*);\n"
                           "int add(struct(long, array(char, 1000000), string, array(long, 1000000))*);\n")
            arguments = ["-F", path, "-x", "add+twice+inner+alias_a+tail_inner@libfixture.so"]
            for options in ([], ["-s", "1000000", "-A", "1000000"]):
                lines = trace(*arguments, *options, "--", harness.target("hostile"), "values")
                self.assertEqual(len(lines.calls), 9)
        wild = lines.named("twice")[0]["args"][0]
        self.assertEqual((wild["raw"], wild["value"], wild["text"]), ("0xdead0000", None, "0xdead0000"))
        escape = lines.named("inner")[2]["args"][0]
        self.assertEqual(escape["value"], "\033[2J\a\ufffd\n")
        self.assertEqual(bytes.fromhex(escape["hex"]), b"\033[2J\a\x9b\n")


class Schema(unittest.TestCase):
    def test_it_is_one_for_all_types_and_refuses_what_is_none_of_them(self):
        whole = jsonschema.Draft7Validator(json_lines.schema())
        lines = trace(*FIXTURE, "--", ENTRIES, "nested").all
        for line in lines:
            whole.validate(line)
        for bad in ({}, {"type": "call"}, {"type": "unheard of"}, dict(lines[0], v=2), dict(lines[-1], more=1)):
            self.assertFalse(whole.is_valid(bad), bad)

    def test_values_of_all_types_are_in_it(self):
        lines = trace("-A", "16", "-x", "t_*+h_*", "--", harness.target("shapes_gcc"))
        self.assertGreater(len(lines.calls), 50)
        numbers = {value["raw"] for call in lines.named("t_uint128") for value in call["args"] + [call["ret"]]}
        self.assertIn(str(2 ** 128 - 1), numbers)


class Records(unittest.TestCase):
    def test_the_first_line_lists_the_probes_and_what_rtrace_was_asked(self):
        lines = trace("--mechanism=breakpoint", "-F", harness.CONF, "-x", "add", "--", ENTRIES, "add", "1")
        start = lines.start
        self.assertEqual(list(start)[:2], ["v", "type"])
        self.assertEqual(start["command"], [ENTRIES, "add", "1"])
        self.assertIn("--json", start["options"])
        self.assertIn("-x", start["options"])
        self.assertNotIn(ENTRIES, start["options"])
        self.assertEqual(start["pids"], [lines.calls[0]["pid"]])
        self.assertEqual([(probe["name"], probe["object"], probe["kind"], probe["mechanism"]) for probe in start["probes"]],
                         [("add", "libfixture.so", "entry", "breakpoint")])
        self.assertTrue(start["probes"][0]["reason"])

    def test_the_objects_are_listed_with_the_main_program_first(self):
        loads = trace(*FIXTURE, "--", ENTRIES, "add", "1").of("load")
        self.assertEqual([load["main"] for load in loads], [True] + [False] * (len(loads) - 1))
        self.assertEqual(loads[0]["object"], os.path.realpath(ENTRIES))
        self.assertIn("libfixture.so", {os.path.basename(load["object"]) for load in loads})
        self.assertTrue(all("probes" not in load for load in loads))

    def test_a_library_that_comes_and_goes_brings_its_probes(self):
        plugin = harness.target("libplugin_a.so")
        lines = trace("-F", harness.CONF, "-x", "plugin_work", "--", harness.target("loads"), "2", plugin, "1000")
        story = [line["type"] for line in lines.all
                 if line["type"] == "call" or os.path.basename(line.get("object") or "") == "libplugin_a.so"]
        self.assertEqual(story, ["load", "call", "unload"] * 2)
        for load in lines.of("load"):
            if load["object"] == os.path.realpath(plugin):
                self.assertEqual([probe["name"] for probe in load["probes"]], ["plugin_work"])
        self.assertEqual(lines.start["probes"], [])

    def test_signals(self):
        lines = trace("-F", harness.CONF, "-x", "add", "--", harness.target("signals"), "3")
        self.assertEqual([line["signal"] for line in lines.of("signal")], ["SIGUSR1"] * 3)
        self.assertEqual(trace("-b", "-x", "add", "--", harness.target("signals"), "3").of("signal"), [])

    def test_exits_and_deaths(self):
        self.assertEqual(trace("-x", "add", "--", ENTRIES, "exit", "7", status=7).of("exit")[0]["status"], 7)
        died, = trace("-x", "kill", "--", "/bin/sh", "-c", "kill -TERM $$", status=-15).of("exit")
        self.assertEqual((died["signal"], died["number"], died["core"]), ("SIGTERM", 15, False))

    def test_a_call_that_never_returns(self):
        lines = trace("-e", "execv+_exit", "--", harness.target("execs"), "self", harness.target("children"), "leaf", status=7)
        execv, = lines.named("execv")
        self.assertEqual((execv["dur"], execv["ret"], execv["outcome"]), (None, None, "no return"))
        executed, = lines.of("exec")
        self.assertEqual(executed["path"], os.path.realpath(harness.target("children")))

    def test_forks_with_f_and_without(self):
        for way in ("fork", "vfork", "forkexec", "spawn", "clone"):
            for options in ([], ["-f"]):
                with self.subTest(way=way, options=options):
                    lines = trace(*options, "-F", harness.CONF, "-x", "add", "--", harness.target("children"), way)
                    fork, = lines.of("fork")
                    self.assertEqual(fork["followed"], bool(options))
                    values = [call["args"][0]["value"] for call in lines.calls if call["pid"] == fork["child"]]
                    self.assertEqual(values, [2] if options else [])
                    mine = [call["args"][0]["value"] for call in lines.calls if call["pid"] == fork["pid"]]
                    self.assertEqual(mine, [1, 3])

    def test_a_fork_child_returns_from_the_calls_that_its_parent_was_in(self):
        lines = trace("-f", "-e", "fork", "--", harness.target("children"), "fork")
        child, parent = sorted(lines.named("fork"), key=lambda call: call["ret"]["value"])
        self.assertEqual((child["ret"]["value"], parent["ret"]["value"]), (0, child["pid"]))
        self.assertAlmostEqual(child["ts"], parent["ts"], delta=1_000_000)  # reckoned back from two returns
        self.assertNotEqual(child["pid"], parent["pid"])

    def test_threads_are_told_apart(self):
        lines = trace("-F", harness.CONF, "-x", "work", "--", harness.target("threads"), "50")
        self.assertEqual(len(lines.calls), 200)
        tids = {call["tid"]: call["args"][0]["value"] for call in lines.calls}
        self.assertEqual(sorted(tids.values()), [0, 1, 2, 3])
        for tid, thread in tids.items():
            mine = [call["args"][1]["value"] for call in lines.calls if call["tid"] == tid]
            self.assertEqual(mine, list(range(1, 51)))
            self.assertEqual({call["args"][0]["value"] for call in lines.calls if call["tid"] == tid}, {thread})
        self.assertIsNone(json_lines.nested_wrong(lines.calls))

    def test_static_programs(self):
        for name in ("calls_static", "calls_static_pie"):
            lines = trace("-F", harness.CONF, "-x", "add", "--", harness.target(name))
            self.assertEqual(len(lines.named("add")), 2)
            self.assertEqual(lines.start["probes"][0]["object"], name)
            self.assertTrue(lines.of("load")[0]["main"])

    def test_more_probes_than_a_line_holds(self):
        lines = trace("-x", "@libc.so.6", "--", harness.target("calls_now"))
        listed = len(lines.start["probes"])
        self.assertEqual(listed, 1000)
        more = [len(line["probes"]) for line in lines.of("probes")]
        self.assertGreater(sum(more), 100)
        self.assertIsNone(json_lines.nested_wrong(lines.calls))

    def test_a_summary_has_an_object_for_each_function_and_no_calls(self):
        lines = trace("-c", *FIXTURE, "--", ENTRIES, "nested")
        self.assertEqual(lines.calls, [])
        self.assertEqual({row["name"]: row["calls"] for row in lines.of("summary")},
                         {name + "@libfixture.so": 1 for name in ("outer", "middle", "inner")})
        self.assertEqual([line["status"] for line in lines.of("exit")], [0])


class Attached(unittest.TestCase):
    def test_attaching_writes_the_first_line_before_anything_happens(self):
        with waits("3") as process:
            rtrace = harness.Attached(["--json", "-F", harness.CONF, "-x", "add"], [process.pid])
            harness.wait_until(rtrace.lines_so_far, "the first line is written")
            start = json.loads(rtrace.lines_so_far()[0])
            self.assertEqual((start["pids"], start["command"]), ([process.pid], []))
            self.assertEqual([probe["name"] for probe in start["probes"]], ["add"])
            process.go()
            process.expect("done")
            lines = json_lines.Lines(rtrace.stop().trace)
            self.assertEqual(len(lines.calls), 3)

    def test_a_call_that_is_open_at_the_end(self):
        with waits("3") as process:
            rtrace = harness.Attached(["--json", "-e", "add+read"], [process.pid])
            process.go()
            process.expect("done")
            calls = harness.wait_until(lambda: [line for line in rtrace.lines_so_far() if '"call"' in line],
                                       "a call is written")
            self.assertTrue(calls)
            lines = json_lines.Lines(rtrace.stop().trace)
            self.assertTrue(all(call["outcome"] == "open" for call in lines.calls if call["dur"] is None))

    def test_a_call_that_does_not_return_has_the_arguments_that_are_shown_at_the_return(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "read.conf")
            with open(path, "w") as file:
                file.write("long read(fd=int, buf=out buffer[retval], count=ulong);\n")
            for options in (["-F", path, "-e", "read"], ["-S"]):
                with self.subTest(options=options), waits("3") as process:
                    rtrace = harness.Attached(["--json", *options], [process.pid])
                    process.go()
                    process.expect("done")
                    harness.wait_until(lambda: harness.state(process.pid) == "S", "it reads again")
                    read = [call for call in json_lines.Lines(rtrace.stop().trace).named("read") if call["dur"] is None][-1]
                    self.assertEqual(read["outcome"], "open")
                    self.assertEqual([argument["name"] for argument in read["args"]], ["fd", "buf", "count"])
                    self.assertEqual([read["args"][0]["value"], read["args"][2]["value"]], [0, 1])
                    self.assertRegex(read["args"][1]["raw"], "^0x[0-9a-f]+$")


class RealPrograms(unittest.TestCase):
    def check(self, *arguments, least, **how):
        lines = trace(*arguments, **how)
        self.assertGreaterEqual(len(lines.calls), least)
        self.assertIsNone(json_lines.nested_wrong(lines.calls))
        return lines

    def test_system_calls(self):
        lines = self.check("-S", "-L", "--", "/bin/ls", "/nonexistent", least=20, status=2)
        self.assertEqual({call["kind"] for call in lines.calls}, {"syscall"})
        failed = [call for call in lines.calls if call.get("errno", {}).get("name") == "ENOENT"]
        self.assertTrue(failed)
        self.assertTrue(all("ENOENT" in call["ret"]["text"] for call in failed), failed[0])

    def test_sdt_probes_and_pairs(self):
        lines = self.check("-x", "sdt:python:gc__start", "-x", "sdt:python:gc__start..gc__done", "--", "/usr/bin/python3", "-c",
                           "import gc; [gc.collect() for _ in range(3)]", least=6)
        self.assertEqual({call["kind"] for call in lines.calls}, {"sdt"})
        pairs = [call for call in lines.calls if ".." in call["name"]]
        self.assertGreaterEqual(len(pairs), 3)
        self.assertEqual(2 * len(pairs), len(lines.calls))
        self.assertTrue(all(call["dur"] > 0 for call in pairs))

    def test_python(self):
        self.check("-e", "get*+set*+open*+read*+*stat*+dl*@MAIN", "-x", "setlocale@libc.so.6", "--", "/usr/bin/python3", "-c", "print(1)", least=50)

    def test_perl(self):
        self.check("-e", "@MAIN", "--", "/usr/bin/perl", "-e", 'print sort { $a <=> $b } map { $_ * 7 % 5 } 1..20', least=50)

    def test_sort(self):
        self.check("-e", "@MAIN", "--", "/usr/bin/sort", stdin="b\na\nc\n", least=20)

    def test_a_shell_and_its_children(self):
        lines = self.check("-f", "-e", "fork+execve+waitpid+getenv@MAIN", "--", "/bin/sh", "-c", "ls / >/dev/null; true", least=2)
        self.assertEqual(len(lines.of("exec")), 1)
        self.assertGreaterEqual(len(lines.of("exit")), 2)

    @unittest.skipUnless(os.path.exists("/usr/bin/jq"), "jq is not installed")
    def test_jq_reads_it(self):
        with tempfile.NamedTemporaryFile() as out:
            harness.run(["--json", "-o", out.name, *FIXTURE, "--", ENTRIES, "nested"], separate=False)
            names = subprocess.run(["jq", "-r", 'select(.type == "call") | .name', out.name], stdout=subprocess.PIPE,
                                   text=True, check=True).stdout.split()
        self.assertEqual(names, ["inner", "middle", "outer"])


if __name__ == "__main__":
    unittest.main()
