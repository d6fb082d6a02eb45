"""Ranks that mpirun and torch.multiprocessing.spawn have started. test_examples.py has torchrun."""

import os
import shutil
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from group import free_port

HERE = os.path.abspath(__file__)


def sum_of_ranks(rank, size, port):
    dist.init_process_group("tutti", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    tensor = torch.full((1000,), float(rank))
    dist.all_reduce(tensor)
    half = dist.new_group(list(range(size // 2 + 1)))
    if rank <= size // 2:
        dist.all_reduce(tensor, group=half)
    dist.destroy_process_group()
    total = size * (size - 1) / 2
    assert tensor.eq(total * (size // 2 + 1 if rank <= size // 2 else 1)).all(), tensor


def run(*command, **environment):
    environment = dict(os.environ, TUTTI_CALIBRATION="off", OMP_NUM_THREADS="1", PORT=str(free_port()), **environment)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_spawned_ranks():
    run(sys.executable, HERE, "3")


def test_ranks_of_mpirun():
    mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("there is no mpirun: install openmpi-bin")
    run(mpirun, "--oversubscribe", "-np", "3", sys.executable, HERE, OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        mp.spawn(sum_of_ranks, args=(int(sys.argv[1]), os.environ["PORT"]), nprocs=int(sys.argv[1]))
    else:
        of_mpirun = ("OMPI_COMM_WORLD_RANK", "PMI_RANK"), ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
        rank, size = (int(next(os.environ[name] for name in names if name in os.environ)) for names in of_mpirun)
        sum_of_ranks(rank, size, os.environ["PORT"])
