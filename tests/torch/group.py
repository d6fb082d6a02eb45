"""Process groups for tests: a function runs on every rank, in a process of its own, and what it returns comes back."""

import os
import socket
import tempfile
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

TIMEOUT = timedelta(seconds=60)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def tell(what):
    """Lets the ranks go on that hear() of it. Through the store: no call of the group is needed."""
    dist.distributed_c10d._get_default_store().set(f"test/{what}", "said")


def hear(what):
    dist.distributed_c10d._get_default_store().wait([f"test/{what}"], TIMEOUT)


def _main(rank, function, size, backend, port, folder, timeout, arguments):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size))
    os.environ["TUTTI_CALIBRATION"] = "off"
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    if backend is not None:
        dist.init_process_group(backend, rank=rank, world_size=size, timeout=timeout)
    try:
        result = ("ok", function(rank, size, *arguments))
    except BaseException:
        result = ("failed", traceback.format_exc())
    torch.save(result, os.path.join(folder, f"{rank}.part"))
    os.rename(os.path.join(folder, f"{rank}.part"), os.path.join(folder, str(rank)))
    if result[0] == "ok" and dist.is_initialized():
        dist.destroy_process_group()


def run(function, size=2, backend="tutti", timeout=TIMEOUT, arguments=(), may_die=(), limit_s=100):
    """What `function(rank, size, *arguments)` returned on each rank; None of those that may die and did."""
    with tempfile.TemporaryDirectory() as folder:
        given = (function, size, backend, free_port(), folder, timeout, arguments)
        context = mp.start_processes(_main, given, nprocs=size, start_method="fork", join=False)
        for process in context.processes:
            process.join(limit_s)
        late = [rank for rank, process in enumerate(context.processes) if process.is_alive()]
        for rank in late:
            context.processes[rank].kill()
        assert not late, f"ranks {late} did not end within {limit_s} s"
        results = []
        for rank in range(size):
            path = os.path.join(folder, str(rank))
            if not os.path.exists(path):
                assert rank in may_die, f"rank {rank} died: exit code {context.processes[rank].exitcode}"
                results.append(None)
                continue
            kind, value = torch.load(path, weights_only=False)
            assert kind == "ok", f"rank {rank}:\n{value}"
            results.append(value)
        return results
