# shellcheck shell=bash
# What tools/dev needs from Debian (12 or newer) or Ubuntu (24.04 or newer), by purpose.
declare -rA packages_for=(
  [build]="g++ cmake ninja-build ccache pkg-config libfmt-dev libspdlog-dev nlohmann-json3-dev libcli11-dev
           libssl-dev libexpat1-dev libhwloc-dev libhwy-dev libpmix-dev"
  [test]="catch2 python3 openmpi-bin libopenmpi-dev mpich
         slurmctld slurmd slurm-client iproute2 libibverbs-dev liburing-dev"
  [torch]="python3-venv python3-dev"
  [asan]=""
  [tsan]="util-linux"
  [clang]="clang clang-tidy"
  [fuzz]="clang llvm libclang-rt-dev"
  [aarch64]="g++-aarch64-linux-gnu qemu-user libc6-dev:arm64 libstdc++6:arm64 libfmt-dev:arm64 libspdlog-dev:arm64
             libssl-dev:arm64 libexpat1-dev:arm64 libhwloc-dev:arm64 libhwy-dev:arm64"
  [install]=""
  [wheel]="python3-venv python3-dev binutils make bzip2 xz-utils util-linux"
  [rdma]="make perl xz-utils util-linux python3"
)

# Prints those of the given packages that are not installed, one a line.
missing_packages() {
  local package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null) == *installed* ]] || echo "$package"
  done
}

# need_packages PURPOSE...: installs what is missing, or says what to install and ends.
need_packages() {
  local purpose wanted=() missing as_root=()
  for purpose in "$@"; do
    # shellcheck disable=SC2206  # a list of words
    wanted+=(${packages_for[$purpose]-})
  done
  if ! command -v apt-get dpkg-query >/dev/null; then
    echo "tools/dev: this is no Debian or Ubuntu, so nothing is installed; needed are (Debian's names):" \
      "${wanted[*]}" >&2
    return
  fi
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  if [[ ${#missing[@]} -eq 0 ]]; then return; fi

  if [[ $(id -u) -ne 0 ]]; then
    if ! sudo -n true 2>/dev/null; then
      list_missing "${missing[@]}"
      exit 1
    fi
    as_root=(sudo -n)
  fi
  say "install ${missing[*]}"
  install_packages "${missing[@]}" </dev/null >&2
}

list_missing() {
  echo "tools/dev: these packages are missing, and installing them needs root:" >&2
  printf '  %s\n' "$@" >&2
  echo "Install them with" >&2
  if [[ "$*" == *:arm64* ]]; then echo "  sudo dpkg --add-architecture arm64" >&2; fi
  echo "  sudo apt-get update && sudo apt-get install --no-install-recommends $*" >&2
}

# Uses as_root of need_packages.
install_packages() {
  if [[ "$*" == *:arm64* ]]; then "${as_root[@]}" dpkg --add-architecture arm64; fi
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}
