#!/usr/bin/env python3
"""start_order.py RTRACE ORDER: most functions that src/start_order.ld names exist, and stand first in rtrace; what each of its
processes brings in is marked, and holds what brings it in; and no table of functions has become writable by the order."""
import re
import subprocess
import sys

LEAST = 0.75  # fewer: time for tools/start-order
MARKS = ["rtrace_%s_code" % part for part in ("front_end", "common", "engine")] + ["rtrace_engine_code_end"]
BOTH_RUN = ("_ZN6rtrace8populateE", "madvise", "prctl")  # begin of a name


def main():
    program, order = sys.argv[1:]
    with open(order) as file:
        wanted = set(re.findall(r"^ *\*\(\.text\.(?:\w+\.)?(_Z\w+)\)$", file.read(), re.M))
    sections = subprocess.run(["readelf", "-SW", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    begin, size = (int(word, 16) for word in re.search(r" \.text\.first +PROGBITS +(\w+) \w+ (\w+)", sections).groups())
    symbols = subprocess.run(["nm", "--defined-only", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    places = {name: int(address, 16) for address, _, name in map(str.split, symbols.splitlines())}
    first = {name for name, address in places.items() if begin <= address < begin + size}
    marks = [places.get(mark) for mark in MARKS]
    if None in marks or marks != sorted(set(marks)) or not begin <= marks[0] < marks[-1] <= begin + size:
        sys.exit("%s are %s, in %#x..%#x" % (", ".join(MARKS), marks, begin, begin + size))
    outside = [name for name, address in places.items() if name.startswith(BOTH_RUN) and not marks[1] <= address < marks[2]]
    if outside:
        sys.exit("not among what both processes bring in: %s" % ", ".join(outside))
    segments = subprocess.run(["readelf", "-lW", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    writable = re.search(r" LOAD +\S+ 0x(\w+) \S+ \S+ 0x(\w+) RW ", segments)
    read_only = re.search(r" GNU_RELRO +\S+ 0x(\w+) \S+ \S+ 0x(\w+) ", segments)
    end = sum(int(word, 16) for word in read_only.groups())
    behind = range(end, sum(int(word, 16) for word in writable.groups()))
    tables = [name for name, address in places.items() if name.startswith(("_ZTV", "_ZTI", "_dl_vdso_")) and address in behind]
    if tables:
        sys.exit("writable, behind GNU_RELRO: %s" % ", ".join(tables))
    share = len(wanted & first) / len(wanted)
    print("%d of %d functions stand first" % (len(wanted & first), len(wanted)))
    sys.exit(0 if share >= LEAST else "src/start_order.ld has grown old: tools/start-order writes it anew")


main()
