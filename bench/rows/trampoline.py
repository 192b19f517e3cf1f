"""Calls that the process tells of by itself: the floor of trampolines, rtrace's, and the peers that work so. A line of
rtrace's is in its file when the time is taken; uftrace's records wait to be made lines of."""
import os
import re
import shutil

from runner import process
from runner.row import AtMost, RatioAtLeast, RatioAtMost, Row, Side

from . import memory, tracers

HISTOGRAM = ("uprobe:{0}:work_two {{ @begun[tid] = nsecs; }} "
             "uretprobe:{0}:work_two /@begun[tid]/ {{ @took = hist(nsecs - @begun[tid]); delete(@begun[tid]); }}")


def recorded(context, calls):
    """By uftrace, whose record of an entry or an exit takes 16 bytes."""
    folder = os.path.join(context.scratch, "uftrace")
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".dat"))
    if size < 2 * 16 * calls:
        raise process.Failure("its data are %d bytes for %d calls" % (size, calls))


def uftrace(function):
    def measure(context):
        shutil.rmtree(os.path.join(context.scratch, "uftrace"), ignore_errors=True)
        return context.ns_per_call(memory.uftrace(context), function, 20000 if context.quick else 200000,
                                   context.one_core, proof=recorded)
    return measure


def in_process(tracer, function, proof=tracers.shows):
    def measure(context):
        return context.ns_in_process(tracer(context), function, 16 if context.quick else 200, context.two_cores(), proof)
    return measure


def records_of(function):
    return lambda context: tracers.trampolines(context, "-x", "work_" + function)


def counted_by(threads):
    """Two cores: with one thread the other core is idle."""
    def measure(context):
        calls = 80000 if context.quick else 8000000
        return context.ns_per_call(tracers.trampolines(context, "-c", "-x", "work_two"), "two", calls // threads,
                                   context.two_cores(), threads, tracers.shows)
    return Side("rtrace -c, %d thread%s" % (threads, "" if threads == 1 else "s"), measure)


def bpftrace(context):
    """Its command is one word, so that the number of calls is within it."""
    few, many = (2000, 20000) if context.quick else (10000, 100000)

    def run(calls):
        ran = process.run([context.peer("bpftrace"), "-o", context.output(), "-e",
                           HISTOGRAM.format(tracers.library(context)), "-c",
                           "%s two %d" % (context.target("caller"), calls)], context.one_core)
        with open(context.output()) as file:
            seen = sum(int(number) for number in re.findall(r"^[\[(].* (\d+) \|", file.read(), re.M))
        if seen != calls:
            raise process.Failure("its histogram shows %d of %d calls" % (seen, calls))
        return context.caller_time(ran)

    return (run(many) - run(few)) / (many - few)


def json_lines(context, calls):
    with open(context.output(), errors="replace") as file:
        seen = sum(line.startswith('{"type":"call"') for line in file)
    if seen != calls:
        raise process.Failure("its output shows %d of %d calls" % (seen, calls))


def wrapped(tracer, *options, proof=tracers.shows):
    def measure(context):
        return context.ns_per_call(tracer(context, *options, "-x", "work_two"), "two",
                                   20000 if context.quick else 1000000, context.one_core, proof=proof)
    return measure


def rows():
    def floor(kind):
        return lambda context: context.floor("trampoline", *kind)

    records, summary = "floor: records", "floor: summary"
    return [
        Row("records", "inside the process: a record of each call", "ns/call", (
            Side("floor: a pair of rdtsc", lambda context: context.floor("rdtsc")),
            Side("floor: a count", floor(["count"])), Side(records, floor(["records"])),
            Side("rtrace, lines", wrapped(tracers.trampolines)),
            Side("rtrace, JSON lines", wrapped(tracers.trampolines, "--json", proof=json_lines)),
            Side("uftrace", uftrace("two"))), base=records),
        Row("records-inside", "what a record of each call adds to the processor time of the thread that calls", "ns/call", (
            Side(records, floor(["records", "bursts"])), Side("rtrace", in_process(records_of("two"), "two")),
            Side("rtrace, with a string of 30 bytes", in_process(records_of("text"), "thirty")),
            Side("uftrace", in_process(memory.uftrace, "two", recorded)),
            Side("rtrace, free() of the C library", in_process(
                lambda context: tracers.trampolines(context, "-x", "free@libc.so.6"), "free", tracers.shows_free)),
            Side("uftrace, free()", in_process(memory.uftrace, "free", recorded))),
            (RatioAtMost("rtrace", records, 1.5), RatioAtLeast("uftrace", "rtrace", 4),
             AtMost("rtrace, with a string of 30 bytes", 60)), base=records,
            note="All records are read, and all lines in the file, at the end. The threads, the floor's too, do something else for 10 ms "
                 "after each 1000 calls, on a core of their own: what reading and writing costs meanwhile is in `records`. The 1000 in "
                 "the middle count, of 200 by what they took. Whatever is not known to call nothing, as free() is, returns through "
                 "frames that are borrowed, for the sake of unwinders."),
        Row("records-summary", "inside the process: count, sum and histogram of the durations", "ns/call", (
            Side(summary, floor(["summary"])), Side("rtrace -c", wrapped(tracers.trampolines, "-c")),
            Side("rtrace -c, from breakpoints on", wrapped(tracers.automatic, "-c")),
            Side("bpftrace, hist()", bpftrace)), (RatioAtMost("rtrace -c", summary, 1.5),), base=summary),
        Row("records-threads", "a call of threads that call at once, counted inside the process, on two cores", "ns/call",
            tuple(counted_by(threads) for threads in (1, 2, 4)),
            (RatioAtMost("rtrace -c, 4 threads", "rtrace -c, 1 thread", 0.75),), base="rtrace -c, 1 thread"),
    ]
