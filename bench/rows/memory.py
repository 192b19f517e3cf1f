"""Memory of the tracers themselves, without the traced program's."""
import functools
import os
import shutil
import time

from runner import process
from runner.row import AtMost, Row, Side

from . import tracers

TENTH = 10


class Traced(process.Held):
    """targets/caller under a tracer; it waits before its calls and after them."""

    def __init__(self, tracer, context, calls, patience=process.PATIENCE):
        super().__init__([*tracer, context.target("caller"), "two", str(calls), "1", "hold"], context.all_cores, patience)
        self.target = int(self.expect(r"pid (\d+)").group(1))
        self.go()

    def memory_kb(self, field):
        """Of all processes of the tracer together."""
        return sum(process.memory_kb(pid, field) for pid in process.tracers_of(self.pid, self.target))


def peak(tracer):
    def measure(context):
        with Traced(tracer(context), context, 2000 if context.quick else 20000) as traced:
            traced.expect("end ")
            found = traced.memory_kb("VmHWM") / 1024
            traced.go()
            traced.process.wait(process.PATIENCE)
            return found
    return measure


def uftrace(context):
    folder = os.path.join(context.scratch, "uftrace")
    shutil.rmtree(folder, ignore_errors=True)
    return [context.peer("uftrace"), "record", "--force", "--no-pager", "-d", folder]


def bpftrace_peak(context):
    """Its command is one word."""
    program = 'uprobe:%s:work_two { printf("%%d %%d\\n", arg0, arg1); }' % tracers.library(context)
    calls = 2000 if context.quick else 20000
    words = [context.peer("bpftrace"), "-o", context.output(), "-e", program, "-c",
             "%s two %d 1 hold" % (context.target("caller"), calls)]
    with process.Held(words, context.all_cores) as held:
        target = int(held.expect(r"pid (\d+)").group(1))
        held.go()
        held.expect("end ")
        found = sum(process.memory_kb(pid, "VmHWM") for pid in process.tracers_of(held.pid, target)) / 1024
        held.go()
        held.process.wait(process.PATIENCE)
        return found


@functools.lru_cache(maxsize=1)
def growth(context):
    """{field of /proc/PID/status: kB}, from the end of the first tenth of the time until the last call."""
    calls = 20_000 if context.quick else 10_000_000 if context.long else 500_000
    tracer = [context.rtrace, "-o", "/dev/null", "-F", tracers.conf(context), "-e", "work_two", "--"]
    with Traced(tracer, context, calls, 900) as traced:
        traced.expect("begin ")
        seen = []
        # The program sleeps when it is through with its calls, and stands at their stops before.
        while not waits_for_input(traced.target):
            seen.append({field: traced.memory_kb(field) for field in ("VmRSS", "RssAnon")})
            time.sleep(0.05)
        traced.expect("end ")
        traced.go()
        later = seen[len(seen) // TENTH:]
        return {field: max(sample[field] for sample in later) - later[0][field] for field in later[0]}


def waits_for_input(pid):
    """read(2) is system call 0; its descriptor is the first argument."""
    with open("/proc/%d/syscall" % pid) as file:
        return file.read().split()[:2] == ["0", "0x0"]


def rows():
    return [
        Row("memory", "peak memory of the tracer, all its processes together, after calls with two integers", "MB (VmHWM)", (
            Side("rtrace", peak(lambda context: tracers.rtrace(context, "-e", "work_two"))),
            Side("ltrace", peak(lambda context: tracers.ltrace(context, "-e", "work_two"))),
            Side("uftrace", peak(uftrace)), Side("bpftrace", bpftrace_peak)),
            (AtMost("rtrace", 10),), base="rtrace", rounds=1,
            note="Pages that rtrace's two processes share are counted in both."),
        Row("memory-flat", "growth of rtrace's memory over 500 000 calls (ten million with --long), after the first tenth",
            "kB", (Side("rtrace", lambda context: growth(context)["VmRSS"]),
                   Side("rtrace, without what its processes share", lambda context: growth(context)["RssAnon"])),
            (AtMost("rtrace", 256),), rounds=1,
            note="What they share is the buffer of output; in VmRSS it is counted in both."),
    ]
