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
import libc_test

ROUNDS = 20
CALL = re.compile(r"^(?:\[pid +\d+\] )?(\w+)@SYS\(")


def trace(words, options=(), cwd=None):
    return harness.run(["-L", "-S"] + list(options) + ["--"] + words, cwd=cwd)


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
            'openat@SYS(AT_FDCWD, "/no/such/file", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)',
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

    def test_what_a_signal_interrupts_has_failed(self):
        perl = ["/usr/bin/perl", "-e", "$SIG{ALRM} = sub {}; alarm 1; select(undef, undef, undef, 30) == -1 or die; print $!+0"]
        result = trace(perl, ["--where", "errno == EINTR"])
        self.assertEqual((result.status, result.stdout), (0, "4"), result)
        self.assertEqual(len([line for line in result.lines if line.startswith("pselect6@SYS(")]), 1, result)
        rows = harness.Summary(trace(perl, ["-c"]).trace).rows
        self.assertEqual([(row["calls"], row["errors"]) for name, row in rows.items() if name.startswith("pselect6")], [(1, 1)])

    def test_a_handler_returns_into_code_of_ours_too(self):
        for mechanism in ("breakpoint", "trampoline"):
            result = harness.run(["-F", harness.CONF, "--mechanism=" + mechanism, "-b", "-S", "-L", "-x", "visit", "--",
                                  harness.target("flow_signals"), "rearmed", "100"])
            self.assertEqual(result.status, 0, result)
            returns = [line for line in result.lines if "rt_sigreturn@SYS" in line]
            self.assertEqual([line for line in returns if "no return" in line], [], mechanism)
            self.assertEqual(len(returns), 99)

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


class Types(unittest.TestCase):
    def test_every_call_is_shown_with_what_its_arguments_point_at(self):
        with tempfile.TemporaryDirectory() as folder:
            result = harness.run(["-L", "-b", "-S", "--", harness.target("kernel_types")], cwd=folder)
        self.assertEqual(result.status, 0, result)
        found = [libc_test.normalised(line) for line in result.lines]
        marks = [i for i, line in enumerate(found) if line.startswith("write@SYS(2, ")]
        source = os.path.join(harness.HERE, "targets", "kernel_types.c")
        expected = re.findall(r"//= (.*)$", harness.read_text(source), re.M)
        self.assertGreater(len(expected), 80)
        wrong = libc_test.compared(expected, found[marks[0] + 1:marks[-1]])
        if wrong:
            self.fail("\n" + "\n".join(wrong))

    def test_every_call_of_the_kernel_s_table_that_programs_make_has_a_prototype(self):
        names = set(re.findall(r"[\w)*] (\w+)\(", harness.read_text(os.path.join(harness.SOURCE, "conf", "SYS.conf"))))
        self.assertGreater(len(names), 250)


class TheCommandItself(unittest.TestCase):
    def first(self, words, cwd=None):
        return trace(words, cwd=cwd).lines[0]

    def test_its_execve_is_the_first_line(self):
        self.assertRegex(self.first(["/bin/true", "a b"]),
                         r'^execve@SYS\("/bin/true", \[ "/bin/true", "a b" \], 0x[0-9a-f]+\) += 0$')

    def test_a_name_from_the_path_and_a_script_are_shown_as_they_were_run(self):
        self.assertRegex(self.first(["true"]), r'^execve@SYS\("[^"]*/true", \[ "true" \], ')
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script")
            with open(script, "w") as file:
                file.write("#!/bin/sh\nexit 0\n")
            os.chmod(script, 0o755)
            self.assertRegex(self.first(["./script", "x"], cwd=folder), r'^execve@SYS\("./script", \[ "./script", "x" \], ')

    def test_it_is_counted(self):
        result = trace(["/bin/true"], ["-c"])
        self.assertTrue([line for line in result.lines if re.search(r" 1 .*execve", line)], result)


