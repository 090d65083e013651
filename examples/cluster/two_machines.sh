#!/bin/bash
# Trains on two machines. Call it on both, with the number of the machine (0 or 1), the address of
# machine 0, and the arguments of `headway train`:
#
#     examples/cluster/two_machines.sh 0 10.0.0.5 gpt tokens --run big     # on machine 0
#     examples/cluster/two_machines.sh 1 10.0.0.5 gpt tokens --run big     # on machine 1
#
# The run folder and the data must be on a disk that both machines see, under the same paths. The
# number of processes of each machine is $PROCESSES, or that of its GPUs.
number=$1
address=$2
shift 2
exec torchrun --nnodes 2 --node-rank "$number" --nproc-per-node "${PROCESSES:-gpu}" \
  --master-addr "$address" --master-port "${PORT:-29500}" --signals-to-handle SIGTERM,SIGINT,SIGUSR1 \
  -m headway -- train "$@"
