"""A rank is killed in the middle of training. The others hear of it at once, torchrun starts all again, and training
goes on from the last checkpoint.

torchrun --standalone --nproc-per-node 2 --max-restarts 1 --monitor-interval 1.5 \\
    python/examples/elastic.py --folder /tmp [--backend gloo]

torchrun ends the others as soon as it sees a dead rank: the interval gives them the time to say what they heard.
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

import common

options = common.start(folder="", kill=4)  # --kill: the step at which rank 1 dies; -1: it does not
checkpoint = os.path.join(options.folder, "checkpoint.pt")
is_first_run = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) == 0
model = DistributedDataParallel(common.Cnn())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses = []
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    losses = saved["losses"]

started = time.monotonic()
try:
    for step in range(len(losses), options.steps):
        if step == options.kill and is_first_run and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        pictures, classes = common.images(step, dist.get_rank())
        started = time.monotonic()
        loss = F.cross_entropy(model(pictures), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(common.mean_over_ranks(loss))
        if dist.get_rank() == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}
            torch.save(state, checkpoint + ".part")
            os.rename(checkpoint + ".part", checkpoint)
except RuntimeError as error:  # what DistBackendError is
    print(f"rank {dist.get_rank()} heard after {time.monotonic() - started:.2f} s: {error}", flush=True)
    sys.exit(1)
common.finish(losses)
