"""The recipes for clusters in examples/cluster: their form, their commands and their signals."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from headway.cli.main import application
from tests.fixtures.cluster_schemas import JOB_SET, TRAIN_JOB
from tests.fixtures.command_line import train_words, write_corpus
from tests.fixtures.ended_runs import final
from tests.fixtures.json_schemas import validate

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "examples" / "cluster"

SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
trap 'kill -USR1 "${tasks[@]}"' USR1
for ((n = 0; n < SLURM_NTASKS; n++)); do
  SLURM_PROCID=$n SLURM_LOCALID=$n "$@" &
  tasks+=($!)
done
for task in "${tasks[@]}"; do
  while kill -0 "$task" 2> /dev/null; do wait "$task"; done
done
wait "${tasks[0]}"
"""
"""A stand-in for SLURM's srun: starts the tasks on this machine, and forwards the signal."""

SCONTROL = """#!/bin/bash
if [ "$1" = show ]; then echo 127.0.0.1; echo other; else echo "$@" > requeued; fi
"""


def of_file(name: str) -> dict:
    return yaml.safe_load((CLUSTER / name).read_text())


def flags_of(words: list[str]) -> object:
    """Return the flags of a command that trains; an unknown one raises."""
    assert words[:2] == ["train", "gpt"]
    _, bound, _ = application().parse_args(words, exit_on_error=False, print_error=False)
    return bound.arguments["flags"]


def test_the_train_job_has_the_form_of_kubeflow_and_starts_a_run():
    job = of_file("trainjob.yaml")
    validate(job, TRAIN_JOB)
    trainer = job["spec"]["trainer"]
    assert trainer["command"] == ["torchrun", "-m", "headway", "--"]
    assert flags_of(trainer["args"]).run == "/data/runs/big"
    limits = trainer["resourcesPerNode"]["limits"]
    assert int(limits["nvidia.com/gpu"]) == trainer["numProcPerNode"]


def test_the_job_set_has_its_form_and_its_first_pod_has_the_name_that_all_connect_to():
    job_set = of_file("jobset.yaml")
    validate(job_set, JOB_SET)
    (group,) = job_set["spec"]["replicatedJobs"]
    pods = group["template"]["spec"]
    (container,) = pods["template"]["spec"]["containers"]
    words = shlex.split(container["args"][0])
    options = dict(zip(words[2::2], words[3::2], strict=False))
    name, network = job_set["metadata"]["name"], job_set["spec"]["network"]
    assert options["--master-addr"] == f"{name}-{group['name']}-0-0.{network['subdomain']}"
    assert int(options["--nnodes"]) == pods["completions"] == pods["parallelism"]
    assert options["--nproc-per-node"] == container["resources"]["limits"]["nvidia.com/gpu"]
    assert flags_of(words[words.index("--") + 1 :]).run == "/data/runs/big"


@pytest.mark.parametrize(
    ("schema", "name", "change"),
    [
        (TRAIN_JOB, "trainjob.yaml", lambda job: job["spec"]["trainer"].update(nodes=2)),
        (JOB_SET, "jobset.yaml", lambda job: job["spec"].update(maxRestarts=2)),
        (JOB_SET, "jobset.yaml", lambda job: job["spec"]["replicatedJobs"][0].pop("template")),
    ],
)
def test_a_field_that_does_not_exist_or_is_missing_is_refused(schema, name, change):
    job = of_file(name)
    change(job)
    from jsonschema import ValidationError

    with pytest.raises(ValidationError):
        validate(job, schema)


RAY = """
import os
import socket
import sys
from types import SimpleNamespace

from torch import distributed
from torch.multiprocessing import start_processes

RunConfig = FailureConfig = ScalingConfig = TorchConfig = SimpleNamespace


def start(rank, size, port, function, config):
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in variables.items()})
    distributed.init_process_group("gloo", init_method="env://", rank=rank, world_size=size)
    function(config)
    distributed.barrier()


class TorchTrainer:
    def __init__(self, function, *, train_loop_config, scaling_config, **others):
        self.function, self.config = function, train_loop_config
        self.size = scaling_config.num_workers

    def fit(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        arguments = self.size, port, self.function, self.config
        start_processes(start, arguments, self.size, start_method="fork")
"""
"""A stand-in for Ray Train: workers with a process group of torch, on this machine."""


