# shellcheck shell=bash
# The deep parts of the tests, one function each. They use the functions of tools/dev.
readonly deep_parts=(asan tsan clang fuzz aarch64 install)

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

# Installs, moves the tree, and runs the tool there: nothing may point back into the build.
deep_install() {
  build_preset minimal
  test_preset minimal -R '^install'
  local place
  place=$(mktemp -d)
  cmake --install build/minimal --prefix "$place/first" >&2
  mv "$place/first" "$place/moved"
  "$place/moved/bin/tutti" bench all_reduce --ranks 2 -b 1K -e 64K
  rm -rf "$place"
}
