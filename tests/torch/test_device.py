"""Tensors of a device: calls go on streams, also with CPU ranks among them.

DEVICE=cuda:0 is a GPU, privateuseone:0 the tests' CUDA driver, which needs none.
"""

import os
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from device import DEVICE, join, module
from group import run

WAIT_MS = 300  # that a stream stands still

if DEVICE == "cpu":
    pytest.skip("no DEVICE: build with the CUDA toolkit, and run by ctest", allow_module_level=True)
module()  # once, before there are ranks


def each_collective(rank, size, on_device):
    join(rank, size, on_device[rank])
    there = torch.device(DEVICE if on_device[rank] else "cpu")

    def new(values, dtype=torch.float32):
        return torch.tensor(values, dtype=dtype).to(there)

    def check(tensor, values):
        assert tensor.device.type == there.type
        assert tensor.cpu().tolist() == values, (tensor.cpu(), values)

    ranks = range(size)
    total = sum(ranks)
    tensor = new([rank, 10 * rank])
    dist.all_reduce(tensor)
    check(tensor, [total, 10 * total])
    tensor = new([rank], torch.int16)  # travels as another type
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    check(tensor, [size - 1])
    tensor = new([float(rank)] * 3)
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    check(tensor, [total / size] * 3)
    tensor = new([1.0, 2.0])
    dist.all_reduce(tensor, op=dist._make_nccl_premul_sum(0.5))
    check(tensor, [size * 0.5, size * 1.0])
    tensor = new([rank + 1.0])
    dist.broadcast(tensor, 1)
    check(tensor, [2.0])
    tensor = new([rank + 1.0])
    dist.reduce(tensor, 0)
    if rank == 0:
        check(tensor, [total + size])
    lists = [new([-1, -1]) for _ in ranks]
    dist.all_gather(lists, new([rank, rank]))
    for other in ranks:
        check(lists[other], [other, other])
    flat = new([-1] * size)
    dist.all_gather_into_tensor(flat, new([rank]))
    check(flat, list(ranks))
    part = new([0])
    dist.reduce_scatter_tensor(part, new([10 * r + rank for r in ranks]))
    check(part, [10 * rank * size + total])
    out = new([0] * size)
    dist.all_to_all_single(out, new([10 * rank + r for r in ranks]))
    check(out, [10 * r + rank for r in ranks])
    received = [new([0] * (rank + 1)) for _ in ranks]
    dist.all_to_all(received, [new([rank] * (r + 1)) for r in ranks])
    for other in ranks:
        check(received[other], [other] * (rank + 1))
    gathered = [new([0]) for _ in ranks] if rank == 1 else None
    dist.gather(new([rank]), gathered, dst=1)
    for other in ranks if rank == 1 else ():
        check(gathered[other], [other])
    part = new([0])
    dist.scatter(part, [new([5 * r]) for r in ranks] if rank == 0 else None, src=0)
    check(part, [5 * rank])
    columns = torch.arange(6.0).reshape(2, 3).to(there).t()  # not contiguous
    dist.all_reduce(columns)
    check(columns, (torch.arange(6.0).reshape(2, 3).t() * size).tolist())
    after, before = (rank + 1) % size, (rank - 1) % size
    sent, got = new([rank] * 7), new([-1] * 7)
    works = [dist.irecv(got, before), dist.isend(sent, after)]
    for work in works:
        work.wait()
    check(got, [before] * 7)
    got = new([-1] * 7)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, after), dist.P2POp(dist.irecv, got, before)]):
        work.wait()
    check(got, [before] * 7)
    dist.barrier()


@pytest.mark.parametrize("on_device", [(True, True), (True, True, True), (True, False), (False, True, False)])
def test_each_collective_gives_what_it_gives_on_the_cpu(on_device):
    run(each_collective, size=len(on_device), backend=None, arguments=(on_device,))


def in_order(rank, size):
    device = join(rank, size)
    tensor, source, result = (torch.zeros(1000).to(DEVICE) for _ in range(3))
    source.fill_(rank + 1.0)
    dist.all_reduce(result)  # what is slow for the first time
    device.synchronize()
    before = device.recorded_on_streams() if device.recorded_on_streams else None
    device.hold()
    device.copy(source, tensor)
    work = dist.all_reduce(tensor, async_op=True)
    assert before is None or device.recorded_on_streams() > before
    future = work.get_future()
    work.wait()
    device.copy(tensor, result)
    assert not work.is_completed()  # and the host is here
    device.release()
    device.synchronize()
    assert work.is_completed() and work.is_success()
    assert result.cpu().eq(size * (size + 1) / 2).all()
    assert future.wait()[0].cpu().eq(size * (size + 1) / 2).all()


def test_calls_are_in_the_order_of_streams_and_the_host_does_not_wait():
    run(in_order, backend=None)


def barriers(rank, size, on_device):
    device = join(rank, size, on_device[rank])
    dist.barrier()
    tensor = torch.ones(10).to(DEVICE if on_device[rank] else "cpu")
    done = torch.Event(DEVICE) if on_device[rank] else None
    for is_async in (False, True):
        if done:
            device.delay(WAIT_MS)
            done.record()
        work = dist.all_reduce(tensor, async_op=True)
        barrier = dist.barrier(async_op=is_async)
        if is_async:
            barrier.wait()
        if done:
            assert done.query() and work.is_completed()
        work.wait()


@pytest.mark.parametrize("on_device", [(True, True), (True, False)])
def test_a_barrier_comes_behind_what_the_device_has_to_do(on_device):
    run(barriers, size=len(on_device), backend=None, arguments=(on_device,))


