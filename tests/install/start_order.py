#!/usr/bin/env python3
"""start_order.py RTRACE ORDER: most functions that src/start_order.ld names exist, and stand first in rtrace."""
import re
import subprocess
import sys

LEAST = 0.75  # fewer: time for tools/start-order


def main():
    program, order = sys.argv[1:]
    with open(order) as file:
        wanted = set(re.findall(r"^ *\*\(\.text\.(?:\w+\.)?(_Z\w+)\)$", file.read(), re.M))
    sections = subprocess.run(["readelf", "-SW", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    begin, size = (int(word, 16) for word in re.search(r" \.text\.first +PROGBITS +(\w+) \w+ (\w+)", sections).groups())
    symbols = subprocess.run(["nm", "--defined-only", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    first = {name for address, _, name in map(str.split, symbols.splitlines()) if begin <= int(address, 16) < begin + size}
    share = len(wanted & first) / len(wanted)
    print("%d of %d functions stand first" % (len(wanted & first), len(wanted)))
    sys.exit(0 if share >= LEAST else "src/start_order.ld has grown old: tools/start-order writes it anew")


main()
