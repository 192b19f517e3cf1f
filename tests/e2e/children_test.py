#!/usr/bin/python3
"""Children that are followed, and what -f does not change."""
import re
import unittest

import harness


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


class CallSites(unittest.TestCase):
    def test_stubs_of_the_main_program_work_in_children_of_every_kind(self):
        for option in (["-f"], []):
            for way in ("fork", "vfork", "forkexec", "spawn"):
                with self.subTest(way=way, option=option):
                    result = harness.run(option + ["-F", harness.CONF, "-e", "add", "--",
                                                   harness.target("children"), way])
                    self.assertEqual(result.status, 0, result)
                    self.assertEqual(result.trace.count("children->add("), 3 if option else 2, result)


class Shell(unittest.TestCase):
    def test_a_pipeline_of_several_children_ends_as_without_rtrace(self):
        script = "for i in 1 2 3; do %s leaf & done; wait; echo all" % harness.target("children")
        result = harness.run(["-f", "-F", harness.CONF, "-x", "add", "--", "/bin/sh", "-c", script])
        self.assertEqual((result.status, result.stdout), (0, "all\n"), result)
        self.assertEqual(sorted(pair for made in calls(result).values() for pair in made), [(2, 2)] * 3)


if __name__ == "__main__":
    unittest.main()
