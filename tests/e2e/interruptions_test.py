#!/usr/bin/python3
"""What ends a system call of the program's, and what does not: its own signals as they would without us, and nothing of
ours. epoll_wait fails with EINTR after any interruption."""
import mmap
import os
import re
import signal
import struct
import tempfile
import unittest

import harness
import syscalls_test

ROUNDS = int(os.environ.get("RTRACE_ROUNDS", "15"))
PAUSE, EPOLL_WAIT = "34 ", "232 "  # as proc(5) shows them
WAITS = """
import ctypes, os, select, sys
library, poll = ctypes.CDLL(None, use_errno=True), select.epoll()
end = os.pipe()
poll.register(end[0], select.EPOLLIN)
print("pid", os.getpid(), end[1], flush=True)
sys.stdin.readline()
result = library.epoll_wait(poll.fileno(), ctypes.create_string_buffer(12), 1, 100000)
print("over", result, ctypes.get_errno() if result < 0 else 0, flush=True)
"""


def attach(process, *options):
    return harness.Attached(["-F", harness.CONF, *(options or ("-x", "add"))], [process.pid])


def wait_for_call(pid, number):
    harness.wait_until(lambda: harness.state(pid) == "S" and
                       harness.read_text("/proc/%d/syscall" % pid).startswith(number), "it waits")


class ByItsOwnSignals(unittest.TestCase):
    def test_a_program_that_waits_for_its_own_eintr_gets_each_of_them(self):
        """The signal that our interrupt overtakes must not be lost by the restart of the wait."""
        with tempfile.TemporaryDirectory() as folder:
            board = os.path.join(folder, "board")
            with harness.Target([harness.target("witness"), "own", board]) as process:
                process.expect("pid ")
                with open(board, "r+b") as file:
                    shared = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)

                def rounds():
                    return struct.unpack_from("=q", shared)[0]

                for _ in range(ROUNDS):
                    rtrace = attach(process, "-b", "-x", "add")
                    try:
                        at = rounds()
                        harness.wait_until(lambda: rounds() > at + 20, "the waiter gets on while traced", 20)
                        self.assertEqual(rtrace.stop().status, 0)
                    finally:
                        rtrace.abandon()
                    at = rounds()
                    harness.wait_until(lambda: rounds() > at + 20, "the waiter gets on after the detach", 20)
                process.go()
                self.assertEqual(process.finish()[1], 0)

    def test_a_handler_of_sigcont_interrupts_too(self):
        code = ("import signal, sys; signal.signal(signal.SIGCONT, lambda *_: None); print('waits', flush=True); "
                "signal.pause(); print('over', flush=True); sys.stdin.readline()")
        with harness.Target(["/usr/bin/python3", "-c", code]) as process:
            process.expect("waits")
            rtrace = harness.Attached(["-L", "-S"], [process.pid])
            wait_for_call(process.pid, PAUSE)
            os.kill(process.pid, signal.SIGCONT)
            process.expect("over")
            process.go()
            self.assertEqual(process.finish()[1], 0)
            lines = [syscalls_test.plain(line) for line in rtrace.end().lines]
        handled = lines.index("--- SIGCONT (Continued) ---")
        self.assertEqual(lines[handled - 1].replace("<... pause@SYS resumed> )", "pause@SYS()"),
                         "pause@SYS() = ? ERESTARTNOHAND (To be restarted if no handler)")
        self.assertEqual(lines[handled + 1], "rt_sigreturn@SYS() = -1 EINTR (Interrupted system call)")

    def test_a_stop_and_sigcont_end_it_as_they_do_without_us(self):
        for options in (None, ["-x", "getenv"], ["-S", "-x", "getenv"]):
            with self.subTest(options), harness.Target(["/usr/bin/python3", "-c", WAITS]) as process:
                process.expect("pid ")
                rtrace = harness.Attached(options, [process.pid]) if options else None
                process.go()
                wait_for_call(process.pid, EPOLL_WAIT)
                os.kill(process.pid, signal.SIGSTOP)
                self.assertTrue(os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1]))
                os.kill(process.pid, signal.SIGCONT)
                self.assertEqual(process.expect(r"over (-?\d+ \d+)").group(1), "-1 4")
                self.assertEqual(process.finish()[1], 0)
                if rtrace:
                    self.assertEqual(rtrace.end().status, 0)


class ByUs(unittest.TestCase):
    def test_by_signals_that_are_ignored(self):
        result = harness.run(["-F", harness.CONF, "-x", "add", "--", harness.target("patient"), "children"])
        self.assertEqual((result.status, result.stdout.split()), (0, ["interrupted", "0"]), result)

    def test_by_stops_for_trampolines_while_system_calls_are_shown(self):
        with harness.Target([harness.target("patient"), "hot"]) as process:
            process.expect("pid ")
            for _ in range(4):
                rtrace = attach(process, "-S", "-x", "add")
                try:
                    harness.wait_until(lambda: len(rtrace.lines_so_far()) > 20000, "it is hot")
                    self.assertEqual(rtrace.stop().status, 0)
                finally:
                    rtrace.abandon()
            process.go()
            self.assertEqual(process.finish(), ("interrupted 0\n", 0))

    def test_by_signals_that_are_ignored_while_system_calls_are_shown(self):
        for number in (signal.SIGWINCH, signal.SIGCONT, signal.SIGCHLD):
            with self.subTest(number), tempfile.NamedTemporaryFile("r") as output, harness.Target(
                    harness.invocation(["-L", "-S", "-o", output.name, "--", "/usr/bin/python3", "-c", WAITS])) as process:
                pid, end = map(int, process.expect(r"pid (\d+) (\d+)").groups())
                process.go()
                wait_for_call(pid, EPOLL_WAIT)
                os.kill(pid, number)
                harness.wait_until(lambda trace=output.name, name=number.name: "--- %s " % name in harness.read_text(trace),
                                   "the signal is seen")
                wait_for_call(pid, EPOLL_WAIT)
                with open("/proc/%d/fd/%d" % (pid, end), "wb") as pipe:
                    pipe.write(b"x")
                self.assertEqual(process.expect(r"over (-?\d+ \d+)").group(1), "1 0")
                self.assertEqual(process.finish()[1], 0)
                shown = re.findall(r"^(?:<\.\.\. )?epoll_wait@SYS.*", harness.read_text(output.name), re.M)
                self.assertEqual(len(shown), 2, shown)
                self.assertRegex(shown[1], r"resumed> .* = 1$")


if __name__ == "__main__":
    unittest.main()
