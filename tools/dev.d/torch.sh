# shellcheck shell=bash
# PyTorch and LightGBM on tutti, in a virtual environment in the build tree. It uses the functions of tools/dev.

# The Python of that environment, with what the tests need and the package of python/, built on the tutti of `dev`.
# Where torch comes from is pip's to know (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS); which one, DEV_TORCH's.
prepare_python() {
  local venv=$PWD/build/venv
  say "install torch, LightGBM and tutti into build/venv"
  if [[ ! -x $venv/bin/python ]]; then python3 -m venv "$venv"; fi
  "$venv/bin/pip" install --quiet "${DEV_TORCH:-torch==2.13.0}" numpy ml_dtypes lightgbm scikit-build-core pytest \
    expecttest psutil >&2
  cmake --install build/dev --prefix build/dev/installed >/dev/null
  CMAKE_PREFIX_PATH=$PWD/build/dev/installed \
    "$venv/bin/pip" install --quiet --no-build-isolation --no-deps --force-reinstall ./python >&2
}

# test_torch [CTEST FLAGS]
test_torch() {
  need_packages build test torch
  build_preset dev
  prepare_python
  local python=$PWD/build/venv/bin/python
  configure_preset dev "-DTUTTI_TORCH_PYTHON=$python" "-DTUTTI_PYTHON=$python"
  test_preset dev -L 'torch|python' "$@"
}
