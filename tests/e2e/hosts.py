"""A program that opens and closes libraries as it is told, and rtrace on it: what several tests have in common."""
import contextlib
import os
import re
import shutil
import tempfile
import unittest

import harness

CALLS = 25


def sum_of(first, calls, adds):
    return sum(range(first, first + calls)) + calls * adds


class Host:
    """targets/host.c, told what to do. `before` are words in front of the program (chroot, unshare)."""

    def __init__(self, before=(), program=None, env=None):
        words = ["env"] + ["%s=%s" % pair for pair in (env or {}).items()] if env else []
        self.target = harness.Target(words + list(before) + [program or harness.target("host")])
        self.pid = int(self.target.expect(r"pid (\d+)").group(1))
        if not before:
            self.pid = self.target.pid

    def tell(self, line):
        self.target.process.stdin.write(line + "\n")
        self.target.process.stdin.flush()

    def ask(self, line, answer):
        self.tell(line)
        return int(self.target.expect(r"(?:%s (-?\d+))|failed.*" % answer).group(1))

    def open(self, path, how="open"):
        return self.ask("%s %s" % (how, path), "opened")

    def work(self, number, adds, calls=CALLS, verb="call"):
        """Has plugin_work called; its results are checked here."""
        total = self.ask("%s %d 1 %d" % (verb, number, calls), "sum")
        if total != sum_of(1, calls, adds):
            raise harness.Failure("the results of plugin_work add up to %d" % total)

    def quit(self, word="quit"):
        self.tell(word)
        rest, status = self.target.finish()
        if status != 0:
            raise harness.Failure("the host ended with %d\n%s" % (status, rest))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.target.abandon()


@contextlib.contextmanager
def attached(host, *options):
    """rtrace on that process; afterwards `result` is what it printed."""
    rtrace = harness.Attached([*options, "-F", harness.CONF], [host.pid])
    box = type("Box", (), {})()
    try:
        yield box
        box.result = rtrace.stop()
    except BaseException:
        rtrace.abandon()
        raise


def without_map_files():
    """rtrace without the capabilities that /proc/PID/map_files asks for: a deleted file cannot be opened."""
    return harness.without_capabilities("sys_admin", "checkpoint_restore")


def count(result, pattern):
    return sum(1 for line in result.lines if re.match(pattern, line))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o755)

    def place(self, source, name):
        """A copy that comes into being at once, as a package manager puts it there."""
        path = os.path.join(self.folder, name)
        shutil.copy(harness.target(source), path + ".new")
        os.rename(path + ".new", path)
        return path

    def assert_calls(self, result, calls, adds, library=r"\S+"):
        """plugin_work(1), (2) ... `calls` times over, in that order, with the right values."""
        seen = [tuple(map(int, match.groups())) for match in
                (re.match(r"plugin_work@%s\((\d+)\) += (\d+)$" % library, line) for line in result.lines) if match]
        self.assertEqual(seen, [(i, i + adds) for i in range(1, CALLS + 1)] * (calls // CALLS), result)
        self.assertEqual(count(result, r"plugin_work"), calls, result)
