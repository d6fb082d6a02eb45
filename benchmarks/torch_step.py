"""What a training step costs on tutti and on gloo: the same script, processes, model and memory, in turns.

    python benchmarks/torch_step.py [--ranks 2 4] [--rounds 9]

Prints the machine and a table of medians over the rounds; in each round every case runs on both backends, one after the
other, and on tutti once more in memory that the program has asked for or registered ("shared").
"""

import argparse
import os
import re
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import tutti_torch

BACKENDS = ("tutti", "gloo")
SHARED = "shared"  # tutti in memory that ranks reach directly
KINDS = ("tutti", SHARED, "gloo")
BUCKET_MB = 25  # DDP's default
WIDTH, LAYERS, BATCH = 1024, 12, 2  # 12.6 million parameters, 50 MB, and little to compute


def timed(function, calls):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def model():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))


def zeros(count, is_shared):
    return (tutti_torch.empty if is_shared else torch.empty)(count).zero_()


def bucket(group, is_shared):
    tensor = zeros(BUCKET_MB * 2**20 // 4, is_shared)
    return lambda: dist.all_reduce(tensor, group=group)


def buckets(group, is_shared):
    tensors = [zeros(BUCKET_MB * 2**20 // 4, is_shared) for _ in range(4)]

    def run():
        for work in [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]:
            work.wait()
    return run


def small(group, is_shared):
    tensor = zeros(256, is_shared)
    return lambda: dist.all_reduce(tensor, group=group)


def step_of(trained):
    optimizer = torch.optim.SGD(trained.parameters(), lr=1e-6)
    inputs = torch.ones(BATCH, WIDTH)

    def run():
        trained(inputs).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return run


def alone(group, is_shared):
    return step_of(model())


def ddp(group, is_shared):
    trained = DistributedDataParallel(model(), process_group=group, bucket_cap_mb=BUCKET_MB)
    if is_shared:
        tutti_torch.register_buckets(trained)
    return step_of(trained)


def fsdp2(group, is_shared):
    mesh = DeviceMesh.from_group(group, "cpu")
    trained = model()
    for layer in trained:
        fully_shard(layer, mesh=mesh)
    fully_shard(trained, mesh=mesh)
    if is_shared:
        for layer in trained:
            layer.set_allocate_memory_from_process_group_for_comm(True)
    return step_of(trained)


# What is measured, its name, and how often it runs in a round.
CASES = (
    (small, "all_reduce of 1 KiB", 100),
    (bucket, "all_reduce of 25 MiB", 5),
    (buckets, "4 all_reduces of 25 MiB at once", 2),
    (alone, "the step without exchange", 3),
    (ddp, "DDP step, 50 MB of gradients", 3),
    (fsdp2, "FSDP2 step, 50 MB of parameters", 3),
)


def rank_main(rank, size, port, rounds):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    for make, name, calls in CASES:
        functions = {kind: make(groups["tutti" if kind == SHARED else kind], kind == SHARED) for kind in KINDS}
        seconds = {kind: [] for kind in KINDS}
        for turn in range(-1, rounds):  # the first one warms up
            for kind in KINDS if turn % 2 == 0 else KINDS[::-1]:
                measured = timed(functions[kind], calls)
                if turn >= 0:
                    seconds[kind].append(measured)
        if rank == 0:
            tutti, shared, gloo = (statistics.median(seconds[kind]) * 1000 for kind in KINDS)
            print(f"| {size} | {name} | {tutti:.2f} | {shared:.2f} | {gloo:.2f} | {gloo / tutti:.1f} | "
                  f"{gloo / shared:.1f} |", flush=True)
    dist.destroy_process_group()


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return (f"{model.group(1) if model else 'unknown processor'}, {os.cpu_count()} cores, "
            f"load {os.getloadavg()[0]:.2f}, torch {torch.__version__}, {now}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(machine(), end="\n\n")
    print("| ranks | what | tutti, ms | shared, ms | gloo, ms | tutti: times as fast | shared: times as fast |")
    print("|---|---|---|---|---|---|---|")
    for size in options.ranks:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        mp.start_processes(rank_main, (size, port, options.rounds), nprocs=size, start_method="fork")


if __name__ == "__main__":
    main()
