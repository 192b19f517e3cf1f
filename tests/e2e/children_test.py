#!/usr/bin/python3
"""Children that are followed, and what -f does not change."""
import collections
import os
import re
import subprocess
import tempfile
import unittest
import unittest.mock

import harness
import json_lines


def calls(result):
    """{pid: [(a, b)]} of the calls of add."""
    found = {}
    for line in result.lines:
        match = re.match(r"(?:\[pid +(\d+)\] )?add@libfixture\.so\((\d+), (\d+)(?:\)| <unfinished)", line)
        if match:
            found.setdefault(match.group(1), []).append((int(match.group(2)), int(match.group(3))))
    return found


class Followed(unittest.TestCase):
    def traced(self, way):
        result = harness.run(["-f", "-F", harness.CONF, "-x", "add", "--", harness.target("children"), way])
        self.assertEqual(result.status, 0, result)
        return result

    def check(self, way):
        """The parent's calls and the child's are there, once, under two pids."""
        result = self.traced(way)
        merged = calls(result)
        # The first lines may have no pid: there was one task only.
        parent = merged.pop(None, [])
        child = [pid for pid, made in merged.items() if (2, 2) in made]
        self.assertEqual(len(child), 1, result)
        self.assertEqual(merged.pop(child[0]), [(2, 2)], result)
        for made in merged.values():
            parent += made
        self.assertEqual(parent, [(1, 1), (3, 3)], result)
        self.assertRegex(result.trace, r"\+\+\+ exited \(status 7\) \+\+\+")
        return result

    def test_fork(self):
        self.check("fork")

    def test_vfork(self):
        self.check("vfork")

    def test_fork_and_exec(self):
        self.assertIn("--- Called exec() ---", self.check("forkexec").trace)

    def test_posix_spawn(self):
        self.assertIn("--- Called exec() ---", self.check("spawn").trace)


class WhileThereIsOtherWork(unittest.TestCase):
    """A child may come to its first stop long after its parent has gone on, and met what makes new pages of ours."""
    COUNT = 40

    def setUp(self):
        for _ in range(3 * os.cpu_count()):
            other = subprocess.Popen(["sh", "-c", "while :; do :; done"])
            self.addCleanup(other.wait)
            self.addCleanup(other.kill)

    def test_calls_on_both_sides_of_a_fork_return(self):
        result = harness.run(["-f", "--json", "-x", "getppid", "--", harness.target("both_call"), str(self.COUNT)])
        self.assertEqual(result.status, 0, result)
        made = json_lines.Lines(result.trace).calls
        self.assertEqual(len(made), 8 * self.COUNT)
        self.assertEqual([call for call in made if "outcome" in call], [], result.stderr)


class Many(unittest.TestCase):
    COUNT = 60
    CODE = """
import os
ends, begun = os.pipe(), os.pipe()
children = []
for _ in range(%d):
    child = os.fork()
    if child == 0:
        os.close(ends[1])
        os.write(begun[1], b"x")
        os.read(ends[0], 1)
        os.getpgid(0)
        os._exit(5)
    children.append(child)
for _ in children:
    os.read(begun[0], 1)
os.close(ends[1])
print(sum(os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 5 for child in children))
""" % COUNT

    def traced(self, limit):
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "out")
            words = harness.invocation(["-f", "-o", output, "-x", "getpgid", "--", "/usr/bin/python3", "-c", self.CODE])
            result = subprocess.run(["prlimit", "--nofile=" + limit, "--"] + words, stdin=subprocess.DEVNULL, text=True,
                                    capture_output=True, env=harness.environment(), timeout=harness.PATIENCE, check=False)
            self.assertEqual((result.returncode, result.stdout), (0, "%d\n" % self.COUNT), result.stderr)
            shown = harness.read_text(output)
            return len(re.findall(r"getpgid@\S+\(", shown)), shown + result.stderr

    def test_more_than_descriptors_run_on_unharmed_and_are_told_of(self):
        seen, said = self.traced("40:40")
        refused = len(re.findall(r"child \d+ is not followed: too many open files", said))
        self.assertGreater(seen, 5, said)
        self.assertGreater(refused, 5, said)
        self.assertEqual(seen + refused, self.COUNT, said)

    def test_all_that_may_be_had_are_used(self):
        self.assertEqual(self.traced("40:1000")[0], self.COUNT)


class CallSites(unittest.TestCase):
    def test_stubs_of_the_main_program_work_in_children_of_every_kind(self):
        for option in (["-f"], []):
            for way in ("fork", "vfork", "forkexec", "spawn"):
                with self.subTest(way=way, option=option):
                    result = harness.run(option + ["-F", harness.CONF, "-e", "add", "--",
                                                   harness.target("children"), way])
                    self.assertEqual(result.status, 0, result)
                    self.assertEqual(result.trace.count("children->add("), 3 if option else 2, result)


