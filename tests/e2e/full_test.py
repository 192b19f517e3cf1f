#!/usr/bin/python3
"""--on-full: what happens when nobody reads the output. Every call is printed or counted as lost."""
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import unittest

import harness
import json_lines


class Unread(unittest.TestCase):
    """rtrace writes to a pipe that nobody reads until the test says so. The buffer holds 64 MiB."""

    @contextlib.contextmanager
    def launched(self, *arguments, count, length):
        with tempfile.TemporaryDirectory() as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            self.end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            os.set_blocking(self.end, True)
            words = harness.invocation(["-o", pipe, "-F", harness.CONF, "-x", "greet", "-s", "4000", *arguments, "--",
                                        harness.target("waits"), str(count), str(length)])
            process = harness.Target(words)
            try:
                with process:
                    process.expect("pid")
                    yield process
            finally:
                if self.end is not None:
                    os.close(self.end)

    def read(self):
        end, self.end = self.end, None
        with os.fdopen(end, "rb") as file:
            return file.read().decode()

    def reading(self):
        """Begins to read; the answer waits for the end of the trace."""
        found = []
        reader = threading.Thread(target=lambda: found.append(self.read()))
        reader.start()

        def finish():
            reader.join(harness.PATIENCE)
            self.assertFalse(reader.is_alive())
            return found[0]
        return finish

    def run_unread(self, *arguments, count, length):
        with self.launched(*arguments, count=count, length=length) as process:
            process.go()
            process.expect("done")  # though nobody has read a line
            finish = self.reading()
            self.assertEqual(process.finish()[1], 0)
            return finish()

    def test_drop_never_waits_and_counts_every_call_that_is_lost(self):
        count = 20000
        # A ring that is full loses calls too, and says so in lines of its own.
        trace = self.run_unread("--mechanism=breakpoint", "--on-full=drop", count=count, length=3900).splitlines()
        calls = sum(bool(re.fullmatch(r'greet@libfixture\.so\(".*"\) += 3900', line)) for line in trace)
        lost = [int(number) for line in trace
                for number in re.findall(r"^--- (\d+) calls? lost: nobody was reading the output ---$", line)]
        self.assertEqual(len(lost), 1, lost)
        self.assertGreater(lost[0], 0)
        # The call that found room for its first part alone is closed as unfinished.
        cut = sum("<unfinished ...>" in line for line in trace)
        self.assertLessEqual(cut, 1)
        self.assertEqual(calls + cut + lost[0], count)
        # Who reads waits for the end of the process, and gets it where there was no room for it, too.
        self.assertEqual(trace[-1], "+++ exited (status 0) +++")

    def test_drop_counts_in_json_too_and_its_lines_stay_whole(self):
        count = 10000
        lines = json_lines.Lines(self.run_unread("--mechanism=breakpoint", "--on-full=drop", "--json", count=count,
                                                 length=3900))
        lost = [line["count"] for line in lines.of("lost")]
        self.assertEqual(len(lost), 1)
        self.assertEqual(len(lines.calls) + lost[0], count)
        self.assertEqual([line["type"] for line in lines.all[-1:]], ["exit"])

    def test_block_waits_for_its_reader_and_loses_nothing(self):
        count = 20000
        with self.launched("--on-full=block", count=count, length=3900) as process:
            process.go()
            finish = self.reading()
            process.expect("done")
            self.assertEqual(process.finish()[1], 0)
            trace = finish()
        self.assertEqual(trace.count("greet@libfixture.so("), count)
        self.assertEqual(re.findall("lost", trace), [])

    def attached_unread(self, count, enough, *arguments):
        """How many calls were made, what rtrace prints of them where nobody reads until then, and what it says besides."""
        with harness.Target([harness.target("waits"), str(count), "3900"]) as process:
            process.expect("pid")
            with tempfile.TemporaryDirectory() as folder:
                pipe = os.path.join(folder, "pipe")
                os.mkfifo(pipe)
                self.end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
                os.set_blocking(self.end, True)
                tracer = harness.Attached(["-o", pipe, "--on-full=drop", "-F", harness.CONF, "-x", "greet", "-s", "4000",
                                           *arguments], [process.pid])
                try:
                    calls, full = 0, False
                    while not full:
                        process.go()
                        process.expect("done")
                        calls += count
                        full = enough(harness.tracer(process.pid))
                    finish = self.reading()
                    process.process.stdin.close()
                    self.assertEqual(process.process.wait(harness.PATIENCE), 0)
                    trace, result = finish(), tracer.end()
                    self.assertEqual(result.status, 0, result.stderr)
                finally:
                    tracer.abandon()
        return calls, trace, result.stderr

    def check_while_attached(self, count, enough, *arguments):
        calls, trace, said = self.attached_unread(count, enough, *arguments)
        lost = sum(int(number) for number in re.findall(r"(?m)^--- (\d+) calls? lost: ", trace))
        self.assertGreater(lost, 0)
        # Of what found no room at the very end, a line of rtrace's own.
        lost += sum(int(number) for number in re.findall(r"(?m)^rtrace: (\d+) calls lost at the end: ", said))
        self.assertEqual(len(re.findall(r"(?m)^greet@libfixture\.so\(", trace)) + lost, calls, trace[-2000:] + said)
        return trace

    def test_drop_while_attached(self):
        self.check_while_attached(20000, lambda tracer: True)

    def test_what_full_rings_lost_counts_where_its_lines_are_lost_too(self):
        ran = {}  # at the first look at which so much was held

        def no_room(tracer):
            """Whether rtrace has run, and yet has written nothing."""
            held = int(re.search(r"RssShmem:\s+(\d+)", harness.read_text("/proc/%d/status" % tracer)).group(1))  # KiB
            fields = harness.read_text("/proc/%d/stat" % tracer).rpartition(")")[2].split()
            now = int(fields[11]) + int(fields[12])  # clock ticks in user mode and in the kernel
            return held > 63 * 1024 and now - ran.setdefault(held, now) > 2
        trace = self.check_while_attached(200000, no_room, "--mechanism=trampoline")
        reasons = set(re.findall(r"(?m)^--- \d+ calls? lost: ([^,\n]*?)(?:, .*)? ---$", trace))
        self.assertEqual(reasons, {"the thread's ring had no room", "nobody was reading the output"})