def messages(rank, size):
    device = join(rank, size)
    peer = 1 - rank

    def new(values):
        return torch.tensor(values, dtype=torch.float32).to(DEVICE)

    # In any order, whatever waits: the receives of two tags, a collective, and the sends the other way round.
    got = {tag: new([-1.0] * 3) for tag in (1, 2)}
    works = [dist.irecv(tensor, peer, tag=tag) for tag, tensor in got.items()]
    total = new([rank + 1.0])
    works.append(dist.all_reduce(total, async_op=True))
    works += [dist.isend(new([10.0 * tag + rank] * 3), peer, tag=tag) for tag in (2, 1)]
    for work in works:
        work.wait()
    assert total.cpu().tolist() == [3]
    for tag, tensor in got.items():
        assert tensor.cpu().tolist() == [10.0 * tag + peer] * 3, (tag, tensor.cpu())

    # Large ones, from anyone, into a tensor that is not contiguous; a shorter one leaves the rest as it is.
    large = torch.arange(600_000.0).reshape(600, 1000) + rank
    target = torch.zeros(1000, 600).to(DEVICE).t()
    work = dist.irecv(target, None)
    sending = dist.isend(large.to(DEVICE), peer)
    work.wait()
    sending.wait()
    assert work._source_rank() == peer
    assert target.cpu().equal(torch.arange(600_000.0).reshape(600, 1000) + peer)
    for target in (new([-1.0] * 4), torch.full((2, 2), -1.0).to(DEVICE).t()):
        work = dist.irecv(target, peer)
        dist.isend(new([1.0, 2.0, 3.0]), peer)
        work.wait()
        assert target.cpu().flatten().tolist() == [1, 2, 3, -1], target.cpu()

    # Behind what the current stream had when it was called; what is sent is what the stream has then.
    source, target, result = new([rank + 5.0] * 1000), new([0.0] * 1000), new([0.0] * 1000)
    sent = new([0.0] * 1000)
    device.synchronize()
    device.delay(WAIT_MS)
    device.copy(result, target)  # too late it would overwrite the message
    device.copy(source, sent)
    work = dist.irecv(target, peer)
    sending = dist.isend(sent, peer)
    sending.wait()
    device.copy(result, sent)
    work.wait()
    device.copy(target, result)
    device.synchronize()
    assert result.cpu().eq(peer + 5.0).all()

    # Nobody needs to wait: a future, a look now and then, a Work that is dropped.
    targets = [new([0.0]) for _ in range(3)]
    works = [dist.irecv(tensor, peer) for tensor in targets[:2]]
    dist.irecv(targets[2], peer)
    future = works[0].get_future()
    for value in (1.0, 2.0, 3.0):
        dist.isend(new([value]), peer)
    assert future.wait()[0].cpu().tolist() == [1]
    deadline = time.monotonic() + 30
    while not (works[1].is_completed() and targets[2].cpu().tolist() == [3]):
        assert time.monotonic() < deadline, [tensor.cpu() for tensor in targets]
        time.sleep(0.001)
    assert works[1].is_success() and targets[1].cpu().tolist() == [2]
    dist.barrier()


def test_messages_come_in_any_order_and_hold_no_stream():
    run(messages, backend=None)


def coalesced(rank, size):
    join(rank, size)
    tensors = [torch.full((n + 1,), rank + 1.0).to(DEVICE) for n in range(4)]
    with dist._coalescing_manager(device=torch.device(DEVICE), async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in tensors:
        assert tensor.cpu().eq(size * (size + 1) / 2).all()


def test_coalesced_calls_are_one_work():
    run(coalesced, size=3, backend=None)


def timeouts(rank, size):
    join(rank, size)
    tensor = torch.ones(3).to(DEVICE)
    if rank == 1:
        time.sleep(1)
    work = dist.all_reduce(tensor, async_op=True)
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match="Timed out waiting 200ms"):
            work.wait(timedelta(milliseconds=200))
    work.wait(timedelta(seconds=30))
    assert tensor.cpu().eq(2).all()


def test_a_wait_with_a_timeout_waits_on_the_host():
    run(timeouts, backend=None)


def refused(rank, size):
    join(rank, size)
    with pytest.raises(ValueError, match="the tensors are on different devices"):
        dist.all_gather([torch.zeros(1).to(DEVICE), torch.zeros(1)], torch.zeros(1).to(DEVICE))
    dist.barrier()


def test_tensors_of_one_call_are_on_one_device():
    run(refused, backend=None)


def killed(rank, size):
    join(rank, size)
    tensor = torch.ones(3).to(DEVICE)
    dist.all_reduce(tensor)
    if rank == 1:
        os._exit(1)
    work = dist.all_reduce(tensor, async_op=True)
    with pytest.raises(dist.DistBackendError, match="tutti: all_reduce: .*rank 1"):
        work.wait(timedelta(seconds=30))


def test_a_rank_that_dies_is_heard_of():
    run(killed, backend=None, may_die=(1,))


def not_sent(rank, size):
    join(rank, size, timeout=4)
    if rank == 1:
        time.sleep(6)
        return
    tensor = torch.ones(3).to(DEVICE)
    with pytest.raises(dist.DistBackendError, match="tutti: recv: Timed out waiting 4000ms"):
        dist.recv(tensor, 1)
    assert tensor.cpu().eq(1).all()


def test_a_message_that_does_not_come_is_an_error_of_the_wait():
    run(not_sent, backend=None, may_die=(1,))
