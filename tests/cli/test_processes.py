"""headway train in several processes: one message, one run folder, the results of one process."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
from safetensors.torch import load_file

from headway.base.errors import UsageError
from headway.base.metrics_file import events
from headway.cli import processes
from headway.cli.processes import number_of_processes
from headway.runs import start
from tests.fixtures.command_line import fork, headway, rows, train_words, write_corpus
from tests.fixtures.ended_runs import history
from tests.fixtures.ranks import codes_of, command, run_ranks, start_ranks

PLAIN = (
    *("--model.dropout", "0", "--dtype", "float32", "--data.bpe-dropout", "0.1"),
    # Muon rounds to bfloat16 on some processors. Some parameters have no gradient but rounding
    # (biases of keys), which a small epsilon of AdamW enlarges.
    *("--optimizer.kind", "adamw", "--optimizer.eps", "1e-5", "--quiet"),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with `data`, and the run of 20 steps `runs/whole` of one process."""
    folder = tmp_path_factory.mktemp("processes")
    data = write_corpus(folder / "data")
    headway(*train_words(data, "whole", *PLAIN, "--steps", "20"), cwd=folder)
    return folder


def newest(run: Path) -> dict:
    folder = max((run / "checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
    tensors = {}
    for path in folder.glob("state*.safetensors"):  # each process has its own rows of a tensor
        tensors |= {(path.name, name): tensor for name, tensor in load_file(path).items()}
    state = json.loads((folder / "state.json").read_text())["counters"]
    return {"tensors": {k: v for k, v in tensors.items() if k[1][:3] != "rng"}, **state}


def losses(run: Path) -> list[float]:
    return [row["nats"] for row in rows(run / "metrics.jsonl") if row["kind"] in ("train", "valid")]


def is_same(these: dict, those: dict) -> bool:
    return these.keys() == those.keys() and all(t.equal(those[n]) for n, t in these.items())


def pickles(run: Path) -> list[Path]:
    """Return the files of a run that begin as a pickle, or as the zip that torch.save writes."""
    starts = {path: path.read_bytes()[:9] for path in run.rglob("*") if path.is_file()}
    # the length of the header of tensors may begin as a pickle does; then "{" follows
    return [p for p, s in starts.items() if s[:2] == b"PK" or (s[:1] == b"\x80" and s[8:] != b"{")]


def test_two_processes_train_and_evaluate_as_one(whole):
    words = train_words(whole / "data", "two", *PLAIN[:-1], "--steps", "20")
    first, second = run_ranks(command(words), 2, whole)
    assert "2 processes, each on cpu" in first and "next      " in first
    assert second == ""  # only the first one prints
    one, two = whole / "runs" / "whole", whole / "runs" / "two"
    assert losses(two) == pytest.approx(losses(one), rel=2e-6)
    states = newest(one), newest(two)
    for name in ("step", "epoch", "position", "targets", "evaluated", "best_step"):
        assert states[0][name] == states[1][name]
    assert sorted(p.name for p in two.iterdir()) == sorted(p.name for p in one.iterdir())
    assert not pickles(two)


def test_two_processes_with_a_part_of_the_model_each_train_as_one(whole):
    """The best model is one folder, which any command uses."""
    words = train_words(whole / "data", "parts", *PLAIN[:-1], "--steps", "20")
    first, _ = run_ranks(command([*words, "--machine.shard", "shard"]), 2, whole)
    assert "each with a part of the model" in first
    one, parts = whole / "runs" / "whole", whole / "runs" / "parts"
    assert losses(parts) == pytest.approx(losses(one), rel=2e-6)
    states = newest(one), newest(parts)
    names = [{name for _, name in state["tensors"]} for state in states]
    assert names[0] == names[1]
    for name in ("step", "epoch", "position", "targets", "evaluated", "best_step"):
        assert states[0][name] == states[1][name]
    weights = [load_file(run / "model" / "model.safetensors") for run in (one, parts)]
    for name, weight in weights[0].items():
        assert weight.shape == weights[1][name].shape
        assert float((weight - weights[1][name]).abs().max()) < 1e-4
    assert not pickles(parts)


def test_processes_with_other_settings_are_refused_before_anything_is_written(whole):
    def run():
        lr = "0.001" if os.environ["RANK"] == "0" else "0.002"
        command(train_words(whole / "data", "other", *PLAIN, "--optimizer.lr", lr))()

    codes = codes_of(start_ranks(run, 2, whole))
    printed = [(whole / f"rank-{rank}.txt").read_text() for rank in (0, 1)]
    assert set(codes) <= {2, 75} and 2 in codes
    assert sorted(map(bool, printed)) == [False, True]  # one message
    assert "optimizer.lr is 0.001 in process 0 and 0.002 in process 1" in "".join(printed)
    assert not (whole / "runs" / "other").exists()


def test_an_error_of_one_process_ends_all_with_its_message(whole, tmp_path):
    """Process 1 does not find the file that process 0 has read."""

    def run():
        if os.environ["RANK"] == "1":
            start.RUN_FILE = "no-such-file.yaml"  # as on another machine without that folder
        command(train_words(whole / "data", "unshared", *PLAIN, "--steps", "3"))()

    codes = codes_of(start_ranks(run, 2, whole))
    assert codes[1] == 3 and codes[0] in (1, 75)
    printed = [(whole / f"rank-{rank}.txt").read_text() for rank in (0, 1)]
    assert "process 1 of 2 does not find the files of process 0" in printed[1]
    assert printed[0] == ""


def test_another_number_than_that_of_torchrun_is_refused(monkeypatch):
    values = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert number_of_processes(None) == number_of_processes(2) == number_of_processes("auto") == 1
    with pytest.raises(UsageError, match="--processes 4: torchrun has started 2"):
        number_of_processes(4)


def test_a_dry_run_and_a_pipe_are_for_one_process(whole):
    words = train_words(whole / "data", "refused", *PLAIN, "--processes", "2")
    assert (
        "--dry-run measures one process" in headway(*words, "--dry-run", cwd=whole, check=2).stderr
    )
    words = ["train", "gpt", "/dev/stdin", "--processes", "2", "--run", "refused"]
    refused = headway(*words, cwd=whole, text="some text\n" * 50, check=2)
    assert "cannot read the data from a pipe" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["replicate", "shard"])
def test_a_run_goes_on_in_other_numbers_of_processes(whole, kind):
    run = f"runs/elastic-{kind}"

    def resume(size: int, steps: int) -> None:
        words = ["train", "--resume", run, "--steps", str(steps), "--quiet"]
        run_ranks(command(words), size, whole)

    begin = train_words(whole / "data", f"elastic-{kind}", *PLAIN, "--steps", "10")
    headway(*begin, "--machine.shard", kind, cwd=whole)
    for size, steps in ((2, 14), (4, 17)):  # the warm-up of 5 steps is at most half of each
        resume(size, steps)
    headway("train", "--resume", run, "--steps", "20", "--quiet", cwd=whole)
    one, elastic = whole / "runs" / "whole", whole / run
    assert losses(elastic)[-1] == pytest.approx(losses(one)[-1], rel=1e-6)
    for name in ("step", "epoch", "position", "targets"):
        assert newest(one)[name] == newest(elastic)[name]


def launched(words: list[str], cwd: Path) -> subprocess.Popen:
    """Start a command with two processes."""
    command = [sys.executable, "-m", "headway", *words, "--processes", "2"]
    return subprocess.Popen(command, cwd=cwd, stderr=subprocess.PIPE, text=True)


def launched_by_forks(words: list[str], cwd: Path) -> subprocess.Popen:
    """Start the same in forks of this process, each without the start of Python and torch."""

    def process(words: list[str], *, env: dict[str, str], **settings: Any) -> subprocess.Popen:
        def run() -> None:
            os.environ.clear()
            os.environ.update(env)
            command(words[3:])()  # after python -m headway

        return fork(run, **settings)

    def launch() -> None:
        processes.subprocess = SimpleNamespace(Popen=process, DEVNULL=subprocess.DEVNULL)
        command([*words, "--processes", "2"])()

    return fork(launch, cwd=cwd, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen, seconds: float) -> tuple[int, str]:
    """Wait for the end of a command; return its exit code and what it said."""
    said = process.communicate(timeout=seconds)[1]
    return process.returncode, said


def children_of(process: subprocess.Popen) -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(number) for number in path.read_text().split()]


