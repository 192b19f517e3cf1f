"""What the end-to-end and live tests share: running rtrace, attaching it, waiting, and reading its lines.

Nothing here sleeps for a guessed time: every wait asks for a condition and gives up, loudly, after PATIENCE.
"""
import contextlib
import functools
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

RTRACE = os.environ.get("RTRACE", "rtrace")
# How calls are met where a test does not say it: `trampoline` runs it a second time so.
MECHANISM = os.environ.get("RTRACE_MECHANISM")
TARGETS = os.environ.get("RTRACE_TARGETS", ".")
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
CONF = os.path.join(HERE, "targets", "fixture.conf")
PROGRAMS = os.path.join(HERE, "targets", "programs.conf")
PATIENCE = float(os.environ.get("RTRACE_PATIENCE", "60"))


class Failure(AssertionError):
    """A condition that did not come true, with what was seen instead."""


def wait_until(condition, what, patience=PATIENCE):
    """Polls `condition` until it gives something true, and returns that."""
    end = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise Failure("waited %g s in vain until %s" % (patience, what))
        time.sleep(0.002)


def target(name):
    path = os.path.join(TARGETS, name)
    if not os.path.exists(path):
        raise Failure("no such target: " + path)
    return path


def runs_here(name):
    """Whether the kernel can: many run no programs for 32 bits."""
    try:
        subprocess.run([target(name)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    except OSError:
        return False
    return True


def environment():
    """A locale, a width and a time zone that do not depend on who runs the test."""
    env = dict(os.environ, LC_ALL="C", COLUMNS="80", TZ="UTC", NO_COLOR="1")
    # Somebody's own prototypes must not change what is printed.
    env.pop("DEBUGINFOD_URLS", None)  # no test asks anybody but the programs that it brings
    env["XDG_CONFIG_HOME"] = env["HOME"] = os.path.join(TARGETS, "no-home")
    return env


def by_mechanism(arguments):
    chosen = MECHANISM and not any(word.startswith("--mechanism") or word == "--ltrace-compat" for word in arguments)
    return (["--mechanism=" + MECHANISM] if chosen else []) + list(arguments)


def invocation(arguments):
    """The words that start rtrace with these arguments, for a test that starts it by itself."""
    return [RTRACE] + by_mechanism(arguments)


# Why a probe stays a breakpoint, and how many of either there are.
DECLINED = re.compile(r"^rtrace: \S.*?: a breakpoint, no trampoline: (.*)\n", re.M)
MADE = re.compile(r"^rtrace: (\d+) trampolines?, (\d+) breakpoints?(?:: \d+ waited .*)?\n", re.M)


def without_mechanism(text):
    """What rtrace says besides, where a test does not ask for a mechanism; $RTRACE_MADE is a file that keeps it."""
    if not MECHANISM:
        return text
    if "RTRACE_MADE" in os.environ:
        with open(os.environ["RTRACE_MADE"], "a") as file:
            for made in MADE.finditer(text):
                file.write("%s %s\n" % made.groups())
            for reason in DECLINED.findall(text):
                file.write("declined %s\n" % reason)
    return MADE.sub("", DECLINED.sub("", text))


class Result:
    def __init__(self, status, trace, stdout, stderr):
        self.status, self.trace, self.stdout = status, without_mechanism(trace), stdout
        self.stderr = without_mechanism(stderr)

    @property
    def lines(self):
        return self.trace.splitlines()

    def __str__(self):
        def cut(text):
            return text if len(text) < 4000 else text[:2000] + "\n[...]\n" + text[-2000:]
        return "status %s\n-- trace:\n%s\n-- stdout:\n%s\n-- stderr:\n%s" % (
            self.status, cut(self.trace), cut(self.stdout), cut(self.stderr))


def run(arguments, stdin=None, patience=PATIENCE, separate=True, cwd=None):
    """rtrace with these arguments, to its end. `separate`: the trace goes to a file of its own by -o."""
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "trace")
        words = invocation((["-o", output] if separate else []) + list(arguments))
        try:
            done = subprocess.run(words, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
                                  timeout=patience, text=True, errors="replace", cwd=cwd, check=False)
        except subprocess.TimeoutExpired as late:
            raise Failure("%s did not end within %g s\n-- stderr:\n%s" % (
                " ".join(words), patience, (late.stderr or b"").decode(errors="replace"))) from None
        return Result(done.returncode, read_text(output) if separate else done.stderr, done.stdout, done.stderr)


UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def seconds(cell):
    """What a cell like 412ns, 1.2ms or 1.00s+ says; None for `-`."""
    match = re.fullmatch(r"([\d.]+)(ns|us|ms|s)\+?", cell)
    return float(match.group(1)) * UNITS[match.group(2)] if match else None


class Summary:
    """The table of -c: its rows by function, each a dict by column; `total` is the last one, `notes` what follows."""
    COLUMNS = ["% time", "seconds", "usecs/call", "calls", "errors", "p50", "p95", "p99", "max", "self", "function"]

    def __init__(self, trace):
        self.rows, self.total, self.notes = {}, None, []
        lines = trace.splitlines()
        begin = next((i for i, line in enumerate(lines) if line.startswith("% time ")), None)
        if begin is None or re.split(r"\s+", lines[begin].replace("% time", "%time", 1))[1:] != self.COLUMNS[1:]:
            raise Failure("no table in:\n" + trace[:2000])
        body = iter(lines[begin + 2:])
        for line in body:
            if line.startswith("------"):
                break
            cells = line.split(None, len(self.COLUMNS) - 1)
            row = dict(zip(self.COLUMNS, cells))
            row["calls"], row["errors"] = int(row["calls"]), int(row["errors"])
            if row["function"] in self.rows:
                raise Failure("two rows of %s in:\n%s" % (row["function"], trace[:2000]))
            self.rows[row["function"]] = row
        match = re.fullmatch(r"100\.00 +(\d+\.\d{6}) +(\d+) +(\d+) +(\S+) +total", next(body, ""))
        if not match:
            raise Failure("no last row in:\n" + trace[-2000:])
        self.total = {"seconds": float(match.group(1)), "calls": int(match.group(2)), "errors": int(match.group(3))}
        self.notes = list(body)

    def calls(self):
        return {name: row["calls"] for name, row in self.rows.items()}


def read_text(path):
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):  # the latter of a process that ends meanwhile
        return ""


