"""Data parallel training by hand: the gradients are averaged with all_reduce, started while others are on their way.

torchrun --nproc-per-node 2 python/examples/average_gradients.py [--backend gloo]
"""

import torch
import torch.distributed as dist
from torch.nn import functional as F

import common

options = common.start()
model = common.Cnn()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(options.steps):
    pictures, classes = common.images(step, dist.get_rank())
    loss = F.cross_entropy(model(pictures), classes)
    optimizer.zero_grad()
    loss.backward()
    works = [dist.all_reduce(parameter.grad, async_op=True) for parameter in model.parameters()]
    for work in works:
        work.wait()
    for parameter in model.parameters():
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    losses.append(common.mean_over_ranks(loss))
common.finish(losses)
