"""A breakpoint call: entry and return, as text in a file."""
from runner.row import RatioAtLeast, RatioAtMost, Row, Side

from . import tracers

FLOOR, TWO_STOPS = "floor: two bare stops", {1: "1", 2: "2"}


def calls(context, tracer):
    """A slow tracer takes long enough with fewer."""
    return (2000 if context.quick else 10000) // (4 if tracer is tracers.ltrace else 1)


def traced(tracer, function, options, cores=1):
    def measure(context):
        return context.ns_per_call(tracer(context, *options), function, calls(context, tracer),
                                   context.one_core if cores == 1 else context.two_cores(), proof=tracers.shows)
    return measure


def floor(cores=1):
    return Side(FLOOR, lambda context: context.floor("entry_return", TWO_STOPS[cores],
                                                     cores=context.one_core if cores == 1 else context.two_cores()))


def limits():
    return (RatioAtMost("rtrace", FLOOR, 1.3), RatioAtLeast("ltrace", "rtrace", 3))


def rows():
    def row(name, title, function, cores=1):
        only = ("-e", "work_" + function)
        return Row(name, title, "ns/call", (floor(cores), Side("rtrace", traced(tracers.rtrace, function, only, cores)),
                                            Side("ltrace", traced(tracers.ltrace, function, only, cores))),
                   limits(), base=FLOOR)

    summary = ("-c", "-e", "work_two")
    return [
        row("call", "a call with two integers, by breakpoints, one core", "two"),
        row("call-string", "a call with two integers and a string of 17 bytes, by breakpoints, one core", "text"),
        Row("call-entry", "the same call as in `call`, at the function's entry (-x) instead of the call site", "ns/call", (
            floor(), Side("rtrace", traced(tracers.rtrace, "two", ("-x", "work_two")))),
            (RatioAtMost("rtrace", FLOOR, 1.3),), base=FLOOR),
        row("call-two-cores", "the same call as in `call`, where tracer and program may run on two cores", "two", 2),
        Row("call-summary", "the same call as in `call`, counted and timed only (-c)", "ns/call", (
            floor(), Side("rtrace", traced(tracers.rtrace, "two", summary)),
            Side("ltrace", traced(tracers.ltrace, "two", summary))),
            (RatioAtMost("rtrace", FLOOR, 1.3), RatioAtLeast("ltrace", "rtrace", 3)), base=FLOOR),
    ]
