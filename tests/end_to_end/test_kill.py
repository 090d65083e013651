"""A run killed at any moment resumes without intervention and ends bit-identical."""

import random
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from headway.base.folders import verify_folder
from headway.cli.main import main
from tests.fixtures.command_line import headway, headway_process, start, train_words, write_corpus
from tests.fixtures.ended_runs import final, is_same_end
from tests.fixtures.manifests import flip_one_bit

STEPS = 28  # no multiple of the steps between evaluations: the last one is at the end
MORE = ("--steps", str(STEPS), "--training.accumulate", "3", "--checkpoint.every", "2", "--quiet")


def start_silently(words: list[str], cwd: Path) -> subprocess.Popen:
    return start(words, cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run_to_end(words: list[str], cwd: Path) -> float:
    began = time.monotonic()
    assert start_silently(words, cwd).wait() == 0
    return time.monotonic() - began


@dataclass(frozen=True)
class Whole:
    """An uninterrupted run: the folder with `data` and `runs`, and the duration in seconds."""

    folder: Path
    seconds: float

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def run(self) -> Path:
        return self.folder / "runs" / "whole"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kill")
    data = write_corpus(folder / "data")
    # The initialisation of a first step is done once, before the children are forked.
    headway(*train_words(data, "first", *MORE, "--steps", "3"), cwd=folder)
    return Whole(folder, run_to_end(train_words(data, "whole", *MORE), folder))


def kill_and_resume(whole: Whole, count: int) -> None:
    generator = random.Random(7)
    during_saves = 0
    for i in range(count):
        name = f"killed-{i}-of-{count}"
        words, run = train_words(whole.data, name, *MORE), whole.folder / "runs" / name
        child = start_silently(words, whole.folder)
        time.sleep(generator.uniform(0.02, 0.95) * whole.seconds)
        child.kill()
        child.wait()
        during_saves += any((run / "checkpoints").glob("*.tmp-*"))
        run_to_end(words, whole.folder)  # only the same command again, without intervention
        assert is_same_end(run, whole.run, STEPS), f"kill {i}: other weights or history"
        assert not list(run.glob("**/*.tmp-*")), "temporary files are left"
    print(f"{count} of {count} killed runs resumed bit-identical; {during_saves} died during saves")


def test_kill_9_at_random_moments_then_resume_is_bit_identical(whole):
    kill_and_resume(whole, 1)


@pytest.mark.slow
def test_kill_9_at_25_random_moments(whole):
    kill_and_resume(whole, 25)


@pytest.mark.turns(3)
@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_run_stopped_by_a_signal_saves_its_step_and_resumes_bit_identical(whole, stop_signal):
    name = f"stopped-{stop_signal.name}"
    words = train_words(whole.data, name, *MORE)
    child = start_silently(words, whole.folder)
    while not (whole.folder / "runs" / name / "metrics.jsonl").exists():
        assert child.poll() is None, "it ended before its first event"
        time.sleep(0.01)  # until then a signal ends it like any program
    child.send_signal(stop_signal)
    assert child.wait() in {130, 0}  # 0 when it was just done
    run_to_end(words, whole.folder)
    assert final(whole.folder / "runs" / name, STEPS) == final(whole.run, STEPS)


@pytest.mark.slow
def test_a_run_in_two_halves_by_the_real_command_equals_one_run(whole):
    """Dropout is on, a step has three micro-batches, and the first half ends in mid-epoch."""
    folder, halves = whole.folder, whole.folder / "runs" / "halves"
    headway(*train_words(whole.data, "halves", *MORE, "--steps", "13"), cwd=folder)
    done = headway_process("train", "--resume", str(halves), "--steps", str(STEPS), cwd=folder)
    assert "resumed from step 13" in done.stderr
    assert final(halves, STEPS) == final(whole.run, STEPS)


@pytest.mark.slow
def test_muon_in_two_halves_with_recomputed_blocks_ends_bit_identical(tmp_path):
    data = write_corpus(tmp_path / "data")
    muon = (*MORE, "--optimizer.kind", "muon", "--optimizer.muon-lr", "0.003")
    run_to_end(train_words(data, "whole", *muon), tmp_path)
    again = (*muon, "--training.recompute", "true")
    run_to_end(train_words(data, "halves", *again, "--steps", "13"), tmp_path)
    halves = tmp_path / "runs" / "halves"
    run_to_end(["train", "--resume", str(halves), "--steps", str(STEPS), "--quiet"], tmp_path)
    assert final(halves, STEPS) == final(tmp_path / "runs" / "whole", STEPS)
    settings = tmp_path / "runs" / "halves" / "run.yaml"
    assert "kind: muon" in settings.read_text() and "recompute: true" in settings.read_text()


def test_a_damaged_checkpoint_is_skipped_with_a_message(tmp_path):
    data = write_corpus(tmp_path / "data")
    words = train_words(data, "r", *MORE[2:-1])
    headway(*words, "--steps", "12", cwd=tmp_path)
    folder = tmp_path / "runs" / "r"
    newest = folder / "checkpoints" / "step-12" / "state.safetensors"
    raw = bytearray(newest.read_bytes())
    raw[len(raw) // 2] ^= 1
    newest.write_bytes(bytes(raw))
    done = headway("train", "--resume", str(folder), "--steps", "14", cwd=tmp_path)
    assert "resumed from step 10" in done.stderr
    assert "skipped a damaged checkpoint, step-12" in done.stderr


def test_changed_data_is_refused_when_a_run_resumes_and_a_damaged_model_is_replaced(
    tmp_path, monkeypatch, capsys
):
    data = write_corpus(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    words = train_words(data, "r", "--steps", "10", "--evaluation.every", "5")
    for more in ((), ("--evaluation.beam", "2")):  # the second is refused: another configuration
        with pytest.raises(SystemExit) as leaving:
            main([*words, *more])
        assert leaving.value.code == (2 if more else 0)
    run = tmp_path / "runs" / "r"
    flip_one_bit(run / "model" / "model.safetensors")
    capsys.readouterr()
    with pytest.raises(SystemExit) as leaving:
        main(["train", "--resume", "runs/r"])
    stderr = capsys.readouterr().err
    assert leaving.value.code == 0 and "the best model is damaged" in stderr
    verify_folder(run / "model")
    flip_one_bit(run / "data" / "train" / "source.bin")
    with pytest.raises(SystemExit) as leaving:
        main(["train", "--resume", "runs/r"])
    assert leaving.value.code == 3
    assert "source.bin" in capsys.readouterr().err
    for name in ("MANIFEST.json", "store.json"):
        assert (run / "data" / "train" / name).is_file()
    shutil.rmtree(run / "data" / "train")  # as the message says
    with pytest.raises(SystemExit) as leaving:
        main(["train", "--resume", "runs/r"])
    assert leaving.value.code == 0
