"""What the examples share: the command line, the process group, small models, and how losses are reported."""

import argparse
import json

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def start(**more):
    """Joins the group that torchrun has started. `more`: further flags of the example and their defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--steps", type=int, default=more.pop("steps", 12))
    for name, default in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(options.backend)
    torch.manual_seed(0)  # the same model on all ranks
    return options


def finish(losses=()):
    """Prints the losses of rank 0 for whoever compares them, and leaves the group."""
    if dist.get_rank() == 0:
        print("losses", json.dumps([float(loss) for loss in losses]), flush=True)
    dist.destroy_process_group()


def mean_over_ranks(loss):
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


class Cnn(nn.Module):
    """For images of 1 x 16 x 16 and ten classes."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.classify = nn.Linear(16 * 4 * 4, 10)

    def forward(self, images):
        return self.classify(self.features(images).flatten(1))


def images(step, rank, batch=32):
    """A batch that can be learned: the class is where the image is bright. Another one for each step and rank."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    classes = torch.randint(0, 10, (batch,), generator=generator)
    pictures = torch.randn(batch, 1, 16, 16, generator=generator) * 0.1
    pictures[torch.arange(batch), 0, classes] += 4
    return pictures, classes


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.mix(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, words=64, width=64, layers=2, heads=4, length=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def tokens(step, rank, batch=8, length=32, words=64):
    """Sequences that count up in strides, to be continued."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    begin = torch.randint(0, words, (batch, 1), generator=generator)
    stride = torch.randint(1, 4, (batch, 1), generator=generator)
    sequence = (begin + stride * torch.arange(length + 1)) % words
    return sequence[:, :-1], sequence[:, 1:]


def next_token_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
