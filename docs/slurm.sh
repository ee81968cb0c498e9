#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@300
# One Ray over the machines of the job, and a sweep on the first one. The words after this file are
# those of the sweep: `sbatch docs/slurm.sh d2cse unsup --store $HOME/trials`.

export RAY_AUTH_MODE=token
ray get-auth-token --generate > /dev/null # your home is the same on all machines
export HARNESS_CACHE=${HARNESS_CACHE:-$HOME/harness-cache}
# The network over which the workers of a trial talk; `ip -brief address` lists those of a machine.
export GLOO_SOCKET_IFNAME=${INTERFACE:-ib0} NCCL_SOCKET_IFNAME=${INTERFACE:-ib0}
mkdir -p -m 700 "$HOME/.ray/own"

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Ray would count all CPUs of a machine, also those of other jobs.
cpus=--num-cpus=$SLURM_CPUS_PER_TASK
srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" \
    ray start --head --port=6379 "$cpus" --temp-dir="$HOME/.ray/own/r" --block &
rays=$!
if ((SLURM_NNODES > 1)); then
    srun --overlap --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude="$head" \
        ray start --address="$head:6379" "$cpus" --block &
    rays="$! $rays"
fi

# The signal before the end of the time reaches this script alone. Bash acts on it while it waits.
harness sweep "$@" --address "$head:6379" &
sweep=$!
trap 'kill -TERM "$sweep"' TERM
wait "$sweep"
code=$?
while kill -0 "$sweep" 2> /dev/null; do # the signal has ended the wait, and not the sweep
    wait "$sweep"
    code=$?
done
trap - TERM
kill -TERM $rays
wait
exit "$code"
