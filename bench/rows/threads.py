"""Threads that all make traced calls: what a call costs with 1, 2 and 4 of them."""
from runner.row import RatioAtMost, Row, Side

from . import call, tracers


def traced(tracer, threads, cores):
    def measure(context):
        calls = call.calls(context, tracer)
        return context.ns_per_call(tracer(context, "-e", "work_two"), "two", calls // threads,
                                   context.one_core if cores == 1 else context.two_cores(), threads, tracers.shows)
    return measure


def name(tracer, threads):
    return "%s, %d thread%s" % (tracer, threads, "" if threads == 1 else "s")


def rows():
    def row(cores):
        sides = [Side(name("rtrace", threads), traced(tracers.rtrace, threads, cores)) for threads in (1, 2, 4)]
        sides += [Side(name("ltrace", threads), traced(tracers.ltrace, threads, cores)) for threads in (1, 4)]
        words = {1: "one-core", 2: "two-cores"}[cores]
        return Row("threads-" + words, "a call of threads that call at once, on " + words.replace("-", " "), "ns/call",
                   tuple(sides), (RatioAtMost(name("rtrace", 4), name("rtrace", 1), 1.2),), base=name("rtrace", 1))

    return [row(1), row(2)]
