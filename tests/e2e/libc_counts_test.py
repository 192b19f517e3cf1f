#!/usr/bin/python3
"""The allocator's calls, and those of strcoll, of Debian's programs, by trampolines: as many as a library counts that is
preloaded into the same process. Languages and sort(1) from their start to their end; the servers attached to, with clients
that never rest."""
import collections
import contextlib
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import unittest

import harness
from servers import Cluster, Folder

# As the counter has them (targets/libc_counter.c).
NAMES = ("malloc", "calloc", "realloc", "free", "strcoll")
ALLOCATOR = NAMES[:4]
ALL_TRAMPOLINES = r"(?m)^rtrace: \d+ trampolines, 0 breakpoints"


class Counter:
    """What a process calls that is started with it, and what the processes call that it forks."""

    def __init__(self, folder):
        # Whoever runs the program may not read where the tests are built.
        self.prefix, self.library, self.launcher = (os.path.join(folder, name) for name in ("counts", "counter.so", "bare_env"))
        shutil.copy(harness.target("liblibc_counter.so"), self.library)
        shutil.copy(harness.target("bare_env"), self.launcher)
        # A thread that ends would free what malloc's cache holds for it: within libc, where no preloaded library is asked.
        self.settings = {"LD_PRELOAD": self.library, "LIBC_COUNTS": self.prefix,
                         "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}

    def words(self, *settings):
        """What stands before a command line."""
        return [self.launcher, *("%s=%s" % pair for pair in self.settings.items()), *settings]

    def pids(self):
        return [int(name.rpartition(".")[2]) for name in os.listdir(os.path.dirname(self.prefix)) if name.startswith("counts.")]

    def calls(self, *pids):
        """{name: calls of the function in the C library} of these processes together."""
        total = collections.Counter()
        for pid in pids:
            with open("%s.%d" % (self.prefix, pid), "rb") as file:
                _, *counts, makes, frees = struct.unpack("=8Q", file.read(64))
            total.update(dict(zip(NAMES, counts)))
            total.update({"malloc": makes, "free": frees})
        return dict(total)


def counting(names):
    return ["-c"] + [word for name in names for word in ("-x", name + "@libc.so.6")]


def shown(result):
    return {name.partition("@")[0]: calls for name, calls in harness.Summary(result.trace).calls().items()}


class Programs(unittest.TestCase):
    """Launched. Each says something at its end that it could not say had a call gone wrong."""
    LINES = "".join("%s %d\n" % ("line"[i % 3:], i * 7919 % 4001) for i in range(4001))
    RUBY = """words = Hash.new(0)
        20000.times { |i| words["word #{i % 997}"] += 1 }
        threads = 2.times.map { Thread.new { (1..3000).map { |i| "x" * (i % 200) }.sum(&:size) } }
        sums = threads.map(&:value); GC.start
        puts words.values.sum, sums"""
    PYTHON = """import io, tokenize
text = "def function(argument):\\n    return argument + 'text' * 3\\n" * 200
print(len(list(tokenize.generate_tokens(io.StringIO(text).readline))))"""
    PERL = """my %count; $count{"word " . $_ % 997}++ for 1..20000; my @sorted = sort { $a cmp $b } keys %count;
        my @kept = map { "x" x ($_ % 3000) } 1..20000; print scalar(@sorted), " ", length(join("", @kept)), "\\n";"""
    PHP = """$words = []; for ($i = 0; $i < 20000; ++$i) { $key = "word " . $i % 997; $words[$key] = ($words[$key] ?? "") . "x"; }
        ksort($words); echo count($words), " ", strlen(implode("", $words)), "\\n";"""

    def check(self, words, settings=(), stdin=None, names=ALLOCATOR):
        for mechanism in ("trampoline", "auto"):
            with self.subTest(mechanism), tempfile.TemporaryDirectory() as folder:
                plain = subprocess.run(["env", *settings, *words], input=stdin, text=True, stdout=subprocess.PIPE, check=True,
                                       env=harness.environment())
                counter = Counter(folder)
                result = harness.run(["-f", "--mechanism=" + mechanism, *counting(names), "--", *counter.words(*settings),
                                      *words], stdin=stdin)
                self.assertEqual((result.status, result.stdout), (0, plain.stdout), result)
                counted = counter.calls(*counter.pids())
                self.assertEqual(shown(result), {name: counted[name] for name in names if counted[name]}, result)
                self.assertGreater(counted[names[0]], 10000, result)
                if mechanism == "trampoline":
                    self.assertRegex(result.stderr, ALL_TRAMPOLINES)

    def test_ruby(self):
        self.check(["/usr/bin/ruby", "-e", self.RUBY])

    def test_python3(self):
        self.check(["/usr/bin/python3", "-S", "-c", self.PYTHON], ["PYTHONMALLOC=malloc"])

    def test_perl(self):
        self.check(["/usr/bin/perl", "-e", self.PERL])

    def test_php(self):
        self.check(["/usr/bin/php", "-n", "-r", self.PHP], ["USE_ZEND_ALLOC=0"])

    def test_sort(self):
        self.check(["/usr/bin/sort"], ["LC_ALL=C.UTF-8"], stdin=self.LINES, names=["strcoll"])


class Load(threading.Thread):
    """Clients, one set after the other for as long as it is asked for."""

    def __init__(self, words):
        threading.Thread.__init__(self)
        self.words, self.enough, self.rounds, self.failures = words, threading.Event(), 0, []

    def run(self):
        while not self.enough.is_set() and not self.failures:
            try:
                subprocess.run(self.words, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.STDOUT, check=True, timeout=harness.PATIENCE, env=harness.environment())
            except (OSError, subprocess.SubprocessError) as problem:
                self.failures.append((problem, getattr(problem, "output", "")))
            self.rounds += 1

    def some_more(self, rounds=2):
        """A whole set has begun and ended since."""
        enough = self.rounds + rounds
        harness.wait_until(lambda: self.rounds >= enough or self.failures, "clients have come and gone")

    def __enter__(self):
        self.start()
        self.some_more(1)
        return self

    def __exit__(self, *_):
        self.enough.set()
        self.join()


class Servers(unittest.TestCase):
    """What is attached to is in the midst of its calls: rtrace begins, and ends, somewhere between two looks at the counter."""

    @contextlib.contextmanager
    def attached(self, counter, pids, *options):
        before = counter.calls(*pids)
        rtrace = harness.Attached(["--mechanism=trampoline", *options, *counting(ALLOCATOR)], pids)
        self.addCleanup(rtrace.abandon)
        yield rtrace, before, counter.calls(*pids)

    def between(self, result, least, most, threads=0):
        """Each of so many threads may have been counted, and not yet have called, when it was looked."""
        self.assertEqual(result.status, 0, result)
        self.assertRegex(result.stderr, ALL_TRAMPOLINES)
        calls = shown(result)
        for name in ALLOCATOR:
            self.assertTrue(least[name] - threads <= calls.get(name, 0) <= most[name] + threads, "%s: not %d <= %d <= %d\n%s" % (
                name, least[name], calls.get(name, 0), most[name], result))


def difference(one, other):
    return {name: one[name] - other[name] for name in NAMES}


CLIENTS = 4


class MariaDB(Servers):
    """One process with many threads."""

    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.remove)
        self.counter = Counter(self.folder.path)
        self.server = self.folder.file("db")
        self.addCleanup(self.end)
        self.socket = self.tool("start", **self.counter.settings).strip()
        self.pid = int(harness.read_text(os.path.join(self.server, "pid")))
        self.threads = len(os.listdir("/proc/%d/task" % self.pid)) + CLIENTS

    def tool(self, verb, **settings):
        # What it starts besides, the shell too, has a counter as well, which nobody reads.
        return subprocess.run([os.path.join(harness.SOURCE, "tools", "mariadb"), verb, self.server], check=True, text=True,
                              stdout=subprocess.PIPE, env=dict(os.environ, **settings)).stdout

    def end(self):
        if os.path.exists(self.server):
            self.tool("stop")

    def load(self):
        return Load(["mariadb-slap", "--no-defaults", "--socket=" + self.socket, "--user=root", "--concurrency=%d" % CLIENTS,
                     "--number-of-queries=2000", "--auto-generate-sql", "--auto-generate-sql-load-type=mixed"])

    def test_under_load_until_it_ends(self):
        with self.load() as load:
            with self.attached(self.counter, [self.pid]) as (rtrace, before, armed):
                load.some_more()
        self.end()
        result = rtrace.end()
        self.assertEqual(load.failures, [])
        final = self.counter.calls(self.pid)
        self.between(result, difference(final, armed), difference(final, before), self.threads)
        self.assertGreater(difference(final, armed)["malloc"], 10000)

    def test_under_load_attached_to_and_left(self):
        with self.load() as load:
            for _ in range(3):
                with self.attached(self.counter, [self.pid]) as (rtrace, before, armed):
                    load.some_more()
                asked = self.counter.calls(self.pid)
                result = rtrace.stop()
                self.between(result, difference(asked, armed), difference(self.counter.calls(self.pid), before), self.threads)
                harness.wait_until(lambda: not harness.altered_code(self.pid), "its code is as it was")
        self.assertEqual(load.failures, [])


