#!/usr/bin/env bash
# Checks and measures tutti on this machine's GPUs, with what `tools/dev gpu` has put beside this script. Needs nothing
# else but a driver; takes at most eight minutes.
#   gpu_checks.sh [REPORT]      the report's file (gpu_report.txt)
# GPU_CHECKS_MOST is the largest size that is measured (1G).
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
report=${1:-gpu_report.txt}
most=${GPU_CHECKS_MOST:-1G}
tutti=$here/bin/tutti
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} TUTTI_CUDA_MODULE=$here/lib/libtutti_cuda.so
end=$((SECONDS + 450))
# shellcheck source=tools/dev.d/gpu_report.sh
source "$here/gpu_report.sh"

show_tutti() { show "$1" "tutti ${*:2}" "$tutti" "${@:2}"; }

begin_report "tutti on a GPU"
"$tutti" bench barrier --ranks 1 --device cuda:0 -n 1 > /dev/null || { say "no GPU that tutti can use"; exit 1; }

say ""
say "Correctness: every element of every result, on processes"
collectives="all_reduce reduce broadcast all_gather reduce_scatter all_to_all gather scatter"
for ranks in 2 4 8; do
  for collective in $collectives; do
    check 60 "$collective, $ranks ranks of one GPU, odd sizes" \
      "$tutti" bench "$collective" --ranks $ranks --device cuda:0 -b 4 -e 3M -f 29 -n 1 -w 1
  done
  check 60 "barrier, $ranks ranks of one GPU" "$tutti" bench barrier --ranks $ranks --device cuda:0
  check 120 "all_reduce of every type and operation, $ranks ranks of one GPU" \
    "$tutti" bench all_reduce --ranks $ranks --device cuda:0 -b 1000 -e 200K -f 199 -d all -o all -n 1 -w 0
done
for collective in all_reduce broadcast all_to_all all_to_all_v; do
  check 60 "$collective among GPU and CPU ranks" \
    "$tutti" bench "$collective" --ranks 4 --device cuda:0,cpu -b 4 -e 3M -f 29 -n 1 -w 1
done
check 120 "the interpreter of Programs, 2 to 8 ranks as streams of one GPU" "$here/bin/test_cuda_interpreter"
# Ranks with a GPU each, where there are several.
gpus=$( (nvidia-smi -L || true) 2> /dev/null | grep -c '^GPU ')
for ranks in 2 4 8; do
  ((ranks <= gpus)) || continue
  for collective in $collectives; do
    check 60 "$collective, $ranks ranks with a GPU each, odd sizes" \
      "$tutti" bench "$collective" --ranks $ranks --device cuda -b 4 -e 3M -f 29 -n 1 -w 1
  done
  check 120 "all_reduce of every type and operation, $ranks ranks with a GPU each" \
    "$tutti" bench all_reduce --ranks $ranks --device cuda -b 1000 -e 200K -f 199 -d all -o all -n 1 -w 0
  show_tutti 60 bench all_reduce --ranks $ranks --device cuda -b 8 -e "$most" -f 8
done
((gpus > 1)) || say "not there: a second GPU, for ranks with a GPU each"
if command -v compute-sanitizer > /dev/null; then
  check 90 "compute-sanitizer memcheck" compute-sanitizer --target-processes all --error-exitcode 9 \
    "$tutti" bench all_reduce --ranks 2 --device cuda:0 -b 4 -e 256K -f 61 -n 1 -w 0
else
  say "not there: compute-sanitizer"
fi

for ranks in 2 4 8; do
  show_tutti 60 bench all_reduce --ranks $ranks --device cuda:0 -b 64M -e "$most" -c 0
  show_tutti 60 bench all_reduce --ranks $ranks --device cuda:0 -d bfloat16 -b 64M -e "$most" -c 0
  show_tutti 30 bench all_reduce --ranks $ranks --device cuda:0 -b 8 -e 64K -f 8
done
for collective in all_gather reduce_scatter broadcast all_to_all; do
  show_tutti 30 bench "$collective" --ranks 4 --device cuda:0 -b 1M -e 256M -f 16 -c 0
done
show_tutti 30 bench all_reduce --ranks 4 --device cuda:0,cpu -b 8 -e 16M -f 64

end_report
