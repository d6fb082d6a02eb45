#!/usr/bin/env bash
# Checks PyTorch, NCCL's programs and CuPy on tutti, on this machine's one GPU, with what `tools/dev gpu` has put beside
# this script. Wants a python3 with torch for CUDA 13, CMake and a compiler, and nothing from a network; what is missing
# is named. At most nine minutes, one report, which ends with that of gpu_checks.sh's fastest part.
#   gpu_frameworks.sh [REPORT]      the report's file (gpu_report.txt)
# NCCL_TESTS: the folder of nccl-tests' programs, built with MPI (those in PATH).
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
report=${1:-gpu_report.txt}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PYTHONPATH=$site PYTHONDONTWRITEBYTECODE=1
export TUTTI_CALIBRATION=off OMP_NUM_THREADS=1 PYTORCH_NVML_BASED_CUDA_CHECK=1
nccl=$here/tutti/lib/tutti/nccl/libnccl.so.2
[[ -e $nccl ]] || nccl=$(echo "$here"/tutti/lib/*/tutti/nccl/libnccl.so.2)
end=$((SECONDS + 520))
# shellcheck source=tools/dev.d/gpu_report.sh
source "$here/gpu_report.sh"

has_module() { python3 -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }
missing() {
  say "not there: $*"
}

begin_report "frameworks on tutti on a GPU"
say "$(python3 -c 'import torch as t; print("torch", t.__version__, t.version.cuda, t.cuda.nccl.version())' 2>&1)"

say ""
say "PyTorch's backend \"tutti\""
check 300 "the package is built against this torch" \
  env CMAKE_PREFIX_PATH="$here/tutti" python3 -m pip install --quiet --no-index --no-deps --no-build-isolation \
  --target "$site" "$here/source/python"
if has_module pytest; then
  for file in device reductions lists; do
    check 120 "tests/torch/test_$file.py" env DEVICE=cuda:0 \
      python3 -m pytest -q -p no:cacheprovider "$here/source/tests/torch/test_$file.py"
  done
  check 120 "ranks on cuda:0 and on the CPU learn together (python/examples/cpu_and_gpu.py)" \
    python3 -m pytest -q -rs -p no:cacheprovider "$here/source/tests/torch/test_examples.py" -k the_gpu_and_the_cpu
else
  missing pytest
fi
for ranks in 2 4; do
  check 60 "DDP on cuda:0, $ranks ranks: losses of one rank" python3 "$here/torch_on_gpu.py" tutti $ranks
done

say ""
say "PyTorch's ProcessGroupNCCL on tutti's libnccl.so.2"
for ranks in 2 4; do
  check 90 "collectives, messages and DDP, $ranks processes on one GPU" \
    env LD_PRELOAD="$nccl" python3 "$here/torch_on_gpu.py" nccl $ranks
done

say ""
say "nccl-tests"
program=${NCCL_TESTS:+$NCCL_TESTS/}all_reduce_perf
if command -v "$program" > /dev/null && command -v mpirun > /dev/null; then
  for name in all_reduce all_gather reduce_scatter broadcast reduce alltoall sendrecv gather scatter; do
    for ranks in 2 4; do
      check 60 "${name}_perf, $ranks processes" mpirun --oversubscribe --allow-run-as-root -np $ranks \
        -x LD_PRELOAD="$nccl" -x LD_LIBRARY_PATH -x NCCL_TESTS_DEVICE=0 \
        "${NCCL_TESTS:+$NCCL_TESTS/}${name}_perf" -b 8 -e 8M -f 32 -n 3 -w 1
    done
  done
else
  missing "nccl-tests ($program) or mpirun"
fi

say ""
say "CuPy's nccl module"
if has_module cupy; then
  check 60 "all_reduce, broadcast and messages, 2 processes" env LD_PRELOAD="$nccl" python3 "$here/cupy_nccl.py"
else
  missing cupy
fi
end_report
