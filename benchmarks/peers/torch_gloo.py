"""Gloo inside torch.distributed: the loop of loop.c. Arguments: rank, size, folder, seconds, sizes in bytes.

torch reduces in place only; the time includes what Python adds to a call, as it does for every user of torch.
"""

import sys
import time

import torch
import torch.distributed as dist

WARM_UP_CALLS, FEWEST_CALLS, MOST_CALLS, PAGE_ELEMENTS = 5, 3, 5000, 1024


def mean_over_ranks(value):
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor)
    return tensor.item() / dist.get_world_size()


def inputs(count, rank):
    return ((torch.arange(count, dtype=torch.int64) * 7 + rank * 3) % 11).to(torch.float32)


def call(tensor):
    dist.all_reduce(tensor)
    return tensor[0].item() if tensor.numel() < PAGE_ELEMENTS else tensor[::PAGE_ELEMENTS].sum().item()


def count_wrong(count, rank, size):
    tensor = inputs(count, rank)
    dist.all_reduce(tensor)
    expected = sum(inputs(count, other) for other in range(size))
    return mean_over_ranks(float((tensor != expected).sum().item())) * size


def measure(size_bytes, seconds, rank, size):
    count = size_bytes // 4
    wrong = count_wrong(count, rank, size)
    tensor = torch.zeros(count)  # stays zero: sums of sums would overflow
    estimate = 0.0
    start = time.perf_counter()
    for _ in range(WARM_UP_CALLS):
        before = time.perf_counter()
        call(tensor)
        estimate = time.perf_counter() - before
        if mean_over_ranks(time.perf_counter() - start) > seconds:
            break
    calls = int(min(max(seconds / mean_over_ranks(estimate), FEWEST_CALLS), MOST_CALLS))
    mean_over_ranks(0.0)
    start = time.perf_counter()
    for _ in range(calls):
        call(tensor)
    mean = mean_over_ranks((time.perf_counter() - start) / calls)
    if rank == 0:
        print(f"{size_bytes} {calls} {mean * 1e6:.4f} {wrong:.0f}", flush=True)


def main():
    rank, size, folder, seconds, *sizes = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=int(rank), world_size=int(size))
    for size_bytes in sizes:
        measure(int(size_bytes), float(seconds), int(rank), int(size))
    dist.destroy_process_group()


main()
