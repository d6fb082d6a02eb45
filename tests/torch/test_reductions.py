"""All types and operations, against a loop in exact arithmetic."""

import math

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from device import run

SIZES = (2, 3)
NUMEL = 37
INTS = (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)
COMPLEX = (torch.complex64, torch.complex128)
ARITHMETIC = {"SUM": sum, "PRODUCT": math.prod, "MIN": min, "MAX": max}


def values_of(rank, dtype, numel=NUMEL):
    """Small numbers, so that results fit into every type; another list on each rank."""
    small = [(rank + 1) * (i % 3 + 1) % 5 + (i % 2) for i in range(numel)]
    if dtype.is_complex:
        return [complex(value, (rank + i) % 4) for i, value in enumerate(small)]
    if dtype == torch.bool:
        return [value % 2 == 0 for value in small]
    return small


def tensor_of(values, dtype):
    if dtype in EIGHT_BITS or dtype in (torch.uint16, torch.uint32, torch.uint64):
        return torch.tensor(values, dtype=torch.float32).to(dtype)
    return torch.tensor(values).to(dtype)


def expected_of(op, columns, dtype):
    def of(column):
        if op == "AVG":
            total = sum(column)
            return total / len(column) if dtype in FLOATS + EIGHT_BITS + COMPLEX else math.trunc(total / len(column))
        if op in ("BAND", "BOR", "BXOR"):
            result = column[0]
            for value in column[1:]:
                result = {"BAND": result & value, "BOR": result | value, "BXOR": result ^ value}[op]
            return result
        return ARITHMETIC[op](column)

    return tensor_of([of(column) for column in columns], dtype)


def check_equal(mine, expected, what):
    wide = torch.complex128 if mine.dtype.is_complex else torch.float64
    # Results of 8- and 16-bit floats are exact sums that are rounded once.
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.float8_e4m3fn: 0.08, torch.float8_e5m2: 0.15}
    rtol = tolerance.get(mine.dtype, 1e-6)
    assert mine.dtype == expected.dtype
    torch.testing.assert_close(mine.to(wide), expected.to(wide), rtol=rtol, atol=0, msg=lambda m: f"{what}: {m}")


def all_forms(rank, size, dtype, op):
    """all_reduce, reduce, reduce_scatter of one type and operation."""
    columns = list(zip(*(values_of(each, dtype) for each in range(size))))
    expected = expected_of(op, columns, dtype)
    mine = tensor_of(values_of(rank, dtype), dtype)
    reduce_op = getattr(ReduceOp, op)

    tensor = mine.clone()
    dist.all_reduce(tensor, reduce_op)
    check_equal(tensor, expected, f"all_reduce {op} {dtype}")

    strided = torch.stack([mine, mine], dim=1)[:, 0]
    work = dist.all_reduce(strided, reduce_op, async_op=True)
    work.wait()
    check_equal(strided, expected, f"all_reduce {op} {dtype}, strided")

    tensor = mine.clone()
    dist.reduce(tensor, size - 1, reduce_op)
    if rank == size - 1:
        check_equal(tensor, expected, f"reduce {op} {dtype}")

    per_rank = NUMEL // size
    output = torch.empty(per_rank, dtype=dtype)
    dist.reduce_scatter_tensor(output, mine[: per_rank * size].clone(), reduce_op)
    check_equal(output, expected[rank * per_rank : (rank + 1) * per_rank], f"reduce_scatter_tensor {op} {dtype}")

    counts = [per_rank + each for each in range(size)]
    counts[-1] = NUMEL - sum(counts[:-1])
    output = torch.empty(counts[rank], dtype=dtype)
    dist.reduce_scatter(output, [part.clone() for part in mine.split(counts)], reduce_op)
    check_equal(output, expected.split(counts)[rank], f"reduce_scatter {op} {dtype}, uneven")