class AsStraceCounts(unittest.TestCase):
    def compare(self, words, only=None):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            subprocess.run(["strace", "-f", "-qq", "-e", "signal=none", "-o", log] + words, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.environment(), check=True)
            theirs = counted(harness.read_text(log).splitlines(), re.compile(r"^\d+ +(\w+)\("))
        result = trace(words, ["-f"])
        ours = counted(result.lines, CALL)
        self.assertGreater(sum(ours.values()), 20, result)
        if only is not None:
            ours, theirs = (collections.Counter({name: calls[name] for name in only}) for calls in (ours, theirs))
            self.assertTrue(all(theirs.values()), theirs)
        self.assertEqual(dict(+ours), dict(+theirs))

    def test_ls(self):
        self.compare(["/bin/ls", "/"])

    def test_python(self):
        """Where its memory lies decides on how often it asks for more."""
        self.compare(["setarch", "-R", "/usr/bin/python3", "-I", "-S", "-c", "pass"])

    def test_threads_from_their_first_one_on(self):
        # How often they wait for one another is chance; what each does at its beginning and end is not.
        self.compare([harness.target("threads"), "3"], only=("rseq", "set_robust_list", "clone3", "exit", "rt_sigprocmask"))

    def test_a_shell_and_its_children(self):
        self.compare(["/bin/sh", "-c", "/bin/true; /bin/echo done"])


