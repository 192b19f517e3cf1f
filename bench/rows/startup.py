"""Start-up: a command that is run to its end with a function probed that it never calls."""
import json

from runner import process
from runner.row import AddsAtMost, AddsTimes, NotAvailable, Row, Side

from . import tracers

FLOOR = "floor: bare ptrace"
OWN_FLOOR = "floor: bare ptrace, by a program that is started for it"
# The limit of what is added, in ms on the machine that it was set on, and the same in terms of what ltrace added there.
COMMANDS = (("true", ["true"], (1, 5)), ("ls", ["ls"], None), ("python3", ["/usr/bin/python3", "-c", "pass"], None),
            ("clang", ["clang", "--version"], (5, 7)))
LLVM = "libLLVM-14.so.1"


def spawn(options, tracer, command, rounds=None, least_calls=0):
    def measure(context):
        times = rounds or (2 if context.quick else 5)
        words = [context.target("floor_spawn"), *options, str(times), *tracer(context), *command]
        answer = json.loads(process.run(words, context.one_core).stdout)
        if least_calls and tracers.total_calls(context) < least_calls:
            raise process.Failure("its table shows %d calls" % tracers.total_calls(context))
        return answer["cpu_ns" if context.clock == "cpu" else "ns"] / 1e6
    return measure


def untraced(_):
    return []


def bare_program(context):
    """The floor's program as a tracer that is run, as rtrace is: what its own exec and exit cost comes in."""
    return [context.target("floor_spawn"), "-t", "1"]


def rtrace(context):
    """As one types it: with the prototypes that either tracer comes with."""
    return [context.rtrace, "-o", context.output(), "-x", "getpgid", "--"]


def ltrace(context):
    return [context.peer("ltrace"), "-f", "-o", context.output(), "-L", "-x", "getpgid@libc.so.6"]


def in_llvm(options):
    def tracer(context):
        if not process.library_path(LLVM):
            raise NotAvailable("no " + LLVM)
        return [context.rtrace, "-o", context.output(), *options, "--"]
    return tracer


def rows():
    found = []
    for name, command, limit in COMMANDS:
        found.append(Row(
            "start-" + name, "`%s` with one function probed" % " ".join(command), "ms", (
                Side("untraced", spawn([], untraced, command)), Side(FLOOR, spawn(["-t"], untraced, command)),
                Side(OWN_FLOOR, spawn([], bare_program, command)),
                Side("rtrace", spawn([], rtrace, command)), Side("ltrace", spawn([], ltrace, command))),
            (AddsAtMost("rtrace", FLOOR, limit[0]), AddsTimes("ltrace", "rtrace", FLOOR, limit[1])) if limit else (),
            base=FLOOR))
    clang = ["clang", "--version"]
    found.append(Row(
        "start-llvm", "`clang --version` with every function of libLLVM probed, 35 000", "ms", (
            Side(FLOOR, spawn(["-t"], untraced, clang)),
            Side("rtrace", spawn([], in_llvm(["-c", "-x", "@" + LLVM]), clang, 1, 1000)),
            Side("ltrace", spawn([], lambda context: tracers.ltrace(context, "-c", "-L", "-x", "@libLLVM*"), clang,
                                 1, 1000))),
        base=FLOOR, rounds=1, note="The calls that are made then are counted (-c), and are most of the time; how long the probes take alone is in "
        "`attach-ready`. ltrace takes the `-` of the library's name for an operator: it gets a pattern without."))
    return found
