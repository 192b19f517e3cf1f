#!/usr/bin/python3
"""Processes that may not be traced: the cause and the fix are named, and the process is left alone."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
WITHOUT_PTRACE = ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace", "--"]
ROOT = os.geteuid() == 0
HIDDEN = "import ctypes, sys\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nprint('pid', flush=True)\nsys.stdin.read()"

HIDDEN_PARENT = """
import ctypes, os, signal
signal.signal(signal.SIGTRAP, signal.SIG_IGN)
os.getppid()
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
child = os.fork()
if child == 0:
    os.getppid()
    os._exit(5 + 2 * ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def waits(prefix=()):
    process = harness.Target([*prefix, harness.target("waits"), "3"])
    process.expect("pid ")
    return process


def refused(test, pid, prefix=(), rtrace=None):
    """What rtrace says of a process that it may not trace."""
    done = subprocess.run([*prefix, rtrace or harness.RTRACE, "-q", "-c", "-x", "add", "-p", str(pid)], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=harness.environment(), timeout=harness.PATIENCE, check=False)
    test.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
    test.assertRegex(done.stderr, r"^rtrace: cannot attach to %d: " % pid)
    test.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
    return done.stderr


class OtherTracers(unittest.TestCase):
    @contextlib.contextmanager
    def holding(self, words, pid, tid=None):
        tracer = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env=harness.environment())
        try:
            yield harness.wait_until(lambda: harness.tracer(tid or pid), "%s has attached" % words[0])
        finally:
            tracer.stdin.close()
            tracer.terminate()
            tracer.wait(harness.PATIENCE)

    def test_strace_is_named_with_its_pid(self):
        with waits() as process, self.holding(["strace", "-p", str(process.pid)], process.pid) as tracer:
            self.assertIn("process %d (strace) is tracing it already" % tracer, refused(self, process.pid))

    def test_gdb_is_named_with_its_pid(self):
        words = ["gdb", "-q", "-nx", "-p"]
        with waits() as process, self.holding(words + [str(process.pid)], process.pid) as tracer:
            self.assertIn("process %d (gdb) is tracing it already" % tracer, refused(self, process.pid))

    def test_a_tracer_of_one_thread_only_is_named_too(self):
        with tempfile.TemporaryDirectory() as folder:
            with harness.Target([harness.target("busy"), os.path.join(folder, "board")]) as process:
                process.expect("pid ")
                thread = max(int(tid) for tid in os.listdir("/proc/%d/task" % process.pid))
                words = ["strace", "-o", "/dev/null", "-p", str(thread)]
                with self.holding(words, process.pid, thread) as tracer:
                    said = refused(self, process.pid)
                    self.assertIn("process %d (strace) is tracing its thread %d" % (tracer, thread), said)
                    self.assertEqual(harness.tracer(process.pid), 0)

    def test_of_two_that_race_one_traces_and_the_other_names_it(self):
        with waits() as process:
            for _ in range(10):
                both = []
                for _ in range(2):
                    ready, theirs = os.pipe()
                    both.append((ready, subprocess.Popen(
                        [harness.RTRACE, "--ready-fd=%d" % theirs, "-o", "/dev/null", "-x", "add", "-p",
                         str(process.pid)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[theirs],
                        env=harness.environment(), text=True)))
                    os.close(theirs)
                armed = [os.read(ready, 1) for ready, _ in both]
                holder = harness.tracer(process.pid)
                for (ready, one), is_armed in zip(both, armed):
                    os.close(ready)
                    if is_armed:
                        one.send_signal(signal.SIGINT)
                said = [one.communicate(timeout=harness.PATIENCE)[1] for _, one in both]
                self.assertEqual(sorted(map(len, armed)), [0, 1], said)
                winner = armed.index(max(armed))
                self.assertEqual((both[winner][1].returncode, both[1 - winner][1].returncode), (0, 1), said)
                self.assertIn("process %d (rtrace-engine) is tracing" % holder, said[1 - winner])
                self.assertEqual(harness.altered_code(process.pid), [])
            process.go()
            process.expect("done")

    @contextlib.contextmanager
    def held_engine_of(self, process):
        """Of an rtrace that traces it and was killed: stopped."""
        first = subprocess.Popen([harness.RTRACE, "-o", "/dev/null", "-x", "add", "-p", str(process.pid)],
                                 stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=harness.environment())
        engine = harness.wait_until(lambda: harness.tracer(process.pid), "rtrace has attached")
        # A group that nobody of ours is in would be woken by its orphaning (setpgid(2)).
        harness.wait_until(lambda: os.getpgid(engine) == engine, "its engine has its own group")
        companion = subprocess.Popen(["sleep", "1000"], process_group=engine)
        os.kill(engine, signal.SIGSTOP)
        first.kill()
        first.wait(harness.PATIENCE)
        try:
            yield engine
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(engine, signal.SIGCONT)
            companion.kill()
            companion.wait()

    @contextlib.contextmanager
    def awaits(self, engine, process, beside=()):
        """An rtrace that attaches behind that engine, which goes on afterwards."""
        words = [word for pid in (*beside, process.pid) for word in ("-p", str(pid))]
        second = subprocess.Popen([harness.RTRACE, "-o", "/dev/null", "-x", "add", *words],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  env=harness.environment())
        said = "".join(second.stderr.readline() for _ in range(1 + len(beside)))
        self.assertIn("process %d (rtrace-engine) is leaving it" % engine, said)
        yield
        os.kill(engine, signal.SIGCONT)
        harness.wait_until(lambda: harness.tracer(process.pid) not in (0, engine), "the second one has attached")
        second.send_signal(signal.SIGINT)
        self.assertNotIn("cannot attach", second.communicate(timeout=harness.PATIENCE)[1])
        self.assertEqual(second.returncode, 0)
        self.assertEqual(harness.altered_code(process.pid), [])
        process.go()
        process.expect("done")

    def test_an_engine_whose_visible_process_was_killed_is_waited_for(self):
        with waits() as process, self.held_engine_of(process) as engine, self.awaits(engine, process):
            pass

    def test_those_that_are_attached_already_run_while_such_an_engine_is_awaited(self):
        with waits() as process, waits() as other, self.held_engine_of(process) as engine:
            with self.awaits(engine, process, beside=(other.pid,)):
                for _ in range(3):
                    other.go()
                    other.expect("done")


class Kinds(unittest.TestCase):
    def test_rtrace_does_not_trace_itself(self):
        done = subprocess.run(["/bin/sh", "-c", 'exec "$0" -x add -p $$', harness.RTRACE], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=harness.environment(), timeout=harness.PATIENCE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"cannot attach to \d+: that is rtrace itself")

    def test_a_thread_is_not_a_process_and_the_process_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            with harness.Target([harness.target("busy"), os.path.join(folder, "board")]) as process:
                process.expect("pid ")
                thread = max(int(tid) for tid in os.listdir("/proc/%d/task" % process.pid))
                self.assertIn("thread of process %d" % process.pid, refused(self, thread))

    def test_one_that_is_refused_does_not_keep_the_others_from_being_traced(self):
        with waits() as process:
            rtrace = harness.Attached(["-F", harness.CONF, "-x", "add", "-p", str(2 ** 22 - 1)], [process.pid])
            process.go()
            process.expect("done")
            result = rtrace.stop()
            self.assertEqual((result.status, result.trace.count("add@libfixture.so(")), (1, 3), result)
            self.assertIn("no such process", result.stderr)


def in_namespace(options, words):
    return subprocess.run(["unshare", "-p", "-f", "--kill-child", *options, *words], text=True, env=harness.environment(),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=harness.PATIENCE, check=False)


@unittest.skipUnless(ROOT, "only root can make a pid namespace")
class PidNamespaces(unittest.TestCase):
    def test_a_proc_of_another_namespace_shows_other_processes_so_nothing_is_touched(self):
        for words in (["-x", "puts", "--", "echo", "run"], ["-x", "puts", "-p", "1"], ["--repair", "-p", "1"]):
            done = in_namespace([], [harness.RTRACE, *words])
            self.assertEqual((done.returncode, done.stdout), (1, ""), done)
            self.assertRegex(done.stderr, r"^rtrace: /proc is that of another pid namespace: .*--mount-proc\)\n$")

    def test_without_proc_that_is_said(self):
        done = subprocess.run(["unshare", "-m", "sh", "-c", 'umount -l /proc; exec "$@"', "sh", harness.RTRACE, "-x", "puts",
                               "echo", "run"], text=True, env=harness.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=harness.PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done)
        self.assertIn("/proc is not mounted", done.stderr)

    def test_with_its_own_proc_a_namespace_is_as_good_as_any(self):
        done = in_namespace(["--mount-proc"], [harness.RTRACE, "-F", harness.CONF, "-x", "add", harness.target("children"),
                                               "fork"])
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("add@libfixture.so(1, 1)", done.stderr)


# Starts one by a child that waits for somebody to write to a FIFO first.
OPENS = """
import os, sys
print("pid", flush=True)
child = os.posix_spawn(sys.argv[1], ["who", "-u"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[2], os.O_RDONLY, 0)])
os.waitpid(child, 0)
os.getppid()
print("done")
"""
# Prints the effective user of a program that is started in each way.
STARTS = """
import os, subprocess, sys
words = [sys.argv[1], "-u"]
os.system(" ".join(words))
os.waitpid(os.posix_spawn(words[0], words, {}), 0)
sys.stdout.write(subprocess.run(words, stdout=subprocess.PIPE, text=True).stdout)
sys.stdout.flush()
child = os.fork()
if child == 0:
    os.execv(words[0], words)
os.waitpid(child, 0)
"""


@unittest.skipUnless(ROOT and shutil.which("setpriv"), "only root can be somebody else, by setpriv")
class OtherUsers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The build folder may be closed to others.
        cls.folder = tempfile.TemporaryDirectory()
        os.chmod(cls.folder.name, 0o755)
        for path in (harness.RTRACE, harness.target("waits"), harness.target("libfixture.so")):
            shutil.copy(path, cls.folder.name)
        cls.rtrace = os.path.join(cls.folder.name, os.path.basename(harness.RTRACE))
        os.mkdir(os.path.join(cls.folder.name, "conf"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def nobody(self, words):
        process = harness.Target([*NOBODY, *words])
        process.expect("pid")
        return process

    def nobodys_waits(self):
        return self.nobody(["/usr/bin/env", "LD_LIBRARY_PATH=" + self.folder.name,
                            os.path.join(self.folder.name, "waits"), "3"])

    def test_a_process_of_another_user(self):
        with waits() as process:
            said = refused(self, process.pid, NOBODY, self.rtrace)
            self.assertRegex(said, r"it belongs to uid 0, rtrace runs as uid 65534; run rtrace as that user or as root")

    def test_a_process_that_is_not_dumpable(self):
        with self.nobody(["/usr/bin/python3", "-c", HIDDEN]) as process:
            said = refused(self, process.pid, NOBODY, self.rtrace)
            self.assertRegex(said, r"not dumpable.*run rtrace as root")

    def launched(self, function, *command, options=()):
        return subprocess.run([*NOBODY, self.rtrace, *options, "-x", function, "--", *command], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, env=harness.environment(),
                              timeout=harness.PATIENCE, check=False)

    def test_a_command_whose_file_cannot_be_read_is_run_untraced(self):
        program = os.path.join(self.folder.name, "secret")
        shutil.copy("/usr/bin/true", program)
        os.chmod(program, 0o111)
        done = self.launched("getenv", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"\(secret\) runs on untraced: it is not dumpable: .*cannot be read.*run rtrace as root")

    def test_root_without_the_capability(self):
        with waits() as process:
            said = refused(self, process.pid, WITHOUT_PTRACE)
            self.assertRegex(said, r"capabilities that rtrace has not, and CAP_SYS_PTRACE is missing; give rtrace")
        with self.nobodys_waits() as process:
            said = refused(self, process.pid, WITHOUT_PTRACE)
            self.assertRegex(said, r"belongs to uid 65534.*CAP_SYS_PTRACE is missing")

    def test_what_is_a_user_s_own_is_traced_by_that_user(self):
        with self.nobodys_waits() as process:
            with tempfile.TemporaryDirectory() as folder:
                os.chmod(folder, 0o777)
                output = os.path.join(folder, "trace")
                rtrace = subprocess.Popen([*NOBODY, self.rtrace, "-o", output, "-x", "add", "-p", str(process.pid)],
                                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=harness.environment(),
                                          text=True)
                try:
                    self.assertRegex(rtrace.stderr.readline(), "attached to %d" % process.pid)
                    process.go()
                    process.expect("done")
                finally:
                    rtrace.send_signal(signal.SIGINT)
                    said = rtrace.communicate(timeout=harness.PATIENCE)[1]
                self.assertEqual(rtrace.returncode, 0, said)
                self.assertEqual(harness.read_text(output).count("add@libfixture.so("), 3, said)

    def set_user_id(self):
        if os.statvfs(self.folder.name).f_flag & os.ST_NOSUID:
            self.skipTest("set-user-ID bits mean nothing there")
        program = os.path.join(self.folder.name, "who")
        shutil.copy("/usr/bin/id", program)
        os.chmod(program, 0o4755)
        return program

    def test_what_is_not_followed_has_the_privileges_of_its_program(self):
        program = self.set_user_id()
        for mechanism in ("breakpoint", "trampoline"):
            with self.subTest(mechanism):
                done = self.launched("getpid+execve", "/usr/bin/python3", "-c", STARTS, program,
                                     options=["--mechanism=" + mechanism])
                self.assertEqual((done.returncode, done.stdout), (0, "0\n" * 4), done.stderr)
                self.assertNotIn("set-user-ID", done.stderr)

    def test_what_is_on_its_way_to_its_program_when_rtrace_comes_has_them_too(self):
        program, fifo = self.set_user_id(), os.path.join(self.folder.name, "fifo")
        os.mkfifo(fifo)
        os.chmod(fifo, 0o644)
        with self.nobody(["/usr/bin/python3", "-c", OPENS, program, fifo]) as process:
            children = "/proc/%d/task/%d/children" % (process.pid, process.pid)
            harness.wait_until(lambda: harness.read_text(children), "there is a child")
            call = "/proc/%s/syscall" % harness.read_text(children).strip()
            harness.wait_until(lambda: harness.read_text(call).startswith("257 "), "it waits in openat()")
            rtrace = subprocess.Popen([*NOBODY, self.rtrace, "-x", "getppid", "-p", str(process.pid)],
                                      stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=harness.environment(), text=True)
            try:
                self.assertRegex(rtrace.stderr.readline(), "attached to %d" % process.pid)
                open(fifo, "w").close()
                self.assertEqual(process.finish(), ("0\ndone\n", 0))
            finally:
                said = rtrace.communicate(timeout=harness.PATIENCE)[1]
            self.assertNotIn("set-user-ID", said)
            self.assertIn("getppid", said)

    def test_where_tracing_costs_them_that_is_said(self):
        program = self.set_user_id()
        said = r"process \d+: the set-user-ID bit of %s gave it nothing.*CAP_SYS_PTRACE; run rtrace as root" % program
        done = self.launched("getpid", "/usr/bin/python3", "-c", STARTS, program, options=["-f"])
        self.assertEqual((done.returncode, done.stdout), (0, "65534\n" * 4), done.stderr)
        self.assertEqual(len(re.findall(said, done.stderr)), 4, done.stderr)
        done = self.launched("getpid", program, "-u")
        self.assertEqual((done.returncode, done.stdout), (0, "65534\n"), done.stderr)
        self.assertEqual(len(re.findall(said, done.stderr)), 1, done.stderr)

    def test_so_is_one_that_a_shell_becomes_which_has_sigtrap_ignored(self):
        program = os.path.join(self.folder.name, "secret")
        shutil.copy("/usr/bin/true", program)
        os.chmod(program, 0o111)
        done = self.launched("getenv", "sh", "-c", "trap '' TRAP; exec " + program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"\(secret\) runs on untraced")

    def test_a_child_of_a_process_that_has_made_itself_not_dumpable_is_as_it_was(self):
        for options in ([], ["-f"], ["-f", "--mechanism=trampoline"]):
            with self.subTest(options=options):
                done = self.launched("getppid", "/usr/bin/python3", "-c", HIDDEN_PARENT, options=options)
                self.assertEqual((done.returncode, done.stdout), (0, "0 5\n"), done.stderr)
                self.assertEqual(len(re.findall(r"getppid@\S+\(\) +=", done.stderr)), 2 if options else 1, done.stderr)
                self.assertNotRegex(done.stderr, "not followed|runs on with")

    def test_that_what_it_loads_then_is_not_seen_is_said(self):
        program = ("import ctypes, os\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nos.getppid()\n"
                   "print(ctypes.CDLL('%s').add(1, 2))" % os.path.join(self.folder.name, "libfixture.so"))
        done = self.launched("getppid+add", "/usr/bin/python3", "-c", program)
        self.assertEqual((done.returncode, done.stdout), (0, "3\n"), done.stderr)
        self.assertEqual(len(re.findall(r"getppid@\S+\(\) +=", done.stderr)), 1, done.stderr)
        self.assertEqual(len(re.findall("hides its mappings: libraries .* are not traced; run rtrace as root", done.stderr)), 1,
                         done.stderr)
        self.assertIn("no mapped object defines add", done.stderr)
        self.assertNotIn("is left out", done.stderr)

    def test_root_traces_what_is_not_dumpable(self):
        with self.nobody(["/usr/bin/python3", "-c", HIDDEN]) as process:
            result = harness.Attached(["-x", "getppid"], [process.pid]).stop()
            self.assertEqual(result.status, 0, result)
            self.assertRegex(result.stderr, r"attached to %d" % process.pid)


class Hiding(unittest.TestCase):
    """A process that is not dumpable any more when it is traced already, by who could not attach to it then."""

    def check(self, options, mark):
        options = ["-F", harness.CONF, *options]
        with harness.without_capabilities("sys_ptrace"):
            result = harness.run([*options, "--", harness.target("hides")], stdin="\n")
            self.assertEqual((result.status, result.trace.count(mark)), (0, 3), result)
            with harness.Target([*(WITHOUT_PTRACE if ROOT else []), harness.target("hides")]) as process:
                process.expect("pid ")
                rtrace = harness.Attached(options, [process.pid])
                process.go()
                self.assertEqual(process.finish()[1], 0)
                result = rtrace.end()
            self.assertEqual((result.status, result.trace.count(mark)), (0, 3), result)

    def test_is_traced_on_at_call_sites(self):
        self.check(["-e", "greet"], "greet(\"hidden\")")

    def test_is_traced_on_at_entries_with_time_and_duration(self):
        self.check(["-ttT", "-x", "greet"], "greet@libfixture.so(\"hidden\")")


def yama():
    return harness.read_text("/proc/sys/kernel/yama/ptrace_scope").strip()


@unittest.skipUnless(yama() in ("1", "2", "3") and (not ROOT or yama() == "3"), "Yama does not stand in the way here")
class Yama(unittest.TestCase):
    def test_the_value_is_named(self):
        with waits() as process:
            self.assertIn("kernel.yama.ptrace_scope is " + yama(), refused(self, process.pid))


if __name__ == "__main__":
    unittest.main()
