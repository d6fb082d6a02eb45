# shellcheck shell=bash
# `tools/dev gpu`: tutti and what it needs in one folder, to be run here or carried to a machine with a GPU.

readonly gpu_folder=build/gpu

# The libraries of a program that other machines may not have: all but the C and C++ libraries'.
libraries_of() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(ld-linux|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)[-.]' || true
}

# What the checks of frameworks build and run there, besides: the sources of the Python package and its tests, and
# what find_package(tutti) finds.
gather_for_frameworks() {
  cmake --install build/release --prefix "$gpu_folder/tutti" >/dev/null
  mkdir -p "$gpu_folder/source/cmake" "$gpu_folder/source/tests"
  cp -r python "$gpu_folder/source/"
  cp -r tests/torch "$gpu_folder/source/tests/"
  cp cmake/TuttiCompilerCache.cmake "$gpu_folder/source/cmake/"
  cp tools/dev.d/gpu_frameworks.sh tools/dev.d/gpu_frameworks/*.py "$gpu_folder/"
}

command_gpu() {
  local checks=gpu_checks.sh library report
  local tests=(test_cuda_calls test_cuda_interpreter test_cuda_probe) programs
  if [[ ${1:-} == --frameworks ]]; then
    checks=gpu_frameworks.sh
    shift
  fi
  report=${1:-$gpu_folder/report.txt}
  need_packages build
  build_preset release -DTUTTI_CUDA=ON
  configure_preset release -DTUTTI_CUDA=ON -DBUILD_TESTING=ON
  cmake --build --preset release --parallel "$jobs" --target "${tests[@]}" >&2
  rm -rf "$gpu_folder"
  mkdir -p "$gpu_folder/bin" "$gpu_folder/lib"
  programs=(build/release/tools/tutti "${tests[@]/#/build/release/tests/cuda/}")
  cp "${programs[@]}" "$gpu_folder/bin/"
  cp build/release/libtutti.so.0 build/release/libtutti_cuda.so "$gpu_folder/lib/"
  for library in $(libraries_of "${programs[@]}" build/release/libtutti{.so.0,_cuda.so}); do
    [[ $library == */libtutti.so* ]] || cp "$library" "$gpu_folder/lib/"
  done
  cp tools/dev.d/gpu_checks.sh tools/dev.d/gpu_report.sh "$gpu_folder/"
  gather_for_frameworks
  say "$(du -sh "$gpu_folder" | cut -f1) in $gpu_folder; elsewhere: $gpu_folder/$checks REPORT"
  "$gpu_folder/$checks" "$report"
}
