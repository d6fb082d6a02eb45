"""Fully sharded training (FSDP2) of a small GPT: parameters are gathered when they are needed, gradients scattered.

torchrun --nproc-per-node 2 python/examples/fsdp2_gpt.py [--backend gloo]
"""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import common

options = common.start()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = common.Gpt()
for block in model.blocks:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
losses = []
for step in range(options.steps):
    inputs, targets = common.tokens(step, dist.get_rank())
    loss = common.next_token_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(common.mean_over_ranks(loss))
common.finish(losses)
