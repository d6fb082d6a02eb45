"""Runs PyTorch's own suite (run_dist2.py) on tutti, as gloo and then as mpi. Argument: the number of ranks.

The identity decides which tests run. So many at least must pass, since a test may skip itself. Skips, and says why,
where torch or the package tutti_torch is missing.
"""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import needs

# By the number of ranks: how many tests pass with each identity, and how many different ones that are.
MUST_PASS = {2: {"gloo": 88, "mpi": 73, "different": 97}, 3: {"gloo": 88, "mpi": 89, "different": 113},
             4: {"gloo": 91, "mpi": 89, "different": 116}}

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


def passed(identity, nranks):
    """Whether pytest found nothing wrong, and the names of the tests that passed."""
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("barrier", "test_dir"):
            os.mkdir(os.path.join(folder, name))
        environment = dict(
            os.environ, BACKEND=identity, REAL="tutti", BACKEND_MODULE="tutti_torch", WORLD_SIZE=str(nranks),
            TEMP_DIR=folder, OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1", TUTTI_CALIBRATION="off",
        )
        tests = "run_dist2.py::TestDistBackendWithSpawn::"
        results = os.path.join(folder, "results.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore",
                   f"--junitxml={results}", "run_dist2.py"]
        left_out = BY_NAME + (OF_THREE_RANKS if (identity, nranks) == ("mpi", 2) else ())
        for name in left_out:
            command += ["--deselect", tests + name]
        status = subprocess.run(command, cwd=here, env=environment).returncode
        cases = xml.etree.ElementTree.parse(results).iter("testcase")
        names = {case.get("name") for case in cases
                 if not any(child.tag in ("skipped", "failure", "error") for child in case)}
        return status == 0, names


def main(nranks):
    needs.exit_if_missing()
    wanted, different, is_good = MUST_PASS[nranks], set(), True
    for identity in ("gloo", "mpi"):
        has_passed, names = passed(identity, nranks)
        different |= names
        print(f"as {identity} {len(names)} tests passed; at least {wanted[identity]} must", flush=True)
        is_good = is_good and has_passed and len(names) >= wanted[identity]
    print(f"{len(different)} different tests; at least {wanted['different']} must")
    return 0 if is_good and len(different) >= wanted["different"] else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
