"""Lists of tensors, uneven ones too, tensors that are not contiguous, every type that is only moved, and messages."""

import pytest
import torch
import torch.distributed as dist

from device import DEVICE, run

SIZES = (2, 3)
MOVED = (
    torch.bool, torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64,
    torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
    torch.complex32, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
)


def bytes_of(tensor):
    return tensor.contiguous().flatten().view(torch.uint8).tolist()


def random_of(dtype, numel):
    if dtype == torch.bool:
        return torch.rand(numel) < 0.5
    return torch.randint(0, 256, (numel * dtype.itemsize,), dtype=torch.uint8).view(dtype)


def moves(rank, size):
    for dtype in MOVED:
        generator = [random_of(dtype, 8) for _ in range(size * size)]  # one seed for all
        mine = generator[rank]
        outputs = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(outputs, mine)
        assert [bytes_of(each) for each in outputs] == [bytes_of(each) for each in generator[:size]], dtype

        tensor = generator[rank].clone()
        dist.broadcast(tensor, size - 1)
        assert bytes_of(tensor) == bytes_of(generator[size - 1]), dtype

        outputs = [torch.empty_like(mine) for _ in range(size)]
        dist.all_to_all(outputs, generator[rank * size : (rank + 1) * size])
        assert [bytes_of(each) for each in outputs] == [bytes_of(generator[i * size + rank]) for i in range(size)]

        if rank == 0:
            dist.send(mine, 1, tag=7)
        elif rank == 1:
            received = torch.empty_like(mine)
            assert dist.recv(received, 0, tag=7) == 0
            assert bytes_of(received) == bytes_of(generator[0]), dtype


def with_one_seed(rank, size, function):
    torch.manual_seed(7)
    function(rank, size)


@pytest.mark.parametrize("size", SIZES)
def test_every_type_is_moved_bit_by_bit(size):
    run(with_one_seed, size, arguments=(moves,))


def uneven(rank, size):
    def block(sender, receiver=0):
        return torch.full((sender + 2 * receiver + (sender != 1),), 10.0 * sender + receiver)

    outputs = [torch.empty_like(block(each)) for each in range(size)]
    dist.all_gather(outputs, block(rank))
    assert [each.tolist() for each in outputs] == [block(each).tolist() for each in range(size)]

    root = size - 1
    outputs = [torch.empty_like(block(each)) for each in range(size)] if rank == root else None
    dist.gather(block(rank), outputs, dst=root)
    if rank == root:
        assert [each.tolist() for each in outputs] == [block(each).tolist() for each in range(size)]

    output = torch.empty_like(block(rank))
    dist.scatter(output, [block(each) for each in range(size)] if rank == root else None, src=root)
    assert output.tolist() == block(rank).tolist()

    outputs = [torch.empty_like(block(each, rank)) for each in range(size)]
    dist.all_to_all(outputs, [block(rank, each) for each in range(size)])
    assert [each.tolist() for each in outputs] == [block(each, rank).tolist() for each in range(size)]

    in_splits = [block(rank, each).numel() for each in range(size)]
    out_splits = [block(each, rank).numel() for each in range(size)]
    output = torch.empty(sum(out_splits), 3)
    rows = torch.cat([block(rank, each) for each in range(size)])[:, None].expand(-1, 3)
    work = dist.all_to_all_single(output, rows, out_splits, in_splits, async_op=True)
    work.wait()
    assert output[:, 2].tolist() == torch.cat([block(each, rank) for each in range(size)]).tolist()


@pytest.mark.parametrize("size", SIZES + (4,))
def test_lists_may_be_uneven(size):
    run(uneven, size)