class Attached:
    """rtrace, attached: returns from the constructor when rtrace says by --ready-fd that all is armed."""

    def __init__(self, arguments, pids, command=()):
        self.folder = tempfile.mkdtemp()
        self.output = os.path.join(self.folder, "trace")
        self.errors = os.path.join(self.folder, "stderr")
        ready, theirs = os.pipe()
        words = invocation(["--ready-fd=%d" % theirs, "-o", self.output, *arguments])
        for pid in pids:
            words += ["-p", str(pid)]
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(words + list(command), stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=errors, pass_fds=[theirs],
                                            env=environment())
        os.close(theirs)
        try:
            if not select.select([ready], [], [], PATIENCE)[0]:
                raise Failure("rtrace was not ready within %g s\n%s" % (PATIENCE, self.notices()))
            if len(os.read(ready, 1)) != 1:
                self.process.wait(PATIENCE)
                raise Failure("rtrace ended with status %d and was never ready\n%s" % (
                    self.process.returncode, self.notices()))
        except BaseException:
            self.abandon()
            self.process.stdout.close()
            raise
        finally:
            os.close(ready)

    def notices(self):
        return read_text(self.errors)

    def lines_so_far(self):
        return read_text(self.output).splitlines()

    def stop(self):
        """As a user ends it: by SIGINT."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self):
        """Waits until rtrace ends, because its tracees have, or was told to."""
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.abandon()
            raise Failure("rtrace did not end within %g s\n%s" % (PATIENCE, self.notices())) from None
        stdout = self.process.stdout.read().decode(errors="replace")
        self.process.stdout.close()
        result = Result(self.process.returncode, read_text(self.output), stdout, self.notices())
        shutil.rmtree(self.folder)
        return result

    def abandon(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextlib.contextmanager
def without_capabilities(*names):
    """rtrace without these, where the test is root and has them."""
    global RTRACE
    if os.geteuid() != 0:
        yield
        return
    real = os.path.abspath(shutil.which(RTRACE) or RTRACE)
    with tempfile.TemporaryDirectory() as folder:
        wrapper = os.path.join(folder, "rtrace")
        with open(wrapper, "w") as file:
            file.write("#!/bin/sh\nexec setpriv --bounding-set=%s -- '%s' \"$@\"\n" % (
                ",".join("-" + name for name in names), real))
        os.chmod(wrapper, 0o755)
        RTRACE, before = wrapper, RTRACE
        try:
            yield
        finally:
            RTRACE = before


@contextlib.contextmanager
def without_shipped_prototypes():
    """rtrace installed where nothing comes with it: it looks beside itself."""
    global RTRACE
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "bin"))
        os.makedirs(os.path.join(folder, "share", "rtrace", "conf"))
        copy = os.path.join(folder, "bin", "rtrace")
        shutil.copy(shutil.which(RTRACE) or RTRACE, copy)
        RTRACE, before = copy, RTRACE
        try:
            yield
        finally:
            RTRACE = before


class Target:
    """A program of the test's own, not traced from the start. Talks by lines on its standard streams."""

    def __init__(self, words):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env=environment())
        self.pid = self.process.pid

    def expect(self, pattern):
        """Reads on to the first line that matches."""
        for line in self.process.stdout:
            match = re.match(pattern, line)
            if match:
                return match
        raise Failure("process %d ended (%s) without a line like %s" % (self.pid, self.process.wait(), pattern))

    def go(self):
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failure("process %d has ended (%s)" % (self.pid, self.process.wait())) from None

    def finish(self):
        """Waits for the end; the rest of what it printed, and its status."""
        rest = self.process.communicate(timeout=PATIENCE)[0]
        return rest, self.process.returncode

    def abandon(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.abandon()


def state(pid):
    """The letter of proc(5) for the main thread: R, S, T, t, Z ..."""
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rpartition(")")[2].split()[0]


def status_field(pid, key):
    with open("/proc/%d/status" % pid) as file:
        return re.search(r"^%s:\s+(\S+)" % key, file.read(), re.M).group(1)


def tracer(pid):
    return int(status_field(pid, "TracerPid"))


@functools.lru_cache(maxsize=64)
def bytes_of_file(path, offset, size, _changed):
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(size)


def mapped_code(pid):
    """Of each private executable file mapping: (path, offset, address, what is there, what the file has)."""
    with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", buffering=0) as memory:
        for line in maps:
            fields = line.split(None, 5)
            if len(fields) < 6 or fields[1] != "r-xp" or not fields[5].startswith("/"):
                continue
            begin, end = (int(word, 16) for word in fields[0].split("-"))
            path, offset = fields[5].rstrip("\n"), int(fields[2], 16)
            status = os.stat(path)
            there = bytes_of_file(path, offset, end - begin, (status.st_ino, status.st_mtime_ns))
            memory.seek(begin)
            yield path, offset, begin, memory.read(end - begin)[:len(there)], there


def differences(here, there):
    """Where the two differ, byte for byte."""
    for block in range(0, len(there), 4096):
        some, others = here[block:block + 4096], there[block:block + 4096]
        if some != others:
            yield from (block + i for i, (a, b) in enumerate(zip(some, others)) if a != b)


def altered_code(pid):
    """Where the private executable file mappings of a process differ from their files: (path, offset)."""
    found = []
    for path, offset, _, here, there in mapped_code(pid):
        at = next(differences(here, there), None)
        if at is not None:
            found.append((path, hex(offset + at)))
    return found


def foretelling_calls(pid):
    """Where memory has the call behind which wrapped functions return, and the file has not."""
    call, found = b"\xff\x54\x24\xf8", []
    for _, _, begin, here, there in mapped_code(pid):
        at = -1
        while (at := here.find(call, at + 1)) != -1:
            if there[at:at + len(call)] != call:
                found.append(begin + at)
    return found


def foreign_mappings(pid):
    """Private mappings without a file that cannot be written, and memory of rtrace: none is a program's own."""
    with open("/proc/%d/maps" % pid) as maps:
        return [line for line in maps if re.match(r"\S+ r-[-x]p \S+ \S+ 0 *$", line) or "memfd" in line]


def rtrace_mappings(pid):
    """Executable mappings without a file, which the fixtures never make themselves."""
    with open("/proc/%d/maps" % pid) as maps:
        return [line for line in maps if re.match(r"\S+ ..x. \S+ \S+ 0 *$", line)]
