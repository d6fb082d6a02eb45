"""Between the calls: callbacks that wait, works that are asked, exceptions, groups that follow each other."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from group import free_port, hear, run, tell

# ---- Callbacks and works


def callbacks_that_wait(rank, size):
    """As PowerSGD's hooks do: each callback waits for the future of a later call, three deep."""

    def reduced(tensor, depth):
        future = dist.all_reduce(tensor, async_op=True).get_future()
        if depth == 0:
            return future
        return future.then(lambda _: reduced(torch.ones(10), depth - 1).wait())

    for _ in range(20):
        tensors = [torch.ones(10) for _ in range(3)]
        reduced(tensors[0], 3).wait()
        assert tensors[0].eq(size).all()

    def wait_with_limit(_):
        work = dist.all_reduce(tensors[2], async_op=True)
        work.wait(timeout=timedelta(seconds=20))

    dist.all_reduce(tensors[1], async_op=True).get_future().then(wait_with_limit).wait()
    assert tensors[1].eq(size).all() and tensors[2].eq(size).all()


def test_callbacks_may_wait_for_later_calls():
    run(callbacks_that_wait, 2, limit_s=60)


def asked_while_finished(rank, size):
    own = torch.ones(16)
    for _ in range(500):
        gathered = torch.empty(16 * size)
        work = dist.all_gather_into_tensor(gathered, own, async_op=True)
        future = work.get_future()
        while not work.is_completed():
            pass
        assert gathered.eq(1).all() and future.wait()


def test_a_work_may_be_asked_while_the_watcher_finishes_it():
    run(asked_while_finished, 2, limit_s=90)


# ---- Coalesced calls


def left_open(rank, size):
    """Below torch's own bookkeeping of what is coalesced, which an exception leaves as it is."""
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend._start_coalescing()
    received = torch.empty(3)
    work = dist.irecv(received, (rank + 1) % size)
    try:
        dist.all_gather_into_tensor(torch.empty(7), torch.ones(3), async_op=True)
    except ValueError as error:
        assert "the output has 7" in str(error)
    try:
        backend._end_coalescing()
    except RuntimeError as error:
        assert "without startCoalescing" in str(error)
    else:
        raise AssertionError("calls are still coalesced")
    dist.send(torch.ones(3), (rank - 1) % size)
    work.wait()
    assert received.eq(1).all()


def test_a_refused_call_ends_coalescing():
    run(left_open, 2)


# ---- Ends


def aborted_while_it_waits(rank, size):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    work = dist.all_reduce(torch.ones(3), async_op=True)
    if rank == 1:
        work.wait()
        hear("rank 0 has left")
        return
    leaver = threading.Thread(target=backend.shutdown)
    leaver.start()
    time.sleep(1)
    assert work.is_completed() and leaver.is_alive()
    backend.abort()
    leaver.join(30)
    assert not leaver.is_alive()
    tell("rank 0 has left")


def test_a_shutdown_that_waits_for_others_blocks_no_question_and_can_be_aborted():
    run(aborted_while_it_waits, 2)


THROWS = """
import sys, torch, torch.distributed as dist
rank, port = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("tutti", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
tensor = torch.empty(4)
dist.barrier()
if rank == 1:
    work = dist.irecv(tensor, 0)
    raise KeyError("the program's own")
try:
    dist.recv(tensor, 1)
except dist.DistBackendError as error:
    print("heard:", error)
"""


def test_a_rank_that_ends_by_an_exception_waits_for_nobody():
    environment = dict(os.environ, TUTTI_CALIBRATION="off")
    command = [sys.executable, "-c", THROWS]
    port = str(free_port())
    ranks = [subprocess.Popen([*command, str(rank), port], env=environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) for rank in range(2)]
    try:
        said = [process.communicate(timeout=60) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert ranks[1].returncode == 1 and "the program's own" in said[1][1], said[1]
    assert ranks[0].returncode == 0 and "rank 1" in said[0][0], said[0]


def two_lives(rank, size, path):
    import tutti_torch

    for life in range(2):
        dist.init_process_group("tutti", store=dist.FileStore(path, size), rank=rank, world_size=size,
                                timeout=timedelta(seconds=30))
        if rank == 1:
            time.sleep(0.7)
            pathlib.Path(f"{path}.{life}").touch()
        tutti_torch.monitored_barrier()
        assert os.path.exists(f"{path}.{life}"), "rank 1 had not come yet"
        dist.destroy_process_group()


def test_a_monitored_barrier_believes_nothing_from_an_earlier_life():
    with tempfile.TemporaryDirectory() as folder:
        run(two_lives, 2, backend=None, arguments=(os.path.join(folder, "store"),))
