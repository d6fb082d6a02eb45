#!/usr/bin/env bash
# The script of `tools/dev gpu` on the driver of the tests, with small sizes: whatever it runs must go well there.
#   checks_test.sh SOURCES DRIVER MODULE PROGRAM...
set -euo pipefail

sources=$1
export TUTTI_CUDA_DRIVER=$2 TUTTI_CUDA_MODULE=$3 TUTTI_CALIBRATION=off FAKE_CUDA_LARGEST=33554432
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/lib"
for program in "${@:4}"; do ln -s "$program" "$folder/bin/"; done
cp "$sources"/tools/dev.d/gpu_{checks,report}.sh "$folder/"
report=$folder/report.txt
GPU_CHECKS_MOST=64K GPU_CHECKS_CASES=20 GPU_CHECKS_ROUNDS=20 GPU_CHECKS_SECONDS=280 "$folder/gpu_checks.sh" "$report"

# What a report must have.
while read -r line; do
  grep -qF -- "$line" "$report" || { echo "the report has no \"$line\""; exit 1; }
done << 'LINES'
passed: all_reduce, 8 ranks of one GPU, odd sizes
passed: all_reduce, 8 ranks of one GPU as threads, odd sizes
passed: all_reduce of 65536 bytes, 4 ranks of one GPU
passed: ranks as threads: every collective, type and operation, groups, sends and receives, streams and graphs
passed: the interpreter of Programs, 2 to 8 ranks as streams of one GPU
passed: all_reduce of every type and operation, 8 ranks of one GPU
Streams of two processes, by words, there and back
cuIpcOpenMemHandle
Allocation of 70001 bytes: of 70001 at ...000, sees writes in order: true; a dma-buf, 0 bytes in
, 0 failed, in 
LINES