class Nested(unittest.TestCase):
    """Children that return from calls in which they were forked, by breakpoints and by trampolines."""

    def both(self, options, words):
        results = []
        for mechanism in ("breakpoint", "trampoline"):
            result = harness.run(["-f", "--mechanism=" + mechanism, "-F", harness.CONF] + options + ["--"] + words)
            results.append(result)
        self.assertEqual(results[0].stdout, results[1].stdout, results)
        self.assertEqual(results[0].status, results[1].status, results)
        if not harness.MECHANISM:  # else that line is the harness's
            self.assertRegex(results[1].stderr, r"rtrace: \d+ trampolines?, 0 breakpoints\n")
        return results

    def test_every_process_shows_the_same_lines(self):
        self.every_process_shows_the_same("nested_forks")

    def test_of_a_program_without_a_dynamic_linker_too(self):
        self.every_process_shows_the_same("nested_forks_static")

    def every_process_shows_the_same(self, program):
        words = [harness.target(program), "3"]
        shown = [sorted(re.sub(r"^\[pid +\d+\] |(?<=\)) +(?== )", "", line) for line in result.lines)
                 for result in self.both(["-x", "add", "-x", "branch"], words)]
        self.assertEqual(shown[0], shown[1])
        # Each process returns from the calls that it was forked in: of the last two, from all four.
        self.assertEqual(sum("branch resumed> )=" in line for line in shown[0]), 1 + 2 + 3 + 4 + 4, shown)

    def test_calls_that_children_were_forked_in_count_once(self):
        words = [harness.target("nested_forks"), "3"]
        for options in ([], ["--where", "arg1 >= 0"]):
            results = self.both(["-c", "-x", "branch+add", *options], words)
            tables = [harness.Summary(result.trace) for result in results]
            self.assertEqual(tables[0].calls(), tables[1].calls())
            self.assertEqual(tables[0].calls()["branch"], 4)
            for table in tables:
                self.assertNotIn("+", table.rows["branch"]["seconds"])

    def test_as_data_those_are_marked_in_the_children(self):
        for result in self.both(["--json", "-x", "branch"], [harness.target("nested_forks"), "3"]):
            calls = json_lines.Lines(result.trace).calls
            own = [made for made in calls if "inherited" not in made]
            self.assertEqual((len(own), len(calls)), (4, 1 + 2 + 3 + 4 + 4))
            for made in calls:
                self.assertIn((made["ts"], made["args"]), [(one["ts"], one["args"]) for one in own])

    def test_a_perl_with_children_is_counted_alike(self):
        script = ("for (1..5) { my $p = fork(); if (!$p) { my @a = map { \"x$_\" } 1..500; exit 0 } waitpid($p, 0) } "
                  "system('true') for 1..3; print \"ok\\n\"")
        with unittest.mock.patch.dict(os.environ, PERL_HASH_SEED="0"):
            results = self.both(["-c", "-x", "malloc", "-x", "free"], ["/usr/bin/perl", "-e", script])
        counted = []
        for result in results:
            self.assertEqual(result.stdout, "ok\n")
            counted.append(sorted(re.findall(r"(\d+) +\d+ +\S+ +\S+ +\S+ +\S+ +\S+ (\w+@libc\.so\.6)", result.trace)))
        self.assertEqual(counted[0], counted[1])
        self.assertEqual(len(counted[0]), 2, results)


class Waited(unittest.TestCase):
    """clone(2) with CLONE_VFORK shows as a vfork, whose child may have memory of its own all the same."""
    PARENT = """
import ctypes, os, sys
print("ready", flush=True)
sys.stdin.readline()
CLONE_VFORK, SIGCHLD, SYS_clone = 0x4000, 17, 56
child = ctypes.CDLL(None).syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0)
if child == 0:
    print("child", os.getpid(), flush=True)
    sys.stdin.readline()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

    def test_a_child_with_memory_of_its_own_is_let_go_with_its_own_code(self):
        with harness.Target(["/usr/bin/python3", "-c", self.PARENT]) as parent:
            parent.expect("ready")
            attached = harness.Attached(["-c", "-x", "malloc@libc.so.*"], [parent.pid])
            self.addCleanup(attached.abandon)
            parent.go()
            child = int(parent.expect(r"child (\d+)").group(1))
            self.assertEqual((harness.tracer(child), harness.altered_code(child)), (0, []))
            parent.go()
            self.assertEqual(parent.finish()[1], 0)
            attached.process.wait(harness.PATIENCE)
            attached.process.stdout.close()


class Interrupted(unittest.TestCase):
    def test_a_call_that_is_interrupted_by_the_handler_that_forks_is_the_parents(self):
        """The child comes back to where its parent met the breakpoint, and makes 100 calls of its own."""
        result = harness.run(["-f", "--mechanism=breakpoint", "-x", "labs@libc.so.*", "--", harness.target("counts"),
                              "forking", "100"])
        self.assertEqual((result.status, result.stdout), (0, "forks 100 died 0\n"), result)
        calls = collections.Counter(re.findall(r"(?m)^\[pid +(\d+)\] labs@libc\.so\.6\(", result.trace))
        children = collections.Counter(calls.values())
        # One that has not met it yet when the signal comes both of them make.
        self.assertGreater(children[100], 75, children)
        self.assertIn(children[100] + children[101], (100, 101), children)  # the parent may have made as many


class Shell(unittest.TestCase):
    def test_a_pipeline_of_several_children_ends_as_without_rtrace(self):
        script = "for i in 1 2 3; do %s leaf & done; wait; echo all" % harness.target("children")
        result = harness.run(["-f", "-F", harness.CONF, "-x", "add", "--", "/bin/sh", "-c", script])
        self.assertEqual((result.status, result.stdout), (0, "all\n"), result)
        self.assertEqual(sorted(pair for made in calls(result).values() for pair in made), [(2, 2)] * 3)


if __name__ == "__main__":
    unittest.main()
