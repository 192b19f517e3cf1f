"""Attaching to a process that runs: the longest time for which one of its threads stood still, and how soon all is armed."""
import os
import select
import signal
import subprocess
import time

from runner import process
from runner.row import AtMost, NotAvailable, Row, Side

from . import tracers

LLVM = "libLLVM-14.so.1"
# Real-time priorities: the threads that watch come before the tracer, as they would with processors of their own.
TARGET, TRACER = 2, 1
UNUSED = ("-x", "getpgid@libc.so.6")


class Gaps(process.Held):
    """targets/gaps with libLLVM mapped, whose threads have settled."""

    def __init__(self, context, threads=4):
        if not process.library_path(LLVM):
            raise NotAvailable("no " + LLVM)
        super().__init__(process.ahead_of_others([context.target("gaps"), str(threads), LLVM], TARGET), context.all_cores)
        self.expect("pid ")
        time.sleep(0.05)
        self.longest()

    def longest(self):
        """In milliseconds, since it was asked for last."""
        self.go()
        return int(self.expect(r"gap (\d+)").group(1)) / 1e6


class Rtrace:
    """rtrace attached and armed; `seconds`: from its start until then."""

    def __init__(self, context, pid, options):
        ready, theirs = os.pipe()
        started = time.monotonic()
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            process.pinned(process.ahead_of_others([context.rtrace, "-q", "--ready-fd=%d" % theirs, "-o", context.output(),
                                                    *options, "-p", str(pid)], TRACER), context.all_cores),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[theirs],
            env=process.environment())
        os.close(theirs)
        try:
            if not select.select([ready], [], [], process.PATIENCE)[0] or len(os.read(ready, 1)) != 1:
                self.end()
                raise process.Failure("rtrace was not ready")
            self.seconds = time.monotonic() - started
        finally:
            os.close(ready)

    def end(self):
        interrupt(self.process)


def interrupt(tracer):
    tracer.send_signal(signal.SIGINT)
    try:
        tracer.wait(process.PATIENCE)
    except subprocess.TimeoutExpired:
        tracer.kill()
        tracer.wait()
        raise process.Failure("it did not detach") from None


def untraced(threads):
    def measure(context):
        with Gaps(context, threads) as gaps:
            time.sleep(0.5)
            return gaps.longest()
    return measure


def rtrace(options, detached, threads=4):
    def measure(context):
        with Gaps(context, threads) as gaps:
            tracer = Rtrace(context, gaps.pid, options)
            attached = gaps.longest()
            tracer.end()
            return max(attached, gaps.longest()) if detached else attached
    return measure


def ltrace(context):
    """It does not tell when it is ready: it is given half a second."""
    with Gaps(context) as gaps:
        tracer = subprocess.Popen(  # pylint: disable=consider-using-with
            process.pinned(process.ahead_of_others(tracers.ltrace(context, "-L", *UNUSED, "-p", str(gaps.pid)), TRACER),
                           context.all_cores),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=process.environment())
        time.sleep(0.5)
        interrupt(tracer)
        return gaps.longest()


def gdb(context):
    with Gaps(context) as gaps:
        process.run(process.ahead_of_others([context.peer("gdb"), "-nx", "-batch", "-p", str(gaps.pid), "-ex", "detach"],
                                            TRACER), context.all_cores)
        return gaps.longest()


def arming(options):
    def measure(context):
        with Gaps(context) as gaps:
            tracer = Rtrace(context, gaps.pid, options)
            tracer.end()
            return tracer.seconds * 1e3
    return measure


def rows():
    return [
        Row("attach-gap", "attach to a process with libLLVM mapped, and detach: the longest pause of 4 threads behind its first", "ms", (
            Side("untraced", untraced(4)), Side("rtrace", rtrace(UNUSED, True)),
            Side("rtrace, the attach alone", rtrace(UNUSED, False)), Side("ltrace", ltrace), Side("gdb", gdb)),
            (AtMost("rtrace", 0.3),), base="untraced",
            note="The threads sleep for 50 us between two looks at the clock: so long a pause is no pause. Threads and "
                 "tracers have real-time priorities where that is permitted. Where `untraced` is far above those 50 us all the "
                 "same, the machine is not quiet and the figures are its scheduler's."),
        Row("attach-gap-first", "the same, but the longest pause of the process's first thread, which makes rtrace's calls", "ms", (
            Side("untraced", untraced(0)), Side("rtrace", rtrace(UNUSED, True, 0)),
            Side("rtrace, the attach alone", rtrace(UNUSED, False, 0))), base="untraced"),
        Row("attach-ready", "from the start of rtrace until all is armed in a process that runs", "ms", (
            Side("one probe", arming(UNUSED)), Side("35 000 probes in libLLVM", arming(("-x", "@" + LLVM)))),
            base="one probe", rounds=2),
    ]
