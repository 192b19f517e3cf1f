"""How much is written for a call."""
import os

from runner import process
from runner.row import Row, Side

from . import memory, tracers


def size(path):
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


def bytes_per_call(tracer, where):
    """By the difference of two runs."""
    def measure(context):
        sizes = []
        for calls in (1000, 3000):
            process.run([*tracer(context), context.target("caller"), "text", str(calls)], context.all_cores)
            sizes.append(size(where(context)))
        return (sizes[1] - sizes[0]) / 2000
    return measure


def rows():
    def file(context):
        return context.output()

    def folder(context):
        return os.path.join(context.scratch, "uftrace")

    return [Row("bytes", "output for a call with two integers and a string of 17 bytes", "bytes/call", (
        Side("rtrace", bytes_per_call(lambda context: tracers.rtrace(context, "-e", "work_text"), file)),
        Side("rtrace -ttT", bytes_per_call(lambda context: tracers.rtrace(context, "-ttT", "-e", "work_text"), file)),
        Side("rtrace --json", bytes_per_call(lambda context: tracers.rtrace(context, "--json", "-e", "work_text"), file)),
        Side("ltrace", bytes_per_call(lambda context: tracers.ltrace(context, "-e", "work_text"), file)),
        Side("uftrace, without arguments", bytes_per_call(memory.uftrace, folder))), base="rtrace", rounds=1)]
