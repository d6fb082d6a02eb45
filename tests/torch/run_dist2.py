"""PyTorch's own suite for process groups (torch.testing._internal.distributed.distributed_test) on another backend.

The tests and their decorators see the backend BACKEND ("gloo" or "mpi": which tests run depends on it); the process
groups that they make are of the backend REAL. Environment: BACKEND, REAL, BACKEND_MODULE (what registers REAL),
WORLD_SIZE, TEMP_DIR (with the folders barrier and test_dir), MASTER_ADDR. Run it with pytest; suite.py does all that.
"""

import importlib
import os

REAL = os.environ["REAL"]
os.environ.setdefault("BACKEND", "gloo")
import torch
import torch.distributed as dist

backend_module = importlib.import_module(os.environ["BACKEND_MODULE"])
from torch.testing._internal.distributed import distributed_test as dt

_init_process_group = dist.init_process_group


def init_process_group(*args, **named):
    if named.get("backend") == dt.BACKEND:
        named["backend"] = REAL
    return _init_process_group(*args, **named)


dist.init_process_group = init_process_group
# torch up to 2.13 refuses its own to backends that are not called gloo.
dist.monitored_barrier = getattr(backend_module, "monitored_barrier", dist.monitored_barrier)


class TestDistBackendWithSpawn(dt.TestDistBackend, dt.DistributedTest._DistTestBase):
    """Forked processes, not spawned ones: a test then takes 0.3 s instead of 9."""

    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)
