"""Memory copies, as many processes at once as a table has ranks. Arguments: their number, a word that stands for a
collective, seconds, sizes. Prints what loop.h lists: the mean time of a copy over the calls and the processes.
"""

import ctypes
import mmap
import multiprocessing
import sys
import time

SETTLE_S, FEWEST_CALLS, MOST_CALLS = 0.3, 3, 100_000  # loop.c's


def memory(size_bytes):
    """Page-aligned, and written."""
    mapped = (ctypes.c_char * size_bytes).from_buffer(mmap.mmap(-1, size_bytes))
    ctypes.memset(mapped, 1, size_bytes)
    return mapped


def settle(size):
    to, source = memory(size), memory(size)
    end = time.perf_counter() + SETTLE_S
    while time.perf_counter() < end:
        ctypes.memmove(to, source, size)


def copies(barrier, times, seconds, sizes):
    settle(sizes[0])
    for size in sizes:
        to, source = memory(size), memory(size)
        start = time.perf_counter()
        ctypes.memmove(to, source, size)
        calls = int(min(max(seconds / (time.perf_counter() - start), FEWEST_CALLS), MOST_CALLS))
        barrier.wait()
        start = time.perf_counter()
        for _ in range(calls):
            ctypes.memmove(to, source, size)
        times.put((size, (time.perf_counter() - start) / calls * 1e6))
        barrier.wait()


def main():
    ranks, _, seconds, *sizes = sys.argv[1:]
    ranks, sizes = int(ranks), list(map(int, sizes))
    fork = multiprocessing.get_context("fork")
    barrier, times = fork.Barrier(ranks, timeout=60), fork.Queue()
    processes = [fork.Process(target=copies, args=(barrier, times, float(seconds), sizes),
                              daemon=True) for _ in range(ranks)]
    for process in processes:
        process.start()
    measured = [times.get(timeout=60) for _ in range(ranks * len(sizes))]
    for process in processes:
        process.join()
    for size in sizes:
        mine = [time_us for measured_size, time_us in measured if measured_size == size]
        print(f"{size} {len(mine)} {sum(mine) / len(mine):.4f} 0")


main()
