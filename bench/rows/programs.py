"""A real program, run to its end by hyperfine."""
import json
import os

from runner import process
from runner.row import RatioAtLeast, Row, Side

from . import memory, tracers

UNTRACED = "untraced"
BREAKPOINTS = "rtrace, by breakpoints alone"


def rows():
    def sort(tracer):
        def measure(context):
            text, answer = os.path.join(context.scratch, "numbers"), os.path.join(context.scratch, "hyperfine")
            with open(text, "w") as file:
                file.write("".join("%d\n" % number for number in range(500 if context.quick else 1000, 0, -1)))
            command = " ".join([*tracer(context), "sort", text])
            process.run([context.peer("hyperfine"), "-N", "--style=none", "--warmup=1", "--runs=2", "--export-json", answer,
                         command], context.one_core)
            with open(answer) as file:
                result = json.load(file)["results"][0]
            return (result["user"] + result["system"] if context.clock == "cpu" else result["mean"]) * 1e3
        return measure

    return [Row("program-sort", "`sort` of 1000 lines, every call of the main program counted (-c)", "ms", (
        Side(UNTRACED, sort(lambda context: [])), Side("rtrace", sort(lambda context: tracers.automatic(context, "-c"))),
        Side(BREAKPOINTS, sort(lambda context: tracers.rtrace(context, "-c"))),
        Side("ltrace", sort(lambda context: tracers.ltrace(context, "-c"))), Side("uftrace", sort(memory.uftrace))),
        (RatioAtLeast("ltrace", "rtrace", 3), RatioAtLeast("ltrace", BREAKPOINTS, 3)), base=UNTRACED)]
