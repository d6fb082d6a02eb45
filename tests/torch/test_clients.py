"""What torch itself builds on process groups comes out on tutti as it does on gloo."""

import os
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoints
from torch import nn
from torch.distributed import _functional_collectives as collectives
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from group import TIMEOUT, run


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def losses(rank, trained, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(trained.parameters(), lr=0.1)
    seen = []
    for step in range(4):
        torch.manual_seed(10 * step + rank)
        loss = trained(torch.randn(8, 16)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


def mesh_of(size):
    return init_device_mesh("cpu", (size,))


def fsdp1(rank, size):
    return losses(rank, FullyShardedDataParallel(model(), device_id=torch.device("cpu")))


def zero_redundancy_optimizer(rank, size):
    trained = DistributedDataParallel(model())
    return losses(rank, trained, ZeroRedundancyOptimizer(trained.parameters(), torch.optim.Adam, lr=0.01))


def tensor_parallel(rank, size):
    trained = parallelize_module(model(), mesh_of(size), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return losses(0, trained)  # the same rows on all ranks


def checkpoint(rank, size):
    mesh = mesh_of(size)
    with tempfile.TemporaryDirectory() as own:
        folder = [own]
        dist.broadcast_object_list(folder, 0)
        path = os.path.join(folder[0], "saved")
        checkpoints.save({"x": distribute_tensor(torch.arange(16.0), mesh, [Shard(0)])}, checkpoint_id=path)
        read = distribute_tensor(torch.zeros(16), mesh, [Shard(0)])
        checkpoints.load({"x": read}, checkpoint_id=path)
        whole = read.full_tensor()
        dist.barrier()  # rank 0's folder goes away
    assert whole.tolist() == list(range(16))
    return whole


def redistributed(rank, size):
    mesh = mesh_of(size)
    rows = distribute_tensor(torch.arange(24.0).view(6, 4), mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Shard(1)])
    return [columns.to_local(), columns.redistribute(mesh, [Replicate()]).to_local(), (rows @ rows.T).full_tensor()]


def functional(rank, size):
    world = dist.group.WORLD
    own = torch.arange(4.0 * size) + rank
    results = [
        collectives.all_reduce(own, "sum", world), collectives.all_gather_tensor(own, 0, world),
        collectives.reduce_scatter_tensor(own, "sum", 0, world),
        collectives.all_to_all_single(own, None, None, world), collectives.broadcast(own, 1, world),
        *collectives.all_reduce_coalesced([own, own + 1], "max", world),
        *collectives.all_gather_into_tensor_coalesced([own, own + 1], world),
        *collectives.reduce_scatter_tensor_coalesced([own, own + 1], "sum", [0, 0], world),
    ]
    return [result + 0 for result in results]  # which waits


def one_forward_one_backward(rank, size):
    part = model()[:2] if rank == 0 else model()[2:]
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=lambda made, wanted: (made - wanted).pow(2).mean())
    torch.manual_seed(3)
    rows, wanted = torch.randn(8, 16), torch.randn(8, 4)
    seen = []
    if rank == 0:
        schedule.step(rows)
    else:
        schedule.step(target=wanted, losses=seen)
    return [*(loss.item() for loss in seen), *(parameter.grad for parameter in part.parameters())]


def objects(rank, size):
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": each} for each in range(size)]
    at_root = [None] * size if rank == 0 else None
    dist.gather_object("x" * (rank + 1), at_root)
    assert rank != 0 or at_root == ["x" * (each + 1) for each in range(size)]
    mine = [None]
    dist.scatter_object_list(mine, [(each, "own") for each in range(size)] if rank == 0 else None)
    assert mine == [(rank, "own")]
    if rank == 0:
        dist.send_object_list([rank, "text"], 1)
    elif rank == 1:
        received = [None, None]
        dist.recv_object_list(received, 0)
        assert received == [0, "text"]


def power_sgd(rank, size):
    trained = DistributedDataParallel(model())
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, matrix_approximation_rank=1)
    trained.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return losses(rank, trained)


def sixteen_bits(rank, size):
    trained = DistributedDataParallel(model())
    trained.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return losses(rank, trained)


def averaged_now_and_then(rank, size):
    trained = model()
    seen = losses(rank, trained)
    PeriodicModelAverager(period=1, warmup_steps=0).average_parameters(trained.parameters())
    return [*seen, *(parameter.detach() for parameter in trained.parameters())]


CLIENTS = (fsdp1, zero_redundancy_optimizer, tensor_parallel, checkpoint, redistributed, functional,
           one_forward_one_backward, objects, power_sgd, sixteen_bits, averaged_now_and_then)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_as_on_gloo(client):
    mine, theirs = run(client), run(client, backend="gloo")
    if client is not objects:
        # 16 bits are added in 32 by tutti, one after the other by gloo.
        tolerance = 1e-3 if client is sixteen_bits else 1e-5
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def ddp_in_detail(rank, size):
    """TORCH_DISTRIBUTED_DEBUG=DETAIL, which puts a group of torch's own, on gloo, around the backend."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.init_process_group("tutti", rank=rank, world_size=size, timeout=TIMEOUT)
    seen = losses(rank, DistributedDataParallel(model()))
    with pytest.raises(RuntimeError, match="Detected mismatch between collectives"):
        dist.all_reduce(torch.ones(3 + rank))
    return seen


def ddp(rank, size):
    return losses(rank, DistributedDataParallel(model()))


def test_debugging_in_detail_changes_no_losses_and_finds_what_differs():
    torch.testing.assert_close(run(ddp_in_detail, backend=None), run(ddp, backend="gloo"), rtol=1e-5, atol=1e-5)