STEPS = 24
SAVED = ("--steps", str(STEPS), "--checkpoint.every", "2", "--evaluation.every", "6")
KINDS = {kind: ("--dtype", "float32", "--quiet", *SAVED) for kind in ("replicate", "shard")}
KINDS["shard"] += ("--machine.shard", "shard")
PHASES = ("the start", "steps", "a save", "an evaluation", "the end")


@dataclass(frozen=True)
class Undisturbed:
    """A run of two processes with dropout. begun: seconds from its command to its first event."""

    run: Path
    begun: float

    def until_evaluation(self, step: int) -> float:
        """Return the seconds from the save before an evaluation to its end."""
        times = {(e["kind"], e["step"]): e["time"] for e in rows(self.run / "metrics.jsonl")}
        return times["valid", step] - times["saved", step - 2]


@pytest.fixture(scope="module")
def undisturbed(whole):
    """The run of each kind."""

    def finished(kind: str) -> Undisturbed:
        began = time.time()
        words = train_words(whole / "data", f"undisturbed-{kind}", *KINDS[kind])
        code, said = ended(launched(words, whole), 300)
        assert code == 0, said
        run = whole / "runs" / f"undisturbed-{kind}"
        return Undisturbed(run, rows(run / "metrics.jsonl")[0]["time"] - began)

    return {kind: finished(kind) for kind in KINDS}


