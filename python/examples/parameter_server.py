"""A parameter server: rank 0 has the model, the others compute gradients, each at its own pace.

The server takes the next gradient from whichever worker sends one, and answers that worker with the new parameters.

torchrun --nproc-per-node 3 python/examples/parameter_server.py [--backend gloo]
"""

import time

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import common

options = common.start(steps=80)
rank, size = dist.get_rank(), dist.get_world_size()
model = torch.nn.Linear(8, 1)
truth = torch.linspace(-1, 1, 8)
numel = sum(parameter.numel() for parameter in model.parameters())


def serve():
    parameters = parameters_to_vector(model.parameters()).detach()
    for _ in range((size - 1) * options.steps):
        gradient = torch.empty(numel)
        worker = dist.recv(gradient)
        parameters -= 0.05 * gradient
        dist.send(parameters, worker)
    vector_to_parameters(parameters, model.parameters())


def work():
    torch.manual_seed(rank)
    for _ in range(options.steps):
        inputs = torch.randn(64, 8)
        loss = torch.nn.functional.mse_loss(model(inputs)[:, 0], inputs @ truth)
        gradient = parameters_to_vector(torch.autograd.grad(loss, model.parameters()))
        time.sleep(0.0005 * rank)  # no two workers are equally fast
        dist.send(gradient, 0)
        parameters = torch.empty(numel)
        dist.recv(parameters, 0)
        vector_to_parameters(parameters, model.parameters())


serve() if rank == 0 else work()
dist.barrier()
error = (model.weight[0].detach() - truth).abs().max()
common.finish([error])
