"""The rows, in the order of the results. A new group of rows is a file here with a function `rows()`, named below."""
from . import allocators, attach, call, declined, memory, micro, output, programs, startup, stops, syscalls, threads, trampoline

GROUPS = (stops, call, threads, syscalls, startup, attach, memory, output, programs, trampoline, allocators, declined, micro)


def all_rows():
    return [row for group in GROUPS for row in group.rows()]
