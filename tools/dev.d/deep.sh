# shellcheck shell=bash
# The deep parts of the tests, one function each. They use the functions of tools/dev.
readonly deep_parts=(torch tsan clang asan rdma fuzz aarch64 install wheel)

deep_asan() {
  build_preset asan
  test_preset asan
}

# ThreadSanitizer of older compilers cannot live with much address-space randomization.
deep_tsan() {
  build_preset tsan
  say "test tsan"
  local without_randomization=()
  if setarch --addr-no-randomize true 2>/dev/null; then without_randomization=(setarch --addr-no-randomize); fi
  "${without_randomization[@]}" ctest --preset tsan --parallel "$jobs"
}

deep_clang() {
  build_preset tidy
  test_preset tidy
}

deep_fuzz() {
  build_preset fuzz -DTUTTI_FUZZ_SECONDS="${DEV_FUZZ_SECONDS:-60}"
  test_preset fuzz
}

deep_aarch64() {
  build_preset aarch64
  test_preset aarch64
}

# Only what is installed is built: its tests look at nothing else.
deep_install() {
  configure_preset minimal
  say "build minimal: what is installed"
  cmake --build --preset minimal --parallel "$jobs" --target tutti tutti_nccl tutti_tool >&2
  test_preset minimal -R '^install'
}

# The Python package as other machines get it, for manylinux_2_28: nothing of its libraries' dependencies shows, and it
# runs on its own, also on an older system.
deep_wheel() {
  local folder=$PWD/build/wheel python=$PWD/build/wheel/venv/bin/python
  rm -rf "$folder" build/wheel-build
  python3 -m venv "$folder/venv"
  say "build the wheel"
  "$python" -m pip install --quiet "$torch_wanted" scikit-build-core numpy auditwheel wheel ziglang==0.17.1 >&2
  PYTHON=$python cmake/manylinux/prepare "$folder/manylinux" >&2
  "$python" -m pip wheel --quiet --no-build-isolation --no-deps ./python --wheel-dir "$folder" \
    --config-settings cmake.define.CMAKE_TOOLCHAIN_FILE="$folder/manylinux/toolchain.cmake" \
    --config-settings build-dir=../build/wheel-build >&2  # not where others configured it
  "$python" -m wheel tags --remove --platform-tag "manylinux_2_28_$(uname -m)" "$folder"/tutti-*.whl >&2
  say "look at it, and run ranks on it"
  "$python" tests/python/wheel_symbols.py "$folder"/tutti-*.whl tutti/tutti tutti_torch/_C
  "$python" tests/python/wheel_manylinux.py "$folder"/tutti-*.whl
  tests/python/wheel-old-glibc "$folder"/tutti-*.whl || [[ $? -eq 77 ]]  # where that is there
  "$python" -m pip install --quiet --no-index --no-deps "$folder"/tutti-*.whl >&2
  (cd "$folder" && venv/bin/tutti run -n 3 --no-prefix -- "$python" -c '
import numpy, tutti
comm = tutti.init()
sums = comm.all_reduce(numpy.full(100_000, comm.rank))
assert (sums == 3).all(), sums')
  (cd "$folder" && venv/bin/torchrun --standalone --nproc-per-node 3 --no-python "$python" -c '
import torch, torch.distributed as dist
dist.init_process_group("tutti")
sums = torch.full((100_000,), dist.get_rank())
dist.all_reduce(sums)
assert sums.eq(3).all(), sums
dist.destroy_process_group()')
}

# PyTorch, LightGBM and numpy on tutti, and what NCCL's own header says, in a quarter of an hour: of PyTorch's suite,
# which takes as long with all numbers of ranks, another one each time.
deep_torch() {
  local forms=(2 3 4)
  local turn=$(($(date -u +%s) / 86400 / ${#deep_parts[@]}))  # .ci/run makes each part once in so many days
  prepare_torch
  test_preset dev -L 'torch|python' -LE suite
  test_preset dev -R "^(torch_suite_${forms[turn % ${#forms[@]}]}|nccl_layout|nccl_exports)\$"
}

# On real RDMA, in a guest whose kernel is built once and kept outside the tree.
deep_rdma() {
  build_preset dev
  say "make the guest"
  tests/rdma/guest-run --setup
  ctest --preset dev -L rdma --no-tests=error
}
