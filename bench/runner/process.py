"""Running programs: pinned, bounded in time, and with what they took."""
import dataclasses
import os
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time

PATIENCE = 60.0


class Failure(Exception):
    """A run that did not end, or not as it should."""


@dataclasses.dataclass(frozen=True)
class Ran:
    ended: int   # when, in nanoseconds of CLOCK_MONOTONIC
    wall: int    # from the start to the end of the first process
    cpu: int     # of it and of all that were waited for, in nanoseconds
    stdout: str
    stderr: str


def pinned(words, cores):
    return ["taskset", "-c", ",".join(map(str, cores))] + list(words)


def ahead_of_others(words, priority):
    """With a real-time priority (sched(7)), where we may give it: work that is not ours does not come between."""
    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[1]
    may = os.geteuid() == 0 or limit == resource.RLIM_INFINITY or limit >= priority
    return (["chrt", "-f", str(priority)] if may else []) + list(words)


def environment():
    # Nobody's own prototypes and start-up files.
    env = dict(os.environ, LC_ALL="C", COLUMNS="80", NO_COLOR="1", HOME="/nonexistent", XDG_CONFIG_HOME="/nonexistent")
    env.pop("DEBUGINFOD_URLS", None)
    return env


def library_path(name):
    """Where the dynamic linker finds it; None where it does not."""
    done = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=False)
    match = re.search(r"^\s*%s \(.*\) => (\S+)$" % re.escape(name), done.stdout, re.M)
    return match.group(1) if match else None


def end_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(words, cores, patience=PATIENCE, stdin=subprocess.DEVNULL):
    """To the end. What it writes goes to files: a reader of pipes would run on the cores that are measured."""
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as err:
        started = time.monotonic_ns()
        process = subprocess.Popen(pinned(words, cores), stdin=stdin, stdout=out, stderr=err, env=environment(),
                                   start_new_session=True)
        late = threading.Timer(patience, end_group, [process.pid])
        late.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            late.cancel()
        ended = time.monotonic_ns()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        said, complaints = out.read(), err.read()
    if process.returncode != 0:
        raise Failure("%s: %s\n%s" % (" ".join(words), "not ended within %g s" % patience
                                      if process.returncode == -signal.SIGKILL else
                                      "status %d" % process.returncode, complaints[-2000:]))
    cpu = int((usage.ru_utime + usage.ru_stime) * 1e9)
    return Ran(ended, ended - started, cpu, said, complaints)


class Held:
    """A program that talks by lines on its standard streams, traced or not; ended, with all it started, on exit."""

    def __init__(self, words, cores, patience=PATIENCE):
        # pylint: disable=consider-using-with
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(pinned(words, cores), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=self.errors, env=environment(), start_new_session=True)
        self.pid = self.process.pid
        self.late = threading.Timer(patience, end_group, [self.pid])
        self.late.start()

    def expect(self, pattern):
        """Reads on to the first line that matches."""
        for line in self.process.stdout:
            match = re.match(pattern, line)
            if match:
                return match
        self.errors.seek(0)
        raise Failure("%s: no line like %s\n%s" % (" ".join(self.process.args), pattern, self.errors.read()[-2000:]))

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.late.cancel()
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            end_group(self.pid)
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def children(pid):
    """All descendants."""
    found = []
    try:
        tasks = os.listdir("/proc/%d/task" % pid)
    except FileNotFoundError:
        return found
    for tid in tasks:
        try:
            with open("/proc/%d/task/%s/children" % (pid, tid)) as file:
                found += [int(word) for word in file.read().split()]
        except FileNotFoundError:
            continue
    return found + [deeper for child in found for deeper in children(child)]


def memory_kb(pid, field):
    """A line of /proc/PID/status that is in kB, such as VmHWM; 0 where the process has gone."""
    try:
        with open("/proc/%d/status" % pid) as file:
            match = re.search(r"^%s:\s+(\d+) kB" % field, file.read(), re.M)
    except FileNotFoundError:
        return 0
    return int(match.group(1)) if match else 0


def tracers_of(top, target):
    """The processes of a tracer that was started as `top`: all that is below it but the traced program."""
    return [pid for pid in [top] + children(top) if pid != target and pid not in children(target)]
