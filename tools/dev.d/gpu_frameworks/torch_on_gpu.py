"""torch.distributed among processes that share one GPU. Usage: torch_on_gpu.py BACKEND RANKS

With the backend nccl it runs on whatever libnccl.so.2 is preloaded, and says so if that is not tutti's.
"""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def check(tensor, expected, what):
    expected = torch.as_tensor(expected, dtype=tensor.dtype)
    if not torch.equal(tensor.cpu(), expected):
        raise AssertionError(f"{what} on rank {dist.get_rank()}: {tensor.cpu()} instead of {expected}")


def collectives(rank, size, there):
    def new(values, dtype=torch.float32):
        return torch.tensor(values, dtype=dtype, device=there)

    total = size * (size - 1) // 2
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64):
        tensor = new([rank, 2 * rank], dtype)
        dist.all_reduce(tensor)
        check(tensor, [total, 2 * total], f"all_reduce of {dtype}")
    large = torch.full((1 << 22,), rank + 1.0, device=there)
    dist.all_reduce(large)
    check(large[::4096], [total + size] * 1024, "a large all_reduce")
    tensor = new([rank + 1.0])
    dist.broadcast(tensor, size - 1)
    check(tensor, [size], "broadcast")
    tensor = new([rank + 1.0])
    dist.reduce(tensor, 0)
    if rank == 0:
        check(tensor, [total + size], "reduce")
    flat = new([-1] * size)
    dist.all_gather_into_tensor(flat, new([rank]))
    check(flat, range(size), "all_gather_into_tensor")
    part = new([0])
    dist.reduce_scatter_tensor(part, new([10 * r + rank for r in range(size)]))
    check(part, [10 * rank * size + total], "reduce_scatter_tensor")
    out = new([0] * size)
    dist.all_to_all_single(out, new([10 * rank + r for r in range(size)]))
    check(out, [10 * r + rank for r in range(size)], "all_to_all_single")
    after, before = (rank + 1) % size, (rank - 1) % size
    got = torch.zeros(100_000, device=there)
    sent = torch.full_like(got, rank)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, got, before)]):
        work.wait()
    check(got[::1000], [before] * 100, "batch_isend_irecv")
    dist.barrier()


def train(there, shares, own):
    """The losses of some steps: on `shares` ranks each has its share of the rows."""
    torch.manual_seed(7)
    rows, labels = torch.randn(64, 32), torch.randn(64, 1)
    model = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 1)).to(there)
    if shares > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    mine = slice(own * 64 // shares, (own + 1) * 64 // shares)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(rows[mine].to(there)), labels[mine].to(there))
        loss.backward()
        optimizer.step()
        if shares > 1:
            dist.all_reduce(loss.detach_(), op=dist.ReduceOp.AVG)
        losses.append(loss.item())
    return losses


def ours_is_loaded():
    with open("/proc/self/maps", encoding="ascii") as maps:
        loaded = {line.split()[-1] for line in maps if "libnccl.so" in line}
    preloaded = os.path.realpath(os.environ.get("LD_PRELOAD", ""))
    if loaded != {preloaded}:
        raise AssertionError(f"libnccl.so.2 is {loaded or 'not loaded'}, but LD_PRELOAD names {preloaded}")


def main(rank, backend, size, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    there = torch.device("cuda:0")
    torch.cuda.set_device(there)
    if backend == "nccl":
        ours_is_loaded()
    dist.init_process_group(backend, rank=rank, world_size=size)
    collectives(rank, size, there)
    losses, alone = train(there, size, rank), train(there, 1, 0)
    if not torch.allclose(torch.tensor(losses), torch.tensor(alone), rtol=1e-4):
        raise AssertionError(f"losses {losses} of {size} ranks, {alone} of one")
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        free_port = listener.getsockname()[1]
    nranks = int(sys.argv[2])
    mp.spawn(main, (sys.argv[1], nranks, free_port), nprocs=nranks)
