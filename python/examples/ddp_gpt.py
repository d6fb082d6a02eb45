"""Data parallel training of a small GPT, in several buckets, with gradients accumulated over two batches.

torchrun --nproc-per-node 2 python/examples/ddp_gpt.py [--backend gloo]
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import common

options = common.start()
model = DistributedDataParallel(common.Gpt(), bucket_cap_mb=0.1, gradient_as_bucket_view=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
losses = []
for step in range(options.steps):
    optimizer.zero_grad()
    with model.no_sync():
        inputs, targets = common.tokens(2 * step, dist.get_rank())
        common.next_token_loss(model(inputs), targets).backward()
    inputs, targets = common.tokens(2 * step + 1, dist.get_rank())
    loss = common.next_token_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    losses.append(common.mean_over_ranks(loss))
common.finish(losses)
