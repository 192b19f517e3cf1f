#!/usr/bin/python3
"""System calls (-S): each is shown once, as the program made it, and none of ours is; nobody is harmed.

syscalls_test.py [ROUNDS]: so many kills of the engine, and a fifth as many of both processes (20).
"""
import collections
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import harness

ROUNDS = 20
CALL = re.compile(r"^(?:\[pid +\d+\] )?(\w+)@SYS\(")


def trace(words, options=()):
    return harness.run(["-L", "-S"] + list(options) + ["--"] + words)


def plain(line):
    return re.sub(r" +", " ", re.sub(r"0x[0-9a-f]{5,}", "ADDR", line))


def counted(lines, pattern):
    return collections.Counter(match.group(1) for match in map(pattern.match, lines) if match)


class Lines(unittest.TestCase):
    def test_descriptors_and_backtraces_are_those_of_calls(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.realpath(os.path.join(folder, "file"))
            with open(file, "w") as content:
                content.write("hello\n")
            result = harness.run(["-L", "-S", "-y", "-w", "2", "--", "/bin/cat", file], cwd=folder)
            lines = [plain(line) for line in result.lines]
            where = "AT_FDCWD<%s>" % os.path.dirname(file)
            opened = 'openat@SYS(%s, "%s"' % (where, file[:32])
            at = next(i for i, line in enumerate(lines) if line.startswith(opened))
            number = re.search(r"= (\d+)<%s>$" % re.escape(file), lines[at])
            self.assertIsNotNone(number, lines[at])
            self.assertRegex(lines[at + 1], r"^ > libc\.so\.6\(\w*open\w*\+0x\w+\) \[ADDR\]$")
            self.assertIn('read@SYS(%s<%s>, "hello\\n", 131072) = 6' % (number.group(1), file), lines)
            self.assertTrue(any(line.startswith(" > cat(") for line in lines[at:at + 6]), lines[at:at + 6])

    def test_exact_lines(self):
        result = trace([harness.target("kernel"), "lines"])
        self.assertEqual(result.status, 0, result)
        shown = [plain(line) for line in result.lines]
        first = next(i for i, line in enumerate(shown) if '"begin' in line)
        last = next(i for i, line in enumerate(shown) if '"end' in line)
        pid = "PID"
        shown = [re.sub(r"= \d{2,}$", "= " + pid, line) for line in shown[first:last + 1]]
        expected = [
            'write@SYS(2, "begin\\n", 6) = 6',
            "pipe2@SYS([ 3, 4 ], 0) = 0",
            'write@SYS(4, "a\\0b", 3) = 3',
            'read@SYS(3, "a\\0b", 4) = 3',
            "close@SYS(3) = 0",
            "close@SYS(4) = 0",
            "close@SYS(4) = -1 EBADF (Bad file descriptor)",
            'openat@SYS(AT_FDCWD, "/no/such/file", O_CLOEXEC, 0) = -1 ENOENT (No such file or directory)',
            'mkdir@SYS("/", 0755) = -1 EEXIST (File exists)',
            "syscall_0x1267@SYS(1, 2, 3, 4) = -1 ENOSYS (Function not implemented)",
            "lseek@SYS(0, 0, 102) = -1 EINVAL (Invalid argument)",
            "fork@SYS() = PID",
        ]
        self.assertEqual(shown[:len(expected)], expected, result)
        self.assertEqual(shown[-1], 'write@SYS(2, "end\\n", 4) = 4', result)
        waited = [line for line in shown if line.startswith("wait4@SYS(-1") or "wait4 resumed" in line or
                  "wait4@SYS resumed" in line]
        self.assertTrue(waited, result)
        self.assertEqual(result.lines[-2].split("(")[0], "exit_group@SYS", result)
        self.assertTrue(result.lines[-2].endswith("<no return ...>"), result)

    def test_a_signal_interrupts_and_says_so(self):
        result = trace([harness.target("kernel"), "signals"])
        self.assertEqual(result.status, 0, result)
        text = "\n".join(plain(line) for line in result.lines)
        self.assertIn("= ? ERESTARTSYS (To be restarted if SA_RESTART is set)\n--- SIGALRM (Alarm clock) ---", text)
        self.assertRegex(text, r"rt_sigreturn@SYS\(\) = -1 EINTR \(Interrupted system call\)")
        self.assertRegex(text, r'read@SYS\(\d+, "x", 1\) = 1')

    def test_exec_returns_in_the_new_program(self):
        result = trace(["/bin/sh", "-c", "exec /bin/true"])
        lines = [plain(line) for line in result.lines]
        at = lines.index("--- Called exec() ---")
        self.assertIn('execve@SYS("/bin/true"', lines[at - 1])
        self.assertTrue(lines[at - 1].endswith("<unfinished ...>"), lines[at - 1])
        self.assertEqual(lines[at + 1], "<... execve@SYS resumed> ) = 0")

    def test_without_it_there_are_none(self):
        result = harness.run(["-e", "close", harness.target("kernel"), "lines"])
        self.assertNotIn("@SYS", result.trace)
        self.assertIn("close(", result.trace)

    def test_library_calls_beside_them(self):
        result = harness.run(["-S", "-e", "close@MAIN", harness.target("kernel"), "lines"])
        text = "\n".join(plain(line) for line in result.lines)
        self.assertRegex(text, r"kernel->close\(3 <unfinished ...>\nclose@SYS\(3\) = 0\n<... \S*close resumed> \) = 0")

    def test_the_table_counts_them(self):
        result = trace([harness.target("kernel"), "lines"], ["-c"])
        row = [line for line in result.lines if "close" in line]
        self.assertTrue(row and "SYS" in row[0], result)


class AsStraceCounts(unittest.TestCase):
    def compare(self, words, only=None):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            subprocess.run(["strace", "-f", "-qq", "-e", "signal=none", "-o", log] + words, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.environment(), check=True)
            theirs = counted(harness.read_text(log).splitlines(), re.compile(r"^\d+ +(\w+)\("))
        result = trace(words, ["-f"])
        ours = counted(result.lines, CALL)
        theirs["execve"] -= 1  # the launch itself, before there is a program to trace
        self.assertGreater(sum(ours.values()), 20, result)
        if only is not None:
            ours, theirs = (collections.Counter({name: calls[name] for name in only}) for calls in (ours, theirs))
            self.assertTrue(all(theirs.values()), theirs)
        self.assertEqual(dict(+ours), dict(+theirs))

    def test_ls(self):
        self.compare(["/bin/ls", "/"])

    def test_python(self):
        self.compare(["/usr/bin/python3", "-I", "-S", "-c", "pass"])

    def test_threads_from_their_first_one_on(self):
        # How often they wait for one another is chance; what each does at its beginning and end is not.
        self.compare([harness.target("threads"), "3"], only=("rseq", "set_robust_list", "clone3", "exit", "rt_sigprocmask"))

    def test_a_shell_and_its_children(self):
        self.compare(["/bin/sh", "-c", "/bin/true; /bin/echo done"])


class Attached(unittest.TestCase):
    words = []

    def setUp(self):
        self.target = harness.Target([harness.target("kernel"), "busy"] + self.words)
        self.addCleanup(self.end)
        self.target.expect("pid ")

    def end(self):
        if self.target.process.poll() is None:
            self.target.process.kill()
            self.target.process.communicate()

    def rounds(self):
        self.target.go()
        return int(self.target.expect(r"rounds (\d+)").group(1))

    def goes_on(self):
        before = self.rounds()
        harness.wait_until(lambda: self.rounds() > before + 20, "the target goes on")

    def ends_well(self):
        self.target.process.stdin.write("quit\n")
        rest, status = self.target.finish()
        self.assertEqual((status, re.findall("wrong.*", rest)), (0, []))

    def test_all_threads_are_shown_and_none_is_harmed(self):
        for _ in range(3):
            attached = harness.Attached(["-L", "-S"], [self.target.pid])
            wanted = ("epoll_wait", "clock_nanosleep", "read", "write", "getppid", "close")
            def all_are_seen():
                seen = counted(attached.lines_so_far(), CALL)
                return all(seen[name] for name in wanted)
            harness.wait_until(all_are_seen, "all calls are seen")
            result = attached.stop()
            self.assertEqual(result.status, 0, result)
            self.assertFalse([line for line in result.lines if "ERESTART" in line or "EINTR" in line])
            self.goes_on()
        self.ends_well()

    def test_attached_and_let_go_again_and_again(self):
        for _ in range(ROUNDS):
            harness.Attached(["-L", "-S", "-o", "/dev/null"], [self.target.pid]).stop()
        self.goes_on()
        self.ends_well()


class Killed(Attached):
    """A call that waits may end with EINTR then: the kernel makes a signal of the stop that nobody answers."""
    words = ["patient"]
    test_all_threads_are_shown_and_none_is_harmed = None
    test_attached_and_let_go_again_and_again = None

    def killed(self, both):
        attached = harness.Attached(["-L", "-S", "-o", "/dev/null"], [self.target.pid])
        end = time.monotonic() + random.random() * 0.02
        while time.monotonic() < end:
            self.rounds()
        pid = attached.process.pid
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            engine = int(file.read().split()[0])
        if both:
            os.kill(pid, signal.SIGSTOP)
        os.kill(engine, signal.SIGKILL)
        if both:
            attached.process.kill()
        attached.end()
        harness.wait_until(lambda: harness.tracer(self.target.pid) == 0, "no tracer is left")
        self.goes_on()

    def test_the_engine_is_killed(self):
        for _ in range(ROUNDS):
            self.killed(False)
        self.assertEqual(harness.altered_code(self.target.pid), [])
        self.ends_well()

    def test_both_are_killed(self):
        for _ in range(max(1, ROUNDS // 5)):
            self.killed(True)
            harness.run(["--repair", "-p", str(self.target.pid)])
            self.goes_on()
        self.ends_well()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        ROUNDS = int(sys.argv.pop(1))
    unittest.main()
