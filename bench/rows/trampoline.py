"""What is to be had inside the process: the floor of trampolines, and the peers that work so. A side of rtrace's own
stands here as soon as it has that mechanism."""
import os
import re
import shutil

from runner import process
from runner.row import Row, Side

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


def rows():
    def floor(kind):
        return lambda context: context.floor("trampoline", kind)

    records, summary = "floor: records", "floor: summary"
    return [
        Row("records", "inside the process: a record of each call", "ns/call", (
            Side("floor: a pair of rdtsc", lambda context: context.floor("rdtsc")),
            Side("floor: a count", floor("count")), Side(records, floor("records")),
            Side("uftrace", uftrace("two"))), base=records),
        Row("records-summary", "inside the process: count, sum and histogram of the durations", "ns/call", (
            Side(summary, floor("summary")), Side("bpftrace, hist()", bpftrace)), base=summary),
    ]
