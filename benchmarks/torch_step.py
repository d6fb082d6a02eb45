"""What a training step costs on tutti and on gloo: the same script, processes, model and memory, in turns.

    python benchmarks/torch_step.py [--ranks 2 4] [--rounds 9]

Prints the machine and a table of medians over the rounds; in each round every case runs on both backends, one after the
other, and on tutti once more in memory that the program has asked for or registered ("shared"). "no exchange" is the
same step with an exchange that moves nothing (torch's backend "fake"): no backend can be faster than that, so it says
how much a step gains at most.
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
from torch.testing._internal.distributed import fake_pg  # noqa: F401  registers "fake"

import tutti_torch

SHARED = "shared"  # tutti in memory that ranks reach directly
NOTHING = "fake"  # nothing is moved
BACKEND_OF = {"tutti": "tutti", SHARED: "tutti", "gloo": "gloo", NOTHING: "fake"}
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


def zeros(count, kind):
    return (tutti_torch.empty if kind == SHARED else torch.empty)(count).zero_()


def bucket(group, kind):
    tensor = zeros(BUCKET_MB * 2**20 // 4, kind)
    return lambda: dist.all_reduce(tensor, group=group)


def buckets(group, kind):
    tensors = [zeros(BUCKET_MB * 2**20 // 4, kind) for _ in range(4)]

    def run():
        for work in [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]:
            work.wait()
    return run


def small(group, kind):
    tensor = zeros(256, kind)
    return lambda: dist.all_reduce(tensor, group=group)


def step_of(trained):
    optimizer = torch.optim.SGD(trained.parameters(), lr=1e-6)
    inputs = torch.ones(BATCH, WIDTH)

    def run():
        trained(inputs).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return run


def keep(state, bucket):
    """The communication hook of a DDP step without exchange: "fake" gives DDP no gradients back."""
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def ddp(group, kind):
    trained = DistributedDataParallel(model(), process_group=group, bucket_cap_mb=BUCKET_MB)
    if kind == SHARED:
        tutti_torch.register_buckets(trained)
    if kind == NOTHING:
        trained.register_comm_hook(None, keep)
    return step_of(trained)


def fsdp2(group, kind):
    mesh = DeviceMesh.from_group(group, "cpu")
    trained = model()
    for layer in trained:
        fully_shard(layer, mesh=mesh)
    fully_shard(trained, mesh=mesh)
    if kind == SHARED:
        for layer in trained:
            layer.set_allocate_memory_from_process_group_for_comm(True)
    return step_of(trained)


# What is measured, its name, and how often it runs in a round.
EXCHANGES = (
    (small, "all_reduce of 1 KiB", 100),
    (bucket, "all_reduce of 25 MiB", 5),
    (buckets, "4 all_reduces of 25 MiB at once", 2),
)
STEPS = (
    (ddp, "DDP step, 50 MB of gradients", 3),
    (fsdp2, "FSDP2 step, 50 MB of parameters", 3),
)


def medians(functions, calls, rounds):
    """Milliseconds of each kind's call, in turns."""
    seconds = {kind: [] for kind in functions}
    for turn in range(-1, rounds):  # the first one warms up
        for kind in functions if turn % 2 == 0 else reversed(functions):
            measured = timed(functions[kind], calls)
            if turn >= 0:
                seconds[kind].append(measured)
    return {kind: statistics.median(measured) * 1000 for kind, measured in seconds.items()}


def row(size, name, took):
    kinds = ("tutti", SHARED, "gloo", NOTHING)
    cells = [f"{took[kind]:.2f}" if kind in took else "" for kind in kinds]
    gains = [f"{took['gloo'] / took[kind]:.1f}" if kind in took else "" for kind in ("tutti", SHARED, NOTHING)]
    return f"| {' | '.join([str(size), name, *cells, *gains])} |"


def rank_main(rank, size, port, rounds):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=size)
    groups = {backend: dist.new_group(backend=backend) for backend in sorted(set(BACKEND_OF.values()))}
    for make, name, calls in EXCHANGES + STEPS:
        kinds = [kind for kind in BACKEND_OF if kind != NOTHING or (make, name, calls) in STEPS]
        took = medians({kind: make(groups[BACKEND_OF[kind]], kind) for kind in kinds}, calls, rounds)
        if rank == 0:
            print(row(size, name, took), flush=True)
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
    print("| ranks | what | tutti, ms | shared, ms | gloo, ms | no exchange, ms | tutti: times as fast as gloo | "
          "shared | at most |")
    print("|---|---|---|---|---|---|---|---|---|")
    for size in options.ranks:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        mp.start_processes(rank_main, (size, port, options.rounds), nprocs=size, start_method="fork")


if __name__ == "__main__":
    main()
