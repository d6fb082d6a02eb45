"""Data parallel training of ranks that are not alike: even ones compute on cuda:0, odd ones on the CPU. Each call has
tensors of both.

torchrun --nproc-per-node 2 python/examples/cpu_and_gpu.py
"""

import os

import torch
import torch.distributed as dist
from torch.nn import functional as F

import common

has_gpu = torch.cuda.is_available()
there = torch.device("cuda:0" if has_gpu and int(os.environ["RANK"]) % 2 == 0 else "cpu")
if there.type == "cuda":
    torch.cuda.set_device(there)  # before the group: it tells tutti where the rank is
options = common.start()
if not has_gpu and dist.get_rank() == 0:
    print("torch sees no GPU: all ranks are on the CPU", flush=True)
model = common.Cnn().to(there)
for parameter in model.parameters():
    dist.broadcast(parameter.data, src=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(options.steps):
    pictures, classes = common.images(step, dist.get_rank())
    loss = F.cross_entropy(model(pictures.to(there)), classes.to(there))
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    losses.append(common.mean_over_ranks(loss))
common.finish(losses)
