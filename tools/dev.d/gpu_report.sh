# shellcheck shell=bash
# What the checks on a GPU have in common: they go on after a fault, and end in time, with one report.
# To be set before: `report`, the file; `end`, when in SECONDS all has to be over.
# shellcheck disable=SC2154  # they are
passed=0 failed=0

say() { printf '%s\n' "$*" | tee -a "$report"; }

# check LIMIT_S NAME COMMAND...: its output goes to the report when it fails.
check() {
  local limit=$1 name=$2 output status left=$((end - SECONDS))
  shift 2
  if ((left < 5)); then
    say "LEFT OUT (no time): $name"
    failed=$((failed + 1))
    return
  fi
  output=$(timeout $((limit < left ? limit : left)) "$@" 2>&1)
  status=$?
  if ((status == 0)); then
    passed=$((passed + 1))
    say "passed: $name"
  else
    failed=$((failed + 1))
    say "FAILED (status $status): $name"
    say "$output"
  fi
}

# show LIMIT_S TITLE COMMAND...: its output is what the report is for.
show() {
  local limit=$1 title=$2 left=$((end - SECONDS))
  shift 2
  say ""
  say "\$ $title"
  if ((left < 5)); then
    say "LEFT OUT (no time)"
    failed=$((failed + 1))
    return
  fi
  timeout $((limit < left ? limit : left)) "$@" 2>&1 | tee -a "$report"
  local status=${PIPESTATUS[0]}
  if ((status != 0)); then
    say "FAILED (status $status)"
    failed=$((failed + 1))
  fi
}

begin_report() {
  : > "$report"
  say "$*, $(date -u +%Y-%m-%d), $(uname -m), Linux $(uname -r)"
  if command -v nvidia-smi > /dev/null; then
    say "$(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader 2>&1)"
  fi
}

# The status is that of the checks.
end_report() {
  say ""
  say "$passed checks passed, $failed failed, in $SECONDS s"
  ((failed == 0))
}
