"""The programs of docs/pytorch.md do what the page says."""

import pathlib
import re

import pytest

from test_examples import torchrun

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "pytorch.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = FENCE.findall(PAGE.read_text(encoding="utf-8"))
PROGRAMS = [text for language, text in BLOCKS if language == "python"]
TORCH = "import torch, torch.distributed as dist\n"
# What a part of a program needs before it, by what is in it.
BEFORE = {
    "tutti_torch.Options": TORCH,
    "register_buckets": TORCH + """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.init_process_group("tutti")
ddp_model = nn.parallel.DistributedDataParallel(nn.Linear(100, 100))
layer = fully_shard(nn.Linear(100, 100), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
other = torch.ones(5000)
""",
}
AFTER = {
    "tutti_torch.Options": """
tensor = torch.ones(4)
dist.all_reduce(tensor)
assert tensor.eq(dist.get_world_size()).all()
dist.destroy_process_group()
""",
    "register_buckets": """
ddp_model(torch.ones(2, 100)).sum().backward()
layer(torch.ones(2, 100)).sum().backward()
dist.destroy_process_group()
""",
}


def run(tmp_path, program, nranks):
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    return torchrun(str(path), nranks, limit_s=200)


def test_the_first_program_prints_what_the_page_shows(tmp_path):
    command, shown = next(text for language, text in BLOCKS if language == "" and "torchrun" in text).split("\n", 1)
    assert command == "$ torchrun --standalone --nproc-per-node 3 hello.py"
    assert run(tmp_path, PROGRAMS[0], 3) == shown


@pytest.mark.parametrize("what", BEFORE)
def test_a_part_of_a_program_does_what_it_says(tmp_path, what):
    part = next(text for text in PROGRAMS if what in text)
    run(tmp_path, BEFORE[what] + part + AFTER[what], 2)


def test_all_are_run_but_that_of_gpus():
    assert [what in text for text in PROGRAMS for what in BEFORE].count(True) == len(BEFORE)
    assert len(PROGRAMS) == 2 + len(BEFORE) and 'device="cuda"' in PROGRAMS[1]