class AtTheEnd(unittest.TestCase):
    """A command that ends at once, where the pipe that its trace goes to is full already."""
    options = []
    errors = subprocess.PIPE
    expected = rb"\+\+\+ exited \(status 0\) \+\+\+\n"

    def setUp(self):
        self.read_end, self.write_end = os.pipe()
        self.addCleanup(os.close, self.read_end)
        os.set_blocking(self.write_end, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self.write_end, b"x" * 4096)
        os.set_blocking(self.write_end, True)
        self.rtrace = subprocess.Popen([harness.RTRACE, "-o", "/dev/fd/%d" % self.write_end, *self.options, "-x", "getpgid", "true"],
                                       pass_fds=[self.write_end], stderr=self.errors or self.write_end, env=harness.environment())
        self.addCleanup(self.abandon)
        os.close(self.write_end)
        harness.wait_until(self.writes, "a thread waits for the pipe's reader")

    def abandon(self):
        self.rtrace.kill()
        self.rtrace.wait(harness.PATIENCE)
        if self.rtrace.stderr:
            self.rtrace.stderr.close()

    def writes(self):
        tasks = "/proc/%d/task" % self.rtrace.pid
        others = [tid for tid in os.listdir(tasks) if int(tid) != self.rtrace.pid]
        return any(harness.read_text("%s/%s/syscall" % (tasks, tid)).startswith("1 ") for tid in others)  # write(2)

    def test_what_is_left_is_written_when_somebody_reads(self):
        with os.fdopen(os.dup(self.read_end), "rb") as file:
            trace = file.read()
        self.assertRegex(trace.lstrip(b"x"), b"^" + self.expected + b"$")
        self.assertEqual(self.rtrace.communicate(timeout=harness.PATIENCE)[1].count(b"\n"), 1)
        self.assertEqual(self.rtrace.returncode, 0)

    def test_it_ends_when_asked_to_and_says_what_is_lost(self):
        self.rtrace.send_signal(signal.SIGTERM)
        said = self.rtrace.communicate(timeout=harness.PATIENCE)[1].decode()
        self.assertRegex(said, r"(?m)^rtrace: nobody reads the output; \d+ bytes of it are lost$")
        self.assertEqual(self.rtrace.returncode, 1)


class ErrorsAtTheEnd(AtTheEnd):
    """Nor does anybody read what rtrace says."""
    errors = None
    expected = rb"(\+\+\+ .* \+\+\+\n|rtrace: .*\n){2}"

    def test_what_is_left_is_written_when_somebody_reads(self):
        with os.fdopen(os.dup(self.read_end), "rb") as file:
            trace = file.read()
        self.assertRegex(trace.lstrip(b"x"), b"^" + self.expected + b"$")
        self.assertEqual(self.rtrace.wait(harness.PATIENCE), 0)

    def test_it_ends_when_asked_to_and_says_what_is_lost(self):
        self.rtrace.send_signal(signal.SIGTERM)
        self.assertEqual(self.rtrace.wait(harness.PATIENCE), 1)


class TableAtTheEnd(AtTheEnd):
    options = ["-c"]
    expected = rb"% time [\s\S]* total\n.*\n"


if __name__ == "__main__":
    unittest.main()
