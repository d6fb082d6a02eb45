"""Gloo inside torch.distributed: the loop of loop.c. Arguments: rank, size, folder, collective, seconds, sizes.

The warm-up, the inputs and the number of calls are loop.c's too. torch reduces in place only; the time includes what
Python adds to a call, as it does for every user of torch.
"""

import sys
import time

import torch
import torch.distributed as dist

SETTLE_S, FEWEST_WARM_UP_CALLS, WARM_UP_SHARE, FEWEST_CALLS, MOST_CALLS, PAGE_ELEMENTS = 0.3, 3, 8, 3, 100_000, 1024
NO_SUCH_COLLECTIVE = 69


# ---- Collectives: each makes its buffers for blocks of `count` floats, and returns a call and the tensor of its result


def all_reduce(inputs, count, _):
    tensor = inputs(count)
    return lambda: dist.all_reduce(tensor), tensor


def all_gather(inputs, count, size):
    mine, gathered = inputs(count), torch.zeros(count * size)
    blocks = list(gathered.chunk(size))
    return lambda: dist.all_gather(blocks, mine), gathered


def broadcast(inputs, count, _):
    tensor = inputs(count)
    return lambda: dist.broadcast(tensor, src=0), tensor


def all_to_all(inputs, count, size):
    mine, received = inputs(count * size), torch.zeros(count * size)
    return lambda: dist.all_to_all_single(received, mine), received


def send_recv(inputs, count, _):
    mine, received = inputs(count), torch.zeros(count)

    def there_and_back():
        other = 1 - dist.get_rank()
        if dist.get_rank() == 0:
            dist.send(mine, other)
        dist.recv(received, other)
        if dist.get_rank() == 1:
            dist.send(mine, other)
    return there_and_back, received


COLLECTIVES = {call.__name__: call for call in (all_reduce, all_gather, broadcast, all_to_all, send_recv)}
MANY_BLOCKS = ("all_gather", "all_to_all")


# ---- What must come out


def values(begin, count, rank):
    return ((torch.arange(begin, begin + count, dtype=torch.int64) * 7 + rank * 3) % 11).to(torch.float32)


def expected(collective, count, rank, size):
    ranks = range(size)
    return {"all_reduce": lambda: sum(values(0, count, other) for other in ranks),
            "all_gather": lambda: torch.cat([values(0, count, other) for other in ranks]),
            "broadcast": lambda: values(0, count, 0),
            "all_to_all": lambda: torch.cat([values(rank * count, count, other) for other in ranks]),
            "send_recv": lambda: values(0, count, 1 - rank)}[collective]()


# ---- The loop


def mean_over_ranks(value):
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor)
    return tensor.item() / dist.get_world_size()


def look_at(tensor):
    return tensor[0].item() if tensor.numel() < PAGE_ELEMENTS else tensor[::PAGE_ELEMENTS].sum().item()


def count_wrong(collective, count, rank, size):
    call, result = COLLECTIVES[collective](lambda elements: values(0, elements, rank), count, size)
    call()
    return mean_over_ranks(float((result != expected(collective, count, rank, size)).sum().item())) * size


def mean_s(call, result, calls):
    mean_over_ranks(0.0)
    start = time.perf_counter()
    for _ in range(calls):
        call()
        look_at(result)
    return mean_over_ranks((time.perf_counter() - start) / calls)


def of_rank_0(value):
    """Bit by bit: not all ranks need add up in the same order."""
    return mean_over_ranks(value if dist.get_rank() == 0 else 0.0) * dist.get_world_size()


def settle():
    start = time.perf_counter()
    while of_rank_0(time.perf_counter() - start) < SETTLE_S:
        pass


def warm_up(call, result, seconds):
    made, spent, batch = 0, 0.0, 1
    while made < FEWEST_WARM_UP_CALLS or spent < seconds / WARM_UP_SHARE:
        one = of_rank_0(mean_s(call, result, batch))
        spent += batch * one
        made += batch
        batch *= 2 if batch < MOST_CALLS else 1
    return int(min(max(seconds / one, FEWEST_CALLS), MOST_CALLS))


def measure(collective, size_bytes, seconds, rank, size):
    count = size_bytes // 4 // (size if collective in MANY_BLOCKS else 1)
    wrong = count_wrong(collective, count, rank, size)
    # In place sums become sums of sums, and infinite in the end: they take no longer.
    call, result = COLLECTIVES[collective](lambda elements: values(0, elements, rank), count, size)
    calls = warm_up(call, result, seconds)
    mean = mean_s(call, result, calls) / (2 if collective == "send_recv" else 1)
    if rank == 0:
        print(f"{size_bytes} {calls} {mean * 1e6:.4f} {wrong:.0f}", flush=True)


def main():
    rank, size, folder, collective, seconds, *sizes = sys.argv[1:]
    if collective not in COLLECTIVES:
        sys.exit(NO_SUCH_COLLECTIVE)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=int(rank), world_size=int(size))
    settle()
    for size_bytes in sizes:
        measure(collective, int(size_bytes), float(seconds), int(rank), int(size))
    dist.destroy_process_group()


main()