class PostgreSQL(Servers):
    """A process for each client."""

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.remove)
        self.counter = Counter(self.cluster.folder.path)
        self.cluster.launcher = self.counter.words()
        self.cluster.start()

    def is_idle(self):
        """It has only those children that are always there, and waits."""
        with open("/proc/{0}/task/{0}/children".format(self.cluster.pid)) as file:
            titles = [harness.read_text("/proc/%s/cmdline" % pid) for pid in file.read().split()]
        return harness.state(self.cluster.pid) == "S" and all(
            title.startswith("postgres: ") and not title.startswith("postgres: rtrace") for title in titles)

    def test_the_postmaster_and_the_backends_of_its_clients_exactly(self):
        subprocess.run(self.cluster.program("pgbench", "-i", "-q", "postgres"), check=True, stderr=subprocess.PIPE)
        harness.wait_until(self.is_idle, "the postmaster waits for a client")
        pid, others = self.cluster.pid, set(self.counter.pids())
        with self.attached(self.counter, [pid], "-f") as (rtrace, before, armed):
            with Load(self.cluster.program("pgbench", "-n", "-c", "4", "-j", "2", "-C", "-t", "40", "-S", "postgres")) as load:
                load.some_more()
        self.assertEqual(before, armed)
        self.cluster.stop()
        result = rtrace.end()
        self.assertEqual(load.failures, [])
        backends = set(self.counter.pids()) - others
        self.assertGreater(len(backends), 100)
        self.between(result, *[difference(self.counter.calls(pid, *backends), before)] * 2)


if __name__ == "__main__":
    unittest.main()
