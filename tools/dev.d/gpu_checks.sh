#!/usr/bin/env bash
# Checks and measures tutti on this machine's GPUs, with what `tools/dev gpu` has put beside this script. Needs nothing
# else but a driver; takes at most eight minutes. What a report is for comes first, since time may run out.
#   gpu_checks.sh [REPORT]      the report's file (gpu_report.txt)
# GPU_CHECKS_MOST is the largest size that is measured (1G), GPU_CHECKS_SECONDS how long all may take (450).
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
report=${1:-gpu_report.txt}
tutti=$here/bin/tutti
driver=${TUTTI_CUDA_DRIVER:-libcuda.so.1}
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export TUTTI_CUDA_MODULE=${TUTTI_CUDA_MODULE:-$here/lib/libtutti_cuda.so}
export GPU_TEST_DRIVER=$driver GPU_TEST_MODULE=$TUTTI_CUDA_MODULE
end=$((SECONDS + ${GPU_CHECKS_SECONDS:-450}))
# shellcheck source=tools/dev.d/gpu_report.sh
source "$here/gpu_report.sh"

most=$(numfmt --from=iec "${GPU_CHECKS_MOST:-1G}")
# A size, but not more than the largest one.
at_most() {
  local bytes
  bytes=$(numfmt --from=iec "$1")
  echo $((bytes < most ? bytes : most))
}
show_tutti() { show "$1" "tutti ${*:2}" "$tutti" "${@:2}"; }
collectives="all_reduce reduce broadcast all_gather reduce_scatter all_to_all gather scatter"

# check_collectives RANKS DEVICE WHERE [--threads]
check_collectives() {
  local collective
  for collective in $collectives; do
    check 60 "$collective, $1 ranks $3, odd sizes" \
      "$tutti" bench "$collective" --ranks "$1" --device "$2" -b 4 -e "$(at_most 3M)" -f 29 -n 1 -w 1 "${@:4}"
  done
  check 60 "barrier, $1 ranks $3" "$tutti" bench barrier --ranks "$1" --device "$2" "${@:4}"
}
# check_types RANKS DEVICE WHERE
check_types() {
  check 120 "all_reduce of every type and operation, $1 ranks $3" \
    "$tutti" bench all_reduce --ranks "$1" --device "$2" -b 1000 -e "$(at_most 200K)" -f 199 -d all -o all -n 1 -w 0
}
# check_memory NAME COMMAND...
check_memory() {
  check 90 "compute-sanitizer memcheck of $1" compute-sanitizer --target-processes all --error-exitcode 9 "${@:2}"
}

begin_report "tutti on a GPU"
if ! missing=$("$tutti" bench barrier --ranks 1 --device cuda:0 -n 1 2>&1 > /dev/null); then
  say "There is no GPU that tutti can use here (${missing#tutti bench barrier: }). These checks need an NVIDIA GPU" \
    "and its driver, for CUDA 12 or newer: carry $here to a machine that has them, and run gpu_checks.sh there."
  exit 1
fi
gpus=$( (nvidia-smi -L || true) 2> /dev/null | grep -c '^GPU ')

say ""
say "Correctness: every element of every result, on processes and threads"
for ranks in 2 4 8; do check_collectives $ranks cuda:0 "of one GPU"; done
check_collectives 8 cuda:0 "of one GPU as threads" --threads
for collective in all_reduce all_gather; do
  check 60 "$collective of $(at_most 64M) bytes, 4 ranks of one GPU" \
    "$tutti" bench "$collective" --ranks 4 --device cuda:0 -b "$(at_most 64M)" -e "$(at_most 64M)" -n 1 -w 0
done
for collective in all_reduce broadcast all_to_all all_to_all_v; do
  check 60 "$collective among GPU and CPU ranks" \
    "$tutti" bench "$collective" --ranks 4 --device cuda:0,cpu -b 4 -e "$(at_most 3M)" -f 29 -n 1 -w 1
done
check 120 "ranks as threads: every collective, type and operation, groups, sends and receives, streams and graphs" \
  "$here/bin/test_cuda_calls"

for ranks in 2 4 8; do
  for threads in "" --threads; do
    on_gpu=(bench all_reduce --ranks $ranks --device cuda:0 ${threads:+"$threads"})
    show_tutti 60 "${on_gpu[@]}" -b "$(at_most 64M)" -e "$most" -c 0
    show_tutti 60 "${on_gpu[@]}" -d bfloat16 -b "$(at_most 64M)" -e "$most" -c 0
    show_tutti 30 "${on_gpu[@]}" -b 8 -e "$(at_most 64K)" -f 8
  done
done
show 30 "what is asked of a GPU" "$here/bin/test_cuda_probe" "$driver" "${GPU_CHECKS_ROUNDS:-200}"
for collective in all_gather reduce_scatter broadcast all_to_all; do
  show_tutti 30 bench "$collective" --ranks 4 --device cuda:0 -b "$(at_most 1M)" -e "$(at_most 256M)" -f 16 -c 0
done
show_tutti 30 bench all_reduce --ranks 4 --device cuda:0,cpu -b 8 -e "$(at_most 16M)" -f 64
for ranks in 2 4 8; do
  ((ranks <= gpus)) && show_tutti 60 bench all_reduce --ranks $ranks --device cuda -b 8 -e "$most" -f 8
done

say ""
say "Correctness: the rest"
check 120 "the interpreter of Programs, 2 to 8 ranks as streams of one GPU" \
  "$here/bin/test_cuda_interpreter" "$driver" "${GPU_CHECKS_CASES:-1000}"
# Ranks with a GPU each, where there are several.
for ranks in 2 4 8; do
  ((ranks <= gpus)) || continue
  check_collectives $ranks cuda "with a GPU each"
  check_types $ranks cuda "with a GPU each"
done
((gpus > 1)) || say "not there: a second GPU, for ranks with a GPU each"
if command -v compute-sanitizer > /dev/null; then
  check_memory "the fused kernels" \
    "$tutti" bench all_reduce --ranks 2 --device cuda:0 -b 4 -e "$(at_most 256K)" -f 61 -n 1 -w 0
  check_memory "the interpreter of Programs" "$here/bin/test_cuda_interpreter" "$driver" 20
else
  say "not there: compute-sanitizer"
fi
for ranks in 2 4 8; do check_types $ranks cuda:0 "of one GPU"; done

end_report
