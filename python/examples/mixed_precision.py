"""Training in 16 bits with scaled gradients that also travel in 16 bits.

torchrun --nproc-per-node 2 python/examples/mixed_precision.py --dtype bfloat16 [--backend gloo]
torchrun --nproc-per-node 2 python/examples/mixed_precision.py --dtype float16 [--backend gloo]
"""

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import common

options = common.start(dtype="bfloat16")
dtype = getattr(torch, options.dtype)


def in_16_bits(group, bucket):
    """DDP exchanges a bucket by this, instead of in float32. (torch's bf16_compress_hook wants a GPU.)"""
    compressed = bucket.buffer().to(dtype) / dist.get_world_size()
    future = dist.all_reduce(compressed, async_op=True).get_future()
    return future.then(lambda done: bucket.buffer().copy_(done.value()[0]))


model = DistributedDataParallel(common.Cnn())
model.register_comm_hook(None, in_16_bits)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=dtype == torch.float16)
losses = []
for step in range(options.steps):
    pictures, classes = common.images(step, dist.get_rank())
    with torch.autocast("cpu", dtype=dtype):
        loss = F.cross_entropy(model(pictures), classes)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(common.mean_over_ranks(loss.float()))
common.finish(losses)
