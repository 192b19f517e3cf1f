"""What becomes a trampoline of all functions that a library exports, and why the others do not."""
import collections
import os
import re

from runner import process
from runner.row import NotAvailable, Row, Side

from . import tracers

# They print their versions: breakpoints make what they do besides slow.
PROGRAMS = {"libc.so.6": ["/bin/true", "--version"], "libstdc++.so.6": ["clang", "--version"],
            "libruby-3.1.so.3.1": ["/usr/bin/ruby", "--version"], "MAIN": ["/usr/bin/python3", "--version"]}


def rows():
    told = {}

    def share(name):
        def measure(context):
            words = PROGRAMS[name]
            if words[0].startswith("/") and not os.path.exists(words[0]):
                raise NotAvailable("%s is not installed" % words[0])
            ran = process.run([*tracers.trampolines(context, "-c", "-x", "@" + name), *words], context.all_cores)
            made, left = map(int, re.search(r"^rtrace: (\d+) trampolines?, (\d+) breakpoints?", ran.stderr, re.M).groups())
            reasons = collections.Counter(re.sub(r"\d+", "N", reason) for reason in re.findall(
                r": a breakpoint, no trampoline: ([^:\n]*)", ran.stderr))
            told[name] = "%d of %d functions of %s (%s)" % (made, made + left, "python3" if name == "MAIN" else name, "; ".join(
                "%d: %s" % (count, reason) for reason, count in reasons.most_common()))
            return 100 * made / (made + left)
        return measure

    return [Row("declined", "functions that a library exports: how many of a hundred are met by trampolines, all of them probed",
                "%", [Side("python3" if name == "MAIN" else name, share(name)) for name in PROGRAMS], rounds=1,
                note=lambda: "Breakpoints serve the others; by reason. " + ". ".join(told.values()) + ".")]
