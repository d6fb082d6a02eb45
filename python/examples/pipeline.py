"""A model in two stages on two ranks; micro-batches flow forward, their gradients back, by isend and irecv.

torchrun --nproc-per-node 2 python/examples/pipeline.py [--backend gloo]
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import common

MICRO_BATCHES, WIDTH = 4, 16 * 4 * 4
options = common.start()
rank, other = dist.get_rank(), 1 - dist.get_rank()
assert dist.get_world_size() == 2, "this pipeline has two stages"
whole = common.Cnn()
stage = nn.Sequential(whole.features, nn.Flatten()) if rank == 0 else whole.classify
optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)


def first_stage(pictures):
    sends, kept = [], []
    for micro, part in enumerate(pictures.chunk(MICRO_BATCHES)):
        activation = stage(part)
        kept.append(activation)
        sends.append(dist.isend(activation.detach(), other, tag=micro))
    gradients = [torch.empty_like(activation) for activation in kept]
    receives = [dist.irecv(gradient, other, tag=micro) for micro, gradient in enumerate(gradients)]
    for activation, gradient, receive in zip(kept, gradients, receives):
        receive.wait()
        activation.backward(gradient)
    for send in sends:
        send.wait()
    return torch.zeros(())


def second_stage(classes):
    parts = classes.chunk(MICRO_BATCHES)
    activations = [torch.empty(len(part), WIDTH) for part in parts]
    receives = [dist.irecv(activation, other, tag=micro) for micro, activation in enumerate(activations)]
    sends, total = [], torch.zeros(())
    for micro, (activation, part, receive) in enumerate(zip(activations, parts, receives)):
        receive.wait()
        loss = F.cross_entropy(stage(activation.requires_grad_()), part) / MICRO_BATCHES
        loss.backward()
        total += loss.detach()
        sends.append(dist.isend(activation.grad, other, tag=micro))
    for send in sends:
        send.wait()
    return total


losses = []
for step in range(options.steps):
    pictures, classes = common.images(step, 0)
    optimizer.zero_grad()
    loss = first_stage(pictures) if rank == 0 else second_stage(classes)
    optimizer.step()
    dist.broadcast(loss, src=1)
    losses.append(loss.item())
common.finish(losses)
