"""System calls of a traced program, none of which is asked for."""
from runner.row import RatioAtMost, Row, Side

from . import tracers

UNTRACED = "untraced"


def rows():
    def traced(tracer):
        # Where each call is stopped, few of them take long enough.
        def measure(context):
            slow = tracer is tracers.ltrace
            calls = (2000 if slow else 200000) if context.quick else (8000 if slow else 2000000)
            return context.ns_per_call(tracer(context, "-x", "work_unused") if tracer else [], "getppid", calls,
                                       context.one_core)
        return measure

    return [Row("syscalls", "getppid() of a program in which another function is probed, without -S", "ns/system call", (
        Side(UNTRACED, traced(None)), Side("rtrace", traced(tracers.rtrace)), Side("ltrace", traced(tracers.ltrace))),
        (RatioAtMost("rtrace", UNTRACED, 1.03),), base=UNTRACED,
        note="The target is that nothing is added; 3 % is what two runs of the same may differ by.")]