class AsStraceSays(unittest.TestCase):
    """Call by call the same strings, keys and errors; not letter by letter, and not what differs from run to run."""
    # What one of the two says in another way: a flag whose value is 0, sets of all signals, realtime signals.
    STYLE = {"O_RDONLY", "AT_STATX_SYNC_AS_STAT", "NULL", "RLIM64_INFINITY", "RLIM_INFINITY", "CANCEL", "SETXID", "ALL"}

    @staticmethod
    def escaped(match):
        text = match.group(1)
        return chr(int(text, 8)) if text[0] in "01234567" else dict(zip("abtnvfr", "\a\b\t\n\v\f\r")).get(text, text)

    @staticmethod
    def strace(words, cwd):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            subprocess.run(["strace", "-qq", "-s", "200", "-e", "signal=none", "-o", log] + words, stdin=subprocess.DEVNULL, cwd=cwd,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=harness.environment(), check=True)
            return harness.read_text(log).splitlines()

    def meaning(self, line):
        name, _, rest = line.partition("(")
        # Escapes are C's in both; an abstract socket's name has an `@` before it there.
        strings = [re.sub(r"\\([0-7]{1,3}|.)", self.escaped, text).lstrip("\0")
                   for text in re.findall(r'"((?:[^"\\]|\\.)*)"', rest)]
        if name.startswith(("getrandom", "uname")):  # as chance has it; cut short there
            strings = strings[:1] if name.startswith("uname") else []
        words = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", re.sub(r'"(?:[^"\\]|\\.)*"', "", rest)))
        words = {re.sub("^SIG(?!_)", "", word) for word in words if not re.match("S_IF|(SIG)?RT(MIN|_)", word)}
        return name.replace("@SYS", ""), strings, words - self.STYLE

    def compare(self, words, least, cwd=None):
        ours = trace(words, ["-b", "-s", "200", "-A", "200"], cwd).lines
        # Where the heap happens to begin decides which calls for memory there are.
        chance = re.compile(r"(brk|mmap|munmap|mremap)\b")
        ours, theirs = ([self.meaning(line) for line in lines if re.match(r"\w+(@SYS)?\(", line) and not chance.match(line)]
                        for lines in (ours, self.strace(words, cwd)))
        names = lambda calls: [call[0] for call in calls]
        self.assertEqual(names(ours), names(theirs))
        self.assertGreater(len(ours), least)
        wrong = ["rtrace %s\nstrace %s" % pair for pair in zip(ours, theirs) if pair[0] != pair[1]]
        if wrong:
            self.fail("\n" + "\n".join(wrong))

    def test_of_ls(self):
        self.compare(["/bin/ls", "-l", "/usr"], 60)

    def test_of_sort_and_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "lines"), "w") as file:
                file.write("b\na\n")
            self.compare(["/usr/bin/sort", "--parallel=1", "-o", "sorted", "lines"], 60, folder)

    def test_of_a_shell(self):
        self.compare(["/bin/sh", "-c", "trap : USR1; cd /; echo a >/dev/null; kill -USR1 $$; umask 22"], 30)

    def test_of_python_and_a_server_of_its_own(self):
        program = "\n".join((
            "import os, select, signal, socket, time",
            "a = socket.socket(); a.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); a.bind(('127.0.0.1', 0))",
            "a.listen(5); b = socket.create_connection(a.getsockname()); c, _ = a.accept()",
            "b.sendall(b'hello'); select.select([c], [], [], 1); c.recv(9); c.close()",
            "u = socket.socket(socket.AF_UNIX); u.connect_ex('/no/such'); u.connect_ex('\\0none')",
            "p = select.poll(); p.register(b, select.POLLIN); p.poll(100)",
            "e = select.epoll(); e.register(b, select.EPOLLIN); e.poll(1)",
            "r, w = os.pipe(); os.writev(w, [b'one', b'two']); os.readv(r, [bytearray(2), bytearray(9)])",
            "time.sleep(0.001); signal.signal(signal.SIGUSR1, signal.SIG_IGN); os.kill(os.getpid(), signal.SIGUSR1)",
            "signal.setitimer(signal.ITIMER_REAL, 100); os.sched_getaffinity(0); os.uname(); os.stat('/')",
        ))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w") as file:
                file.write(program)
            self.compare(["/usr/bin/python3", "-I", "-S", "-B", "program.py"], 150, folder)

    def test_of_curl_with_a_local_server(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "page"), "w") as file:
                file.write("content\n")
            server = subprocess.Popen(["/usr/bin/python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"],
                                      cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            self.addCleanup(server.communicate)
            self.addCleanup(server.kill)
            port = re.search(r"port (\d+)", server.stdout.readline()).group(1)
            lines = trace(["/usr/bin/curl", "-s", "-o", "/dev/null", "http://127.0.0.1:%s/page" % port], ["-f"]).lines
            address = '{ AF_INET, %s, "127.0.0.1" }' % port
            text = "\n".join(re.sub(r"^\[pid +\d+\] ", "", line) for line in lines)
            self.assertRegex(text, r"(?m)^connect@SYS\(\d+, %s, 16\) += -1 EINPROGRESS" % re.escape(address))
            self.assertRegex(text, r"(?m)^getpeername@SYS\(\d+, %s, 128 -> 16\) += 0" % re.escape(address))
            self.assertRegex(text, r'(?m)^sendto@SYS\(\d+, "GET /page HTTP/1.1\\r\\nHost: 127[^"]*"\.\.\., \d+, MSG_NOSIGNAL, nil, 0\)')
            self.assertRegex(text, r"(?m)^poll@SYS\(\[ \{ \d+, POLL\w+(\|POLL\w+)*, 0 \}")
            self.assertRegex(text, r"(?m)^getsockopt@SYS\(\d+, SOL_SOCKET, SO_ERROR, 0, 4\) += 0")


WAITS = "import select\nprint('pid', flush=True)\ninput()\nselect.select([], [], [], 1000)"
PSELECT6 = "270"


class StillOpen(unittest.TestCase):
    @staticmethod
    def waits(pid):
        """Behind the stop at which the call begins."""
        return harness.read_text("/proc/%d/syscall" % pid).startswith(PSELECT6) and harness.state(pid) == "S"

    def test_the_time_until_the_trace_ends_is_counted_and_is_not_its_caller_s_own(self):
        with harness.Target(["/usr/bin/python3", "-c", WAITS]) as process:
            process.expect("pid")
            rtrace = harness.Attached(["--mechanism=breakpoint", "-c", "-S", "-x", "select@libc.so.6"], [process.pid])
            process.go()
            harness.wait_until(lambda: self.waits(process.pid), "it waits")
            table = harness.Summary(rtrace.stop().trace)
            inner, outer = table.rows["pselect6@SYS"], table.rows["select@libc.so.6"]
            for row in inner, outer:
                self.assertEqual(row["calls"], 1, table.rows)
                self.assertRegex(row["seconds"], r"^\d+\.\d+\+$")
            self.assertGreater(float(inner["seconds"][:-1]), 0, table.rows)
            self.assertGreaterEqual(float(outer["seconds"][:-1]), float(inner["seconds"][:-1]), table.rows)
            self.assertLess(harness.seconds(outer["self"][:-1]), float(outer["seconds"][:-1]), table.rows)


class Attached(unittest.TestCase):
    words = []
    ended = False

    def setUp(self):
        self.target = harness.Target([harness.target("kernel"), "busy"] + self.words)
        self.addCleanup(self.end)
        self.target.expect("pid ")

    def end(self):
        if self.target.process.poll() is None:
            self.target.process.kill()
            self.target.process.communicate()
        elif not self.ended:  # of what, it says
            rest, status = self.target.finish()
            print("the target had ended, status %s: %s" % (status, rest[-500:]), file=sys.stderr)

    def rounds(self):
        self.target.go()
        return int(self.target.expect(r"rounds (\d+)").group(1))

    def goes_on(self):
        before = self.rounds()
        harness.wait_until(lambda: self.rounds() > before + 20, "the target goes on")

    def ends_well(self):
        self.target.process.stdin.write("quit\n")
        rest, status = self.target.finish()
        self.ended = True
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
