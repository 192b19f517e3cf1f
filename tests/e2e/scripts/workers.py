"""workers.py METHOD COUNT: four processes of multiprocessing, each calling labs(3) COUNT times."""
import ctypes
import multiprocessing
import os
import sys

libc = ctypes.CDLL("libc.so.6")


def work(arguments):
    number, count = arguments
    return sum(libc.labs(-number) for _ in range(count))


def main():
    print("pid", os.getpid(), flush=True)
    sys.stdin.readline()
    method, count = sys.argv[1], int(sys.argv[2])
    jobs = [(number, count) for number in range(1, 9)]
    with multiprocessing.get_context(method).Pool(4) as pool:
        sums = pool.map(work, jobs, chunksize=1)
    print("right %d" % (sums == [number * count for number, _ in jobs]))
    print("labs %d %d" % (len(jobs) * count, len(jobs) * count), flush=True)


if __name__ == "__main__":
    main()
