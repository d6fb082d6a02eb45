"""Data parallel training of a small CNN.

torchrun --nproc-per-node 2 python/examples/ddp_cnn.py [--backend gloo]
"""

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import common

options = common.start()
model = DistributedDataParallel(common.Cnn())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses = []
for step in range(options.steps):
    pictures, classes = common.images(step, dist.get_rank())
    loss = F.cross_entropy(model(pictures), classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(common.mean_over_ranks(loss))
common.finish(losses)