def programs(folder: Path, headway: str) -> dict[str, str]:
    """Write the programs that the scripts call, and return the environment of a job."""
    (folder / "bin").mkdir()
    torchrun = f'#!/bin/bash\nexec {sys.executable} -m torch.distributed.run "$@"\n'
    for name, text in {
        **{"srun": SRUN, "scontrol": SCONTROL, "torchrun": torchrun},
        "headway": f"#!/bin/bash\n{headway}\n",
    }.items():
        path = folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        **{"SLURM_JOB_ID": "1234567", "SLURM_JOB_NODELIST": "node[0-1]"},
        **{"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2"},
    }


def started(folder: Path, environment: dict[str, str], *words: str) -> subprocess.Popen:
    return subprocess.Popen(
        ["bash", str(CLUSTER / "slurm.sh"), *words], cwd=folder, env=environment, process_group=0
    )


def wait_for(path: Path, job: subprocess.Popen) -> None:
    while not path.exists():
        assert job.poll() is None, "the job ended before"
        time.sleep(0.02)


NOTES = """
echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT $@" > "rank-$RANK"
trap 'echo saved > "saved-$RANK"; exit 130' USR1
touch "ready-$RANK"
for n in $(seq 100); do sleep 0.05; done
exit ${CODE:-0}
"""


def test_the_slurm_job_passes_its_signal_to_all_processes_and_is_queued_again(tmp_path):
    job = started(tmp_path, programs(tmp_path, NOTES), "gpt", "my tokens")
    for rank in (0, 1):
        wait_for(tmp_path / f"ready-{rank}", job)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(60) == 0
    for rank in (0, 1):
        text = (tmp_path / f"rank-{rank}").read_text().strip()
        assert text == f"{rank} {rank} 2 2 127.0.0.1 34567 train gpt my tokens"
        assert (tmp_path / f"saved-{rank}").exists()
    assert (tmp_path / "requeued").read_text() == "requeue 1234567\n"


def test_a_slurm_job_that_fails_is_not_queued_again(tmp_path):
    job = started(tmp_path, programs(tmp_path, "exit 3"), "gpt", "tokens")
    assert job.wait(60) == 3
    assert not (tmp_path / "requeued").exists()


TRAIN = f'export OMP_NUM_THREADS=1\nexec {sys.executable} -m headway "$@"'


@pytest.mark.slow
def test_a_run_of_two_tasks_is_saved_by_the_signal_and_the_next_job_ends_it(tmp_path):
    data = write_corpus(tmp_path / "data")
    environment = programs(tmp_path, TRAIN)
    words = train_words(data, "job", "--steps", "60", "--quiet")[1:]
    job = started(tmp_path, environment, *words)
    wait_for(tmp_path / "runs" / "job" / "metrics.jsonl", job)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(120) == 0 and (tmp_path / "requeued").exists()
    assert not (tmp_path / "runs" / "job" / "checkpoints" / "step-60").exists()
    assert started(tmp_path, environment, *words).wait(200) == 0
    whole = train_words(data, "whole", "--steps", "60", "--quiet")[1:]
    assert started(tmp_path, environment, *whole).wait(200) == 0
    runs = tmp_path / "runs"
    assert final(runs / "job", 60) == final(runs / "whole", 60)


@pytest.mark.slow
def test_the_workers_of_ray_train_one_model(tmp_path):
    data = write_corpus(tmp_path / "data")
    (tmp_path / "ray" / "train").mkdir(parents=True)
    for name, text in (("train/__init__", RAY), ("train/torch", "from ray.train import *")):
        (tmp_path / "ray" / f"{name}.py").write_text(text)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    words = train_words(data, "ray", "--steps", "6", "--quiet")[1:]
    script = [sys.executable, str(CLUSTER / "ray_train.py"), "2", *words]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    subprocess.run(script, cwd=tmp_path, env=environment, check=True, timeout=200)
    whole = train_words(data, "whole", "--steps", "6", "--quiet")[1:]
    assert started(tmp_path, programs(tmp_path, TRAIN), *whole).wait(200) == 0
    assert final(tmp_path / "runs" / "ray", 6) == final(tmp_path / "runs" / "whole", 6)


@pytest.mark.slow
def test_the_script_for_two_machines_trains_one_model(tmp_path):
    data = write_corpus(tmp_path / "data")
    environment = {**programs(tmp_path, TRAIN), "PROCESSES": "1", "PORT": "29613"}
    words = train_words(data, "two", "--steps", "6", "--quiet")[1:]
    machines = [
        subprocess.Popen(
            [str(CLUSTER / "two_machines.sh"), number, "127.0.0.1", *words],
            cwd=tmp_path,
            env=environment,
        )
        for number in "01"
    ]
    assert [machine.wait(200) for machine in machines] == [0, 0]
    assert final(tmp_path / "runs" / "two", 6)
