"""The command lines of rtrace and its peers that the rows share. All write to a file."""


def conf(context):
    return context.source("targets", "work.conf")


def rtrace(context, *options):
    return [context.rtrace, "-o", context.output(), "-F", conf(context), *options, "--"]


def ltrace(context, *options):
    """It follows threads with -f only; `--` it does not know."""
    return [context.peer("ltrace"), "-f", "-o", context.output(), "-F", conf(context), *options]


def library(context):
    return context.target("libwork.so")
