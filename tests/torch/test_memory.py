"""Memory that ranks reach directly: the same results, and ordinary memory again afterwards."""

import gc

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from group import run


def is_shared(tensor):
    """Whether the middle of its memory lies on pages that ranks share."""
    middle = tensor.data_ptr() + tensor.nbytes // 2
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            begin, end = (int(address, 16) for address in line.split()[0].split("-"))
            if begin <= middle < end:
                return "/memfd:tutti-" in line
    raise AssertionError("no such memory")


def new_tensors(rank, size):
    import tutti_torch

    tensor = tutti_torch.empty(1000, 30)
    assert tensor.shape == (1000, 30) and tensor.dtype == torch.float32
    assert is_shared(tensor)
    tensor.fill_(rank + 1)
    dist.all_reduce(tensor)
    assert tensor.eq(size * (size + 1) / 2).all()
    address = tensor.data_ptr()
    del tensor
    assert tutti_torch.empty((30, 1000)).data_ptr() == address  # kept for the next of its size
    assert tutti_torch.empty(3, dtype=torch.bfloat16).dtype == torch.bfloat16
    assert tutti_torch.empty(0, 4).shape == (0, 4)


def test_new_tensors():
    run(new_tensors, 3)


def registered(rank, size):
    import tutti_torch

    tensors = [torch.full((1 << 18,), rank + 1.0), torch.full((70000,), rank + 1, dtype=torch.int64)]
    with tutti_torch.register_memory(*tensors):
        for tensor in tensors:
            assert is_shared(tensor)
            dist.all_reduce(tensor)
    for tensor in tensors:
        assert not is_shared(tensor) and tensor.eq(3).all()
        dist.all_reduce(tensor)
        assert tensor.eq(6).all()
    with pytest.raises(TypeError, match="dense tensors of the CPU"):
        tutti_torch.register_memory(torch.eye(2).to_sparse())


def test_registered_tensors():
    run(registered, 2)


def a_registration_keeps_the_memory(rank, size):
    import tutti_torch

    registration = tutti_torch.register_memory(torch.ones(1 << 18))
    gc.collect()
    others = [torch.zeros(1 << 18) for _ in range(4)]  # would get its place
    for tensor in others:
        dist.all_reduce(tensor)
    registration.release()


def test_a_registration_keeps_the_memory():
    run(a_registration_keeps_the_memory, 2)


def network():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(64, 64) for _ in range(8)))


def trained(model, rank, steps=5):
    """The parameters after some steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        torch.manual_seed(100 * step + rank)
        model(torch.randn(4, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]


def ddp(rank, size):
    import tutti_torch

    def wrapped():
        return DistributedDataParallel(network(), bucket_cap_mb=0.05)  # several buckets

    expected = trained(wrapped(), rank)
    model = wrapped()
    with tutti_torch.register_buckets(model) as buckets:
        got = trained(model, rank)
        kept = [registration.tensors[0] for _, registration in buckets._registered.values()]
        assert len(kept) > 1 and all(is_shared(tensor) for tensor in kept)
    assert not any(is_shared(tensor) for tensor in kept)
    for ours, theirs in zip(got, expected):
        torch.testing.assert_close(ours, theirs)


def test_registered_buckets_of_ddp():
    run(ddp, 2)


def fsdp2(rank, size):
    mesh = init_device_mesh("cpu", (size,))

    def sharded(is_shared):
        model = network()
        for layer in model:
            fully_shard(layer, mesh=mesh)
            layer.set_allocate_memory_from_process_group_for_comm(is_shared)
        return [parameter.full_tensor() for parameter in trained(fully_shard(model, mesh=mesh), rank)]

    def allocations():
        with open("/proc/self/maps", encoding="ascii") as maps:
            return sum("/memfd:tutti-memory" in line for line in maps)

    expected = sharded(False)
    assert allocations() == 0
    got = sharded(True)
    assert allocations() > 0  # the group keeps them
    for ours, theirs in zip(got, expected):
        torch.testing.assert_close(ours, theirs)


def test_fsdp2_in_the_groups_memory():
    run(fsdp2, 2)
