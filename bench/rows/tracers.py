"""The command lines of rtrace and its peers that the rows share, and what proves that they have seen the calls: a tracer
that is fast because it sees nothing is no peer. All write to a file."""
import re

from runner.process import Failure


def conf(context):
    return context.source("targets", "work.conf")


def rtrace(context, *options):
    """By breakpoints, however hot."""
    return [context.rtrace, "-o", context.output(), "--mechanism=breakpoint", "-F", conf(context), *options, "--"]


def trampolines(context, *options):
    return [context.rtrace, "-o", context.output(), "--mechanism=trampoline", "-F", conf(context), *options, "--"]


def automatic(context, *options):
    return [context.rtrace, "-o", context.output(), "-F", conf(context), *options, "--"]


def ltrace(context, *options):
    """It follows threads with -f only; `--` it does not know."""
    return [context.peer("ltrace"), "-f", "-o", context.output(), "-F", conf(context), *options]


def library(context):
    return context.target("libwork.so")


def shows(context, calls):
    """So many calls of libwork's functions stand in the output, as lines or in a table."""
    with open(context.output(), errors="replace") as file:
        text = file.read()
    table = re.search(r"^% time .*", text, re.M | re.S)
    if table:
        found = [int(number) for line in re.findall(r"^.*\bwork_\w+.*$", table.group(), re.M)
                 for number in re.findall(r" (\d+)(?= )", line)]
        seen = calls if calls in found else 0
    else:
        seen = len(re.findall(r"\bwork_\w+(?:@[\w.]+)?\(", text))
    if seen != calls:
        raise Failure("its output shows %d of %d calls" % (seen, calls))


def shows_free(context, calls):
    with open(context.output(), errors="replace") as file:
        seen = len(re.findall(r"^free@libc[\w.]*\(", file.read(), re.M))
    if seen < calls:
        raise Failure("its output shows %d of %d calls" % (seen, calls))


def total_calls(context):
    """Of the table that -c has printed."""
    with open(context.output(), errors="replace") as file:
        match = re.search(r"^100\.00 .*?(\d+)(?: +\d+)?(?: +\S+)? +total$", file.read(), re.M)
    return int(match.group(1)) if match else 0