def all_operations(rank, size, dtypes, ops):
    for dtype in dtypes:
        for op in ops:
            all_forms(rank, size, dtype, op)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "dtypes, ops",
    [
        (INTS, ("SUM", "PRODUCT", "MIN", "MAX", "AVG", "BAND", "BOR", "BXOR")),
        (FLOATS + EIGHT_BITS, ("SUM", "PRODUCT", "MIN", "MAX", "AVG")),
        (COMPLEX, ("SUM", "AVG")),
    ],
    ids=["integers", "floats", "complex"],
)
def test_types_and_operations(size, dtypes, ops):
    run(all_operations, size, arguments=(dtypes, ops))


def bools(rank, size):
    for op, combine in (("SUM", any), ("MAX", any), ("BOR", any), ("PRODUCT", all), ("MIN", all), ("BAND", all),
                        ("BXOR", lambda column: sum(column) % 2 == 1)):
        columns = list(zip(*(values_of(each, torch.bool) for each in range(size))))
        tensor = torch.tensor(values_of(rank, torch.bool))
        dist.all_reduce(tensor, getattr(ReduceOp, op))
        assert tensor.tolist() == [combine(column) for column in columns], op


@pytest.mark.parametrize("size", SIZES)
def test_bools(size):
    run(bools, size)


def premultiplied(rank, size):
    for dtype in FLOATS:
        for factor in (0.5, torch.tensor(0.25)):
            tensor = torch.arange(NUMEL).to(dtype)
            dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
            check_equal(tensor, (torch.arange(NUMEL) * float(factor) * size).to(dtype), f"PREMUL_SUM {dtype}")
    output = torch.empty(3)
    dist.reduce_scatter_tensor(output, torch.arange(3.0 * size), dist._make_nccl_premul_sum(1 / size))
    torch.testing.assert_close(output, torch.arange(3.0) + 3 * rank)


@pytest.mark.parametrize("size", SIZES)
def test_premultiplied_sum(size):
    run(premultiplied, size)


def wrap_around(rank, size):
    tensor = torch.tensor([32767, -32768, 200], dtype=torch.int16)
    dist.all_reduce(tensor)
    expected = [((value * size + 2**15) % 2**16) - 2**15 for value in (32767, -32768, 200)]
    assert tensor.tolist() == expected


def test_int16_wraps_around_as_tensors_do():
    run(wrap_around, 3)


def refusals(rank, size):
    for tensor, op, text in (
        (torch.ones(3), ReduceOp.BAND, "BAND is of integers"),
        (torch.ones(3, dtype=torch.complex64), ReduceOp.MAX, "support"),
        *((torch.full((3,), 4).to(dtype), dist._make_nccl_premul_sum(0.5), "the factor would become an integer")
          for dtype in INTS),
        (torch.ones(3, dtype=torch.bool), dist._make_nccl_premul_sum(0.5), "not defined; convert the tensor"),
        (torch.ones(3).to(torch.float8_e4m3fnuz), ReduceOp.SUM, "convert the tensor"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=text):
            dist.all_reduce(tensor, op)
    # The group is none the worse for it.
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [size] * 3


def test_what_cannot_be_reduced_is_refused_with_the_reason():
    run(refusals, 2)


def against_gloo(rank, size):
    gloo = dist.new_group(backend="gloo")
    for numel in (0, 1, 1000, 300_001):
        for dtype in (torch.float32, torch.float64, torch.int64):
            for op in (ReduceOp.SUM, ReduceOp.MIN, ReduceOp.PRODUCT):
                mine = (torch.rand(numel) * 8).to(dtype)
                theirs = mine.to("cpu", copy=True)
                dist.all_reduce(mine, op)
                dist.all_reduce(theirs, op, group=gloo)
                torch.testing.assert_close(mine.cpu(), theirs)


@pytest.mark.parametrize("size", SIZES)
def test_results_are_those_of_gloo(size):
    run(against_gloo, size)
