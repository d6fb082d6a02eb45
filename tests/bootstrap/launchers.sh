#!/usr/bin/env bash
# Starts launched_rank with a real launcher: launchers.sh WHICH PROGRAM. Status 77: that launcher is not here.
set -euo pipefail
which=$1
program=$2

need() { command -v "$1" >/dev/null || { echo "SKIP: $1 is not installed"; exit 77; }; }

# Runs a command that must print "RANKS" lines with "ok", and end well.
expect() {
  local ranks=$1 launcher=$2 out status=0
  shift 2
  out=$(timeout --kill-after=2 "$patience_s" "$@" 2>&1) || status=$?
  echo "$out"
  if grep -q "built without PMIx" <<<"$out"; then echo "SKIP: libpmix-dev was not there at the build"; exit 77; fi
  # Slurm's own daemon of a step waits for ever when the controller of a loaded machine has missed its last message.
  if [ "$which" = slurm ] && [ $status -ge 124 ]; then status=0; echo "(srun did not end by itself)"; fi
  [ $status = 0 ] && [ "$(grep -c "of $ranks, started by $launcher: ok" <<<"$out")" = "$ranks" ]
}
patience_s=60

# Ends what carries $1 in its environment.
end_all_with() {
  local file
  for file in $(grep -lsz -- "$1" /proc/[0-9]*/environ); do
    [ "$file" = "/proc/$$/environ" ] || kill -KILL "$(cut -d/ -f3 <<<"$file")" 2>/dev/null || true
  done
}

# A Slurm of this machine alone, in the folder $1; it ends with this script. Where one is at work already, that one is
# used.
start_slurm() {
  local dir=$1 host daemon
  sinfo >/dev/null 2>&1 && return
  for daemon in slurmctld slurmd; do need $daemon; done
  [ "$(id -u)" = 0 ] || { echo "SKIP: no Slurm controller answers, and starting one needs root"; exit 77; }
  host=$(hostname -s)
  mkdir "$dir/state" "$dir/spool"
  cat >"$dir/slurm.conf" <<END
ClusterName=tutti
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort=$((20000 + RANDOM % 5000))
SlurmdPort=$((25000 + RANDOM % 5000))
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc)
PartitionName=all Nodes=ALL Default=YES
END
  export SLURM_CONF=$dir/slurm.conf
  slurmctld -D >"$dir/slurmctld.log" 2>&1 &
  slurmd -D >"$dir/slurmd.log" 2>&1 &
  for _ in $(seq 100); do
    sinfo --noheader --format=%t 2>/dev/null | grep -q idle && return
    sleep 0.2
  done
  tail "$dir"/*.log
  echo "this machine's own Slurm does not become ready"
  exit 1
}

case $which in
  openmpi | openmpi_pmix)
    need mpirun.openmpi
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    exchange=()
    [ "$which" = openmpi_pmix ] && exchange=(exchange)
    for n in 1 2 4; do
      expect $n "Open MPI" mpirun.openmpi --oversubscribe -n $n "$program" $n "${exchange[@]}"
    done
    ;;
  hydra)
    need mpiexec.hydra
    for n in 1 2 4; do expect $n hydra mpiexec.hydra -n $n "$program" $n; done
    ;;
  torchrun)
    need torchrun
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    for n in 2 4; do  # without --log-dir each leaves a folder in /tmp
      expect $n torchrun torchrun --log-dir "$dir" --no-python --nproc-per-node $n "$program" $n
    done
    ;;
  slurm)
    need srun
    dir=$(mktemp -d)
    # All at once: slurmd waits for two minutes for what is left of a step.
    trap 'end_all_with "SLURM_CONF=$dir"; wait; rm -rf "$dir"' EXIT
    start_slurm "$dir"
    patience_s=20
    for n in 2 4; do expect $n Slurm srun --overcommit --ntasks $n "$program" $n; done
    for mpi in pmix pmi2; do
      srun --mpi=list 2>&1 | grep -qw $mpi || continue
      expect 2 Slurm srun --mpi=$mpi --overcommit --ntasks 2 "$program" 2
    done
    ;;
  secret_file)
    # By hand: a secret file and an address, nothing else.
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    (umask 077 && head -c 32 /dev/urandom >"$dir/secret")
    export TUTTI_SIZE=3 TUTTI_ADDRESS=127.0.0.1:$((20000 + RANDOM % 10000)) TUTTI_SECRET_FILE=$dir/secret
    pids=()
    for rank in 0 1 2; do TUTTI_RANK=$rank timeout 60 "$program" 3 & pids+=($!); done
    for pid in "${pids[@]}"; do wait "$pid"; done
    ;;
  namespaces)
    # Two network namespaces joined by a veth pair: two hosts, as far as sockets can tell. IPv4, then IPv6.
    need ip
    a=tutti-a-$$ b=tutti-b-$$
    if ! ip netns add $a 2>/dev/null; then echo "SKIP: no privilege to make network namespaces"; exit 77; fi
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"; ip netns del $a; ip netns del $b 2>/dev/null || true' EXIT
    ip netns add $b
    ip link add tutti0 netns $a type veth peer name tutti0 netns $b
    # Addresses that the other side cannot reach come first: reachability must be proven.
    ip -n $a addr add 10.78.0.1/32 dev tutti0
    ip -n $b addr add 10.78.0.2/32 dev tutti0
    ip -n $a addr add 10.77.0.1/24 dev tutti0
    ip -n $b addr add 10.77.0.2/24 dev tutti0
    ip -n $a addr add fd77::1/64 dev tutti0 nodad
    ip -n $b addr add fd77::2/64 dev tutti0 nodad
    for ns in $a $b; do ip -n $ns link set tutti0 up; ip -n $ns link set lo up; done
    (umask 077 && head -c 32 /dev/urandom >"$dir/secret")
    for address in 10.77.0.1:29400 '[fd77::1]:29400'; do
      export TUTTI_SIZE=4 TUTTI_ADDRESS=$address TUTTI_SECRET_FILE=$dir/secret
      pids=()
      for rank in 0 1 2 3; do
        ns=$([ $rank -lt 2 ] && echo $a || echo $b)
        TUTTI_RANK=$rank timeout 60 ip netns exec $ns "$program" 4 & pids+=($!)
      done
      for pid in "${pids[@]}"; do wait "$pid"; done
    done
    ;;
  *) echo "unknown launcher $which" >&2; exit 2 ;;
esac