def strided(rank, size):
    base = torch.zeros(6, 2 * size)
    base[:, ::2] = rank
    outputs = list(base.t()[1::2])  # rows of a transposed matrix, every other one
    dist.all_gather(outputs, torch.full((12,), float(rank))[::2])
    for each in range(size):
        assert base[:, 2 * each + 1].tolist() == [each] * 6
    assert base[:, ::2].eq(rank).all()

    image = torch.full((1, 3, 4, 5), float(rank + 1)).to(memory_format=torch.channels_last)
    dist.all_reduce(image)
    assert image.eq(size * (size + 1) / 2).all() and image.is_contiguous(memory_format=torch.channels_last)

    received = torch.zeros(4, 2)
    if rank == 0:
        dist.send(torch.arange(8.0).view(2, 4).t(), 1)
    elif rank == 1:
        dist.recv(received.t().t(), 0)
        assert received.tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]

    gathered = torch.empty(size, 3)
    dist.all_gather_into_tensor(gathered.t().t(), torch.tensor([rank] * 6)[::2].float())
    assert gathered.tolist() == [[each] * 3 for each in range(size)]


@pytest.mark.parametrize("size", SIZES)
def test_tensors_need_not_be_contiguous(size):
    run(strided, size)


def empty(rank, size):
    tensor = torch.empty(0, 3)
    dist.all_reduce(tensor)
    dist.broadcast(tensor, 0)
    dist.all_gather([torch.empty(0, 3) for _ in range(size)], tensor)
    dist.all_gather_into_tensor(torch.empty(0, 3), tensor)
    dist.reduce_scatter_tensor(tensor, torch.empty(0, 3))
    dist.all_to_all_single(torch.empty(0), torch.empty(0))
    dist.all_to_all_single(torch.empty(0), torch.empty(0), [0] * size, [0] * size)
    dist.send(tensor, 1) if rank == 0 else None
    dist.recv(tensor, 0) if rank == 1 else None
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    assert scalar.item() == size * (size - 1) / 2


@pytest.mark.parametrize("size", SIZES)
def test_empty_tensors_and_scalars(size):
    run(empty, size)


def coalesced(rank, size):
    tensors = [torch.full((each,), float(rank)) for each in (1, 5, 0, 1000)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    outputs = [torch.empty(size * each) for each in (2, 30)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output in outputs:
            dist.all_gather_into_tensor(output, torch.full((output.numel() // size,), float(rank)))
    manager.wait()
    total = size * (size - 1) / 2
    assert all(tensor.eq(total).all() for tensor in tensors)
    assert all(output.view(size, -1)[each].eq(each).all() for output in outputs for each in range(size))
    with dist._coalescing_manager(device=torch.device(DEVICE), async_ops=True) as manager:
        sent, received = torch.full((4,), float(rank)), torch.empty(4)
        dist.isend(sent, (rank + 1) % size)
        dist.irecv(received, (rank - 1) % size)
    manager.wait()
    assert received.eq((rank - 1) % size).all()
    requests = dist.batch_isend_irecv([
        dist.P2POp(dist.irecv, received, (rank + 1) % size),
        dist.P2POp(dist.isend, sent, (rank - 1) % size),
    ])
    for request in requests:
        request.wait()
    assert received.eq((rank + 1) % size).all()


@pytest.mark.parametrize("size", SIZES)
def test_coalescing(size):
    run(coalesced, size)


def messages(rank, size):
    if rank == 0:
        tensors = [torch.empty(4) for _ in range(1, size)]
        senders = sorted(dist.recv(tensor, tag=3) for tensor in tensors)
        assert senders == list(range(1, size))
        late, early = torch.empty(2), torch.empty(2)
        first = dist.irecv(late, 1, tag=11)
        second = dist.irecv(early, 1, tag=10)
        second.wait()
        first.wait()
        assert early.tolist() == [10, 10] and late.tolist() == [11, 11]
    else:
        dist.send(torch.full((4,), float(rank)), 0, tag=3)
        if rank == 1:
            dist.send(torch.full((2,), 10.0), 0, tag=10)
            dist.send(torch.full((2,), 11.0), 0, tag=11)


@pytest.mark.parametrize("size", SIZES)
def test_tags_and_any_source(size):
    run(messages, size)
