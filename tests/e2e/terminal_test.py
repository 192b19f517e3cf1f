#!/usr/bin/python3
"""On a terminal, under a shell with job control: ^Z and fg, and whose ^C it is."""
import os
import pty
import re
import select
import shlex
import signal
import tempfile
import time
import unittest

import harness

ADD = "add@libfixture.so("


class Terminal:
    """An interactive shell on a terminal of its own."""

    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"],
                      dict(harness.environment(), PS1="$ ", TERM="dumb"))
        self.text, self.said, self.pids = "", "", []

    def expect(self, pattern):
        end = time.monotonic() + harness.PATIENCE
        while True:
            match = re.search(pattern, self.text)
            if match:
                self.text = self.text[match.end():]
                return match
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise harness.Failure("no %s on the terminal, but: %s" % (pattern, self.text))
            more = os.read(self.fd, 4096).decode(errors="replace")
            self.text += more
            self.said += more

    def type(self, text):
        os.write(self.fd, text.encode())

    def command(self, words):
        self.type(" ".join(shlex.quote(word) for word in words) + "\n")

    def status(self):
        self.expect(r"\n\$ ")  # what is typed before is thrown away as bash takes its terminal back
        self.type("echo status:$?\n")
        return int(self.expect(r"status:(\d+)").group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        harness.without_mechanism(self.said.replace("\r", ""))  # counts them
        for pid in self.pids:  # what a failed test leaves stopped would never see the hangup
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.kill(self.pid, signal.SIGHUP)
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def status(pid, field):
    return re.search(r"^%s:\s+(\w+)" % field, harness.read_text("/proc/%d/status" % pid), re.M).group(1)


def parent(pid):
    return int(status(pid, "PPid"))


def pending(pid):
    return int(status(pid, "ShdPnd"), 16) >> (signal.SIGINT - 1) & 1


class JobControl(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = os.path.join(folder.name, "trace")
        self.rtrace = harness.invocation(["-o", self.trace, "-F", harness.CONF, "-x", "add"])

    def calls(self):
        return harness.read_text(self.trace).count(ADD)

    def test_a_traced_command_is_stopped_by_ctrl_z_and_goes_on_by_fg(self):
        with Terminal() as terminal:
            terminal.command([*self.rtrace, "--", harness.target("waits"), "3"])
            pid = int(terminal.expect(r"pid (\d+)").group(1))
            terminal.pids.append(pid)
            for _ in range(2):
                terminal.type("\x1a")
                terminal.expect("Stopped")
                harness.wait_until(lambda: harness.state(pid) in "Tt", "the command is stopped")
                terminal.type("fg\n")
                terminal.expect("waits")
                harness.wait_until(lambda: harness.state(pid) == "S", "the command goes on")
                terminal.type("\n")
                terminal.expect("done")
            terminal.type("\x04")
            self.assertEqual(terminal.status(), 0)
            self.assertEqual(self.calls(), 6)

    def test_ctrl_z_stops_rtrace_and_not_the_process_it_is_attached_to(self):
        with harness.Target([harness.target("waits"), "3"]) as process, Terminal() as terminal:
            process.expect("pid ")
            terminal.command([*self.rtrace, "-p", str(process.pid)])
            terminal.expect("attached to %d" % process.pid)
            terminal.type("\x1a")
            terminal.expect("Stopped")
            process.go()
            process.expect("done")
            terminal.type("fg\n")
            process.go()
            process.expect("done")
            harness.wait_until(lambda: self.calls() == 6, "both rounds are traced")
            terminal.type("\x03")
            terminal.expect("detached from %d" % process.pid)
            self.assertEqual(terminal.status(), 0)
            self.assertEqual(harness.altered_code(process.pid), [])

    def test_ctrl_c_is_the_command_s(self):
        script = "trap 'echo got $((7 * 9)); exit 5' INT; echo $((6 * 7)) begun; while :; do read line; done"
        with Terminal() as terminal:
            terminal.command([*self.rtrace, "--", "/bin/sh", "-c", script])
            terminal.expect("42 begun")
            terminal.type("\x03")
            terminal.expect("got 63")
            self.assertEqual(terminal.status(), 5)

    def test_ctrl_c_twice_lets_go_of_a_command_that_ignores_it(self):
        with Terminal() as terminal:
            terminal.command([*self.rtrace, "--", "/bin/sh", "-c", "trap '' INT; echo $((6 * 7)) begun $$; exec sleep 1000"])
            pid = int(terminal.expect(r"42 begun (\d+)").group(1))
            terminal.pids.append(pid)
            harness.wait_until(lambda: harness.read_text("/proc/%d/comm" % pid) == "sleep\n", "the command has begun")
            front_end = parent(pid)
            terminal.type("\x03")
            terminal.expect(r"\^C")
            harness.wait_until(lambda: not pending(front_end), "rtrace has seen the first")
            terminal.type("\x03")
            terminal.status()
            self.assertEqual(harness.tracer(pid), 0)
            self.assertIn(harness.state(pid), "SR")


if __name__ == "__main__":
    unittest.main()
