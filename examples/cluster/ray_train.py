"""Trains in the workers of a Ray cluster, one process and one GPU each.

    python examples/cluster/ray_train.py 16 gpt /data/tokens --run /data/runs/big

The first argument is the number of workers, and the others are those of `headway train`. The run
folder and the data must be on a disk that all machines see.
"""

import os
import subprocess
import sys

from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer


def worker(config: dict[str, list[str]]) -> None:
    """Train in one process; Ray has set the variables of torchrun in each worker."""
    # the worker with rank 0 has a store of torch at this address already, which all use
    environment = {**os.environ, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    command = [sys.executable, "-m", "headway", "train", *config["arguments"]]
    subprocess.run(command, check=True, env=environment)


def main() -> None:
    """Start the workers; after a failure all begin again from the last checkpoint."""
    number, *arguments = sys.argv[1:]
    TorchTrainer(
        worker,
        train_loop_config={"arguments": arguments},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=int(number), use_gpu=True),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ).fit()


if __name__ == "__main__":
    main()
