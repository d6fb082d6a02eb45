"""The examples train as well on tutti as on gloo: their losses are equal, but for what chance decides."""

import json
import os
import re
import subprocess
import sys

import pytest

LIMIT_S = 60  # of an example, on two cores
# What torch 2.13's gloo may end with after all is done and said: its threads let go of the last tensors, for which they
# want Python's lock, and where Python ends meanwhile that ends them in the middle of a destructor.
END_OF_GLOO = "terminate called without an active exception"
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python", "examples")


def torchrun(name, nranks, *flags, of_torchrun=(), limit_s=LIMIT_S):
    environment = dict(os.environ, OMP_NUM_THREADS="1", TUTTI_CALIBRATION="off")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={nranks}",
               *of_torchrun, os.path.join(EXAMPLES, name), *flags]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit_s)
    is_end_of_gloo = "gloo" in flags and END_OF_GLOO in done.stderr and "losses" in done.stdout
    assert done.returncode == 0 or is_end_of_gloo, done.stdout + done.stderr
    return done.stdout


def example(name, nranks, backend, *flags, of_torchrun=()):
    return torchrun(name, nranks, "--backend", backend, *flags, of_torchrun=of_torchrun)


def losses_of(output):
    return json.loads(re.search(r"^losses (.*)$", output, re.MULTILINE).group(1))


@pytest.mark.parametrize(
    "name, nranks, flags",
    [
        ("ddp_cnn.py", 2, ()),
        ("ddp_gpt.py", 2, ()),
        ("average_gradients.py", 3, ()),
        ("fsdp2_gpt.py", 2, ()),
        ("pipeline.py", 2, ()),
        ("mixed_precision.py", 2, ("--dtype", "bfloat16")),
        ("mixed_precision.py", 2, ("--dtype", "float16")),
    ],
)
def test_losses_are_those_of_gloo(name, nranks, flags):
    mine = losses_of(example(name, nranks, "tutti", *flags))
    theirs = losses_of(example(name, nranks, "gloo", *flags))
    assert len(mine) >= 8 and mine[-1] < mine[0]
    assert mine == pytest.approx(theirs, rel=1e-5)


def test_ranks_of_the_gpu_and_the_cpu_learn_together():
    output = example("cpu_and_gpu.py", 2, "tutti")
    alike = losses_of(example("average_gradients.py", 2, "gloo"))  # all on the CPU
    is_on_cpu = "torch sees no GPU" in output
    assert losses_of(output) == pytest.approx(alike, rel=1e-5 if is_on_cpu else 1e-2)
    if is_on_cpu:
        pytest.skip("torch sees no GPU: all ranks were on the CPU, and as good as gloo's")


@pytest.mark.parametrize("backend", ("tutti", "gloo"))
def test_the_parameter_server_finds_the_truth(backend):
    """In which order gradients come is chance: what is learned is not."""
    assert losses_of(example("parameter_server.py", 3, backend))[0] < 0.02


def test_training_survives_a_killed_rank(tmp_path):
    for name in ("tutti", "gloo"):
        os.mkdir(tmp_path / name)
    output = example("elastic.py", 2, "tutti", "--folder", str(tmp_path / "tutti"),
                     of_torchrun=("--max-restarts=1", "--monitor-interval=1.5"))
    said = re.search(r"rank 0 heard after [0-9.]+ s: (.*)", output)
    assert said and "rank 1" in said.group(1) and "Timed out" not in said.group(1), output
    undisturbed = example("elastic.py", 2, "gloo", "--folder", str(tmp_path / "gloo"), "--kill", "-1")
    assert losses_of(output) == pytest.approx(losses_of(undisturbed), rel=1e-5)
