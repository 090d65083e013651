#!/bin/bash
# Trains with one process per GPU under SLURM, for longer than one job may take: three minutes
# before its time ends the run is saved, and the job is queued again and resumes.
#
#     sbatch examples/cluster/slurm.sh gpt tokens --run big
#
# The arguments are those of `headway train`. The run folder and the data must be on a disk that all
# machines see. Change the number of machines, GPUs and cores here.
#SBATCH --job-name=headway
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@180

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
WORLD_SIZE=$SLURM_NTASKS
export MASTER_ADDR MASTER_PORT WORLD_SIZE

# Each task becomes one process of the run, so that srun's signals reach it. If one fails, Headway
# ends the others; srun must not, since a saved run ends with code 130.
srun --kill-on-bad-exit=0 bash -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID LOCAL_WORLD_SIZE=$SLURM_NTASKS_PER_NODE
  exec headway train "$@"' headway "$@" &
run=$!

ending=
trap 'ending=yes; kill -USR1 "$run"' USR1

wait "$run"
code=$?
if [ -n "$ending" ]; then
  wait "$run" # the first wait ended with the signal
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
fi
exit "$code"
