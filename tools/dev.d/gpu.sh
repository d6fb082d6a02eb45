# shellcheck shell=bash
# `tools/dev gpu`: tutti and what it needs in one folder, to be run here or carried to a machine with a GPU.

readonly gpu_folder=build/gpu

# The libraries of a program that other machines may not have: all but the C and C++ libraries'.
libraries_of() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(ld-linux|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)[-.]' || true
}

command_gpu() {
  local report=${1:-$gpu_folder/report.txt} library
  need_packages build
  build_preset release -DTUTTI_CUDA=ON
  rm -rf "$gpu_folder"
  mkdir -p "$gpu_folder/bin" "$gpu_folder/lib"
  cp build/release/tools/tutti "$gpu_folder/bin/"
  cp build/release/libtutti.so.0 build/release/libtutti_cuda.so "$gpu_folder/lib/"
  for library in $(libraries_of build/release/tools/tutti build/release/libtutti{.so.0,_cuda.so}); do
    [[ $library == */libtutti.so* ]] || cp "$library" "$gpu_folder/lib/"
  done
  cp tools/dev.d/gpu_checks.sh "$gpu_folder/"
  say "$(du -sh "$gpu_folder" | cut -f1) in $gpu_folder; elsewhere: $gpu_folder/gpu_checks.sh REPORT"
  "$gpu_folder/gpu_checks.sh" "$report"
}
