"""greenlets.py COUNT: five greenlets sort COUNT times each, and switch within each comparison: five calls of qsort are
open at once, on slices of one stack that greenlet moves away and back."""
import ctypes
import os
import sys

import greenlet

print("pid", os.getpid(), flush=True)
sys.stdin.readline()
count = int(sys.argv[1])
libc = ctypes.CDLL("libc.so.6")
comparison = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
entered = returned = wrong = 0


@comparison
def compare(a, b):
    hub.switch()
    return a[0] - b[0]


def sort(number):
    global entered, returned, wrong
    for turn in range(count):
        values = (ctypes.c_int * 5)(*((i * 7919 + number * 31 + turn * 17) % 101 for i in range(5)))
        expected = sorted(values)
        entered += 1
        libc.qsort(values, 5, 4, compare)
        returned += 1
        wrong += list(values) != expected


hub = greenlet.getcurrent()
alive = [greenlet.greenlet(sort) for _ in range(5)]
numbers = {id(one): number for number, one in enumerate(alive)}
order = 1
while alive:
    order = (order * 1103515245 + 12345) & 0xffffffff
    one = alive[(order >> 16) % len(alive)]
    one.switch(numbers[id(one)])
    if one.dead:
        alive.remove(one)
print("wrong %d\nqsort %d %d" % (wrong, entered, returned), flush=True)
os._exit(0)
