"""Where the tests' tensors are: on DEVICE. That is the CPU, a GPU (cuda:0), or the device of the tests' CUDA driver
(privateuseone:0), which needs no GPU.
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

import group

HERE = os.path.dirname(os.path.abspath(__file__))
DEVICE = os.environ.get("DEVICE", "cpu")


class Cpu:
    init = staticmethod(lambda: None)


class Cuda:
    """What driver_device.cpp has, on torch's own device."""

    init = staticmethod(lambda: torch.cuda.set_device(DEVICE))
    delay = staticmethod(lambda ms: torch.cuda._sleep(ms * 2_000_000))  # cycles
    hold = staticmethod(lambda: Cuda.delay(3000))
    release = staticmethod(lambda: None)
    copy = staticmethod(lambda source, target: target.copy_(source, non_blocking=True))
    synchronize = staticmethod(torch.cuda.synchronize)
    recorded_on_streams = None


def module():
    """What the device can do besides computing. Of the tests' driver it is built when it is first wanted."""
    if not DEVICE.startswith("privateuseone"):
        return Cuda if DEVICE.startswith("cuda") else Cpu
    from torch.utils import cpp_extension

    built = cpp_extension.load("driver_device", os.path.join(HERE, "driver_device.cpp"), with_cuda=False,
                               extra_include_paths=[os.environ["CUDA_INCLUDE"]], extra_cflags=["-std=c++20", "-O1"],
                               extra_ldflags=["-ldl"])
    if not hasattr(torch, "privateuseone"):
        torch._register_device_module("privateuseone", built)
    return built


def join(rank, size, on_device=True, timeout=60):
    """Makes the group, of ranks on the device and on the CPU. Gives the device's module."""
    import tutti_torch

    found = module()
    if on_device:
        found.init()
    devices = list(dict.fromkeys(["cpu", torch.device(DEVICE).type]))
    dist.Backend.register_backend("both", tutti_torch._create, extended_api=True, devices=devices)
    dist.init_process_group("both", rank=rank, world_size=size, timeout=timedelta(seconds=timeout))
    return found


def _on_device(rank, size, function, arguments):
    join(rank, size)
    torch.set_default_device(DEVICE)
    return function(rank, size, *arguments)


def run(function, size, arguments=()):
    """group.run() with the tensors that `function` makes on the device."""
    module()  # once, before there are ranks
    return group.run(_on_device, size, backend=None, arguments=(function, arguments))
