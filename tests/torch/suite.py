"""Runs PyTorch's own suite (run_dist2.py) on tutti. Arguments: the identity (gloo or mpi), the number of ranks.

Skips, and says why, where torch or the package tutti_torch is missing.
"""

import os
import subprocess
import sys
import tempfile

import needs

# They compare the backend's name with the identity's, or with "custom", which c10d calls every third party.
BY_NAME = ("test_get_backend", "test_ddp_logging_data_cpu")
# With two ranks these ask for a rank 2 that there is not. For the identity gloo the suite skips them itself.
OF_THREE_RANKS = tuple(
    f"test_{name}_group{which}"
    for name, forms in {
        "all_gather": ("",), "all_to_all": ("",), "all_to_all_single_equal_split": ("",),
        "all_to_all_single_unequal_split": ("",), "barrier": ("",), "broadcast": ("",), "gather": ("",),
        "scatter": ("",),
        "all_reduce": ("_max", "_min", "_product", "_sum"), "reduce": ("_max", "_min", "_product", "_sum"),
    }.items()
    for which in forms
)


def main(identity, nranks):
    needs.exit_if_missing()
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("barrier", "test_dir"):
            os.mkdir(os.path.join(folder, name))
        environment = dict(
            os.environ, BACKEND=identity, REAL="tutti", BACKEND_MODULE="tutti_torch", WORLD_SIZE=nranks,
            TEMP_DIR=folder, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", TUTTI_CALIBRATION="off",
        )
        tests = "run_dist2.py::TestDistBackendWithSpawn::"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "run_dist2.py"]
        left_out = BY_NAME + (OF_THREE_RANKS if (identity, nranks) == ("mpi", "2") else ())
        for name in left_out:
            command += ["--deselect", tests + name]
        return subprocess.run(command, cwd=here, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