@pytest.fixture(scope="module")
def restarts():
    """The seconds from a kill to the first save, evaluation or line of the log after it."""
    seconds: list[float] = []
    yield seconds
    if seconds:
        values = f"median {median(seconds):.1f} s, longest {max(seconds):.1f} s"
        print(f"{len(seconds)} restarts that trained further: {values}")


def events_of(run: Path) -> list[dict]:
    return [event for _, event in events(run / "metrics.jsonl")]


def wait_until(process: subprocess.Popen, run: Path, kind: str, step: int) -> None:
    """Wait until a run has an event, or its process has ended."""
    while process.poll() is None and not any(
        event["kind"] == kind and event["step"] >= step for event in events_of(run)
    ):
        time.sleep(0.005)


def wait_for_phase(
    phase: str,
    chance: random.Random,
    process: subprocess.Popen,
    run: Path,
    whole: Undisturbed,
    imported: float,
) -> None:
    """Wait until a random moment of a phase of the run. imported: seconds that Python and torch
    take to start."""
    seconds, step = 0.0, 2 * chance.randrange(1, STEPS // 2 - 1)
    if phase == "the start":
        seconds = chance.random() * (whole.begun + imported)
    elif phase == "steps":
        wait_until(process, run, "saved", step)
        seconds = chance.random() * 0.2
    elif phase == "a save":
        wait_until(process, run, "saved", step)
        while process.poll() is None and not any(run.glob("checkpoints/*.tmp-*")):
            time.sleep(0.001)
    elif phase == "an evaluation":
        step = chance.choice((6, 12, 18))
        wait_until(process, run, "saved", step - 2)
        seconds = chance.uniform(0.4, 1) * whole.until_evaluation(step)
    else:
        wait_until(process, run, "valid", STEPS)
        seconds = chance.random() * 0.5
    time.sleep(seconds)


def seconds_of_restart(run: Path, killed: float) -> float | None:
    """Return the seconds from a kill to the first work after it; None if none was left."""
    later = [event for event in events_of(run) if event["time"] > killed]
    plans = [number for number, event in enumerate(later) if event["kind"] == "plan"]
    work = [e for e in later[plans[-1] :] if e["kind"] in ("saved", "train", "valid")]
    return work[0]["time"] - killed if work else None


@pytest.mark.slow
@pytest.mark.parametrize("number", range(30))
def test_a_run_of_which_a_process_is_killed_ends_as_the_undisturbed_one(
    whole, undisturbed, restarts, number
):
    """Six times in each phase of a run; either process; copies, and every third time parts; 20
    times in forks."""
    kind = "shard" if number % 3 == 2 else "replicate"
    expected, run = undisturbed[kind], whole / "runs" / f"killed-{number}"
    begin = launched_by_forks if number < 20 else launched
    began = time.monotonic()
    process = begin(train_words(whole / "data", run.name, *KINDS[kind]), whole)
    while len(victims := children_of(process)) < 2:
        time.sleep(0.01)
    imported = time.monotonic() - began
    phase = PHASES[number % len(PHASES)]
    wait_for_phase(phase, random.Random(number), process, run, expected, imported)
    killed, is_late = time.time(), process.poll() is not None
    with suppress(ProcessLookupError):  # it has just ended
        os.kill(victims[number // len(PHASES) % 2], signal.SIGKILL)
    code, said = ended(process, 900)
    assert code == 0 and "Traceback" not in said and "error" not in said
    assert "was ended by SIGKILL; all start again" in said or phase == "the end" or is_late
    assert is_same(newest(run)["tensors"], newest(expected.run)["tensors"])
    assert history(run) == history(expected.run)
    model = Path("model", "model.safetensors")
    assert (run / model).read_bytes() == (expected.run / model).read_bytes()
    if seconds := seconds_of_restart(run, killed) if "all start again" in said else None:
        restarts.append(seconds)
        print(f"killed in {phase}: trains again after {seconds:.1f} s")
        assert seconds <= max(30, 5 * (expected.begun + imported))  # on a machine that is busy


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_command_saves_and_ends_all_processes(whole, undisturbed, number):
    run = whole / "runs" / f"signal-{number}"
    words = train_words(whole / "data", run.name, *KINDS["replicate"])
    process = launched(words, whole)
    wait_until(process, run, "plan", 0)
    process.send_signal(number)
    code, said = ended(process, 60)
    assert code == 130 and f"train --resume {run.relative_to(whole)} --processes 2\n" in said
    assert ended(launched(words, whole), 200)[0] == 0
    expected = newest(undisturbed["replicate"].run)
    assert is_same(newest(run)["tensors"], expected["tensors"])
