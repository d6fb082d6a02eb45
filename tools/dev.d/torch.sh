# shellcheck shell=bash
# PyTorch and LightGBM on tutti, in a virtual environment in the build tree. It uses the functions of tools/dev.

readonly torch_wanted=${DEV_TORCH:-torch==2.13.0}

# The Python of that environment, with what the tests need and the package of python/, built on the tutti of `dev`.
# Where torch comes from is pip's to know (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS); which one, DEV_TORCH's.
prepare_python() {
  local venv=$PWD/build/venv
  say "install torch, LightGBM and tutti into build/venv"
  if [[ ! -x $venv/bin/python ]]; then python3 -m venv "$venv"; fi
  "$venv/bin/pip" install --quiet "$torch_wanted" numpy ml_dtypes lightgbm mypy scikit-build-core pytest \
    expecttest psutil >&2
  cmake --install build/dev --prefix build/dev/installed >/dev/null
  CMAKE_PREFIX_PATH=$PWD/build/dev/installed \
    "$venv/bin/pip" install --quiet --no-build-isolation --no-deps --force-reinstall ./python >&2
}

# The header of NCCL, whose layouts nccl_layout compares with tutti's: in a folder of its own, since torch may have
# brought another NCCL along.
prepare_nccl_header() {
  local folder=$PWD/build/nccl
  if [[ -f $folder/nvidia/nccl/include/nccl.h ]]; then return; fi
  say "install NCCL's header into build/nccl"
  "$PWD/build/venv/bin/pip" install --quiet --no-deps --target "$folder" nvidia-nccl-cu13==2.28.9 >&2
}

# Builds `dev` for the Python and the header above.
prepare_torch() {
  local python=$PWD/build/venv/bin/python
  build_preset dev
  prepare_python
  prepare_nccl_header
  build_preset dev "-DTUTTI_TORCH_PYTHON=$python" "-DTUTTI_PYTHON=$python" \
    "-DTUTTI_NCCL_INCLUDE_DIR=$PWD/build/nccl/nvidia/nccl/include"
}

# test_torch [CTEST FLAGS]
test_torch() {
  need_packages build test torch
  prepare_torch
  test_preset dev -L 'torch|python' "$@"
  test_preset dev -R '^nccl_(layout|exports)$'
}
