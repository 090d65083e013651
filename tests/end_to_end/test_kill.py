"""Whatever kills a run and whenever: it resumes by itself and ends bit-identical."""

import os
import random
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from headway.cli.main import main
from headway.folders import verify_folder
from tests.fixtures.command_line import headway, headway_process, rows, train_words, write_corpus
from tests.fixtures.manifests import flip_one_bit

STEPS = "28"  # no multiple of the steps between evaluations: the last one is at the end
MORE = ("--steps", STEPS, "--training.accumulate", "3", "--checkpoint.every", "2", "--quiet")


def start(words: list[str], cwd: Path) -> int:
    """The command line in a forked child: torch is loaded already, so a start costs nothing."""
    child = os.fork()
    if child == 0:
        try:
            os.chdir(cwd)
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            main(words)
        except SystemExit as leaving:
            os._exit(leaving.code if isinstance(leaving.code, int) else 1)
        except BaseException:
            os._exit(99)
        os._exit(0)
    return child


def run_to_end(words: list[str], cwd: Path) -> float:
    began = time.monotonic()
    _, status = os.waitpid(start(words, cwd), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return time.monotonic() - began


def final(folder: Path) -> bytes:
    return (folder / "checkpoints" / f"step-{STEPS}" / "state.safetensors").read_bytes()


def history(folder: Path) -> list[dict]:
    """The metrics without what is measured by a clock."""
    kinds = {"train", "valid"}
    clocks = {"time", "seconds", "took", "targets_per_second"}
    found = [row for row in rows(folder / "metrics.jsonl") if row["kind"] in kinds]
    return [{k: v for k, v in row.items() if k not in clocks} for row in found]


@dataclass(frozen=True)
class Whole:
    """A run that nothing interrupted. place: a folder with `data` and `runs`. took: seconds."""

    place: Path
    took: float

    @property
    def data(self) -> Path:
        return self.place / "data"

    @property
    def run(self) -> Path:
        return self.place / "runs" / "whole"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    place = tmp_path_factory.mktemp("kill")
    data = write_corpus(place / "data")
    # What is made at a first step is made here, not once more in every child.
    headway(*train_words(data, "first", *MORE, "--steps", "3"), cwd=place)
    return Whole(place, run_to_end(train_words(data, "whole", *MORE), place))


def kill_and_resume(whole: Whole, count: int) -> None:
    chance = random.Random(7)
    in_a_save = 0
    for i in range(count):
        name = f"killed-{i}-of-{count}"
        words, folder = train_words(whole.data, name, *MORE), whole.place / "runs" / name
        child = start(words, whole.place)
        time.sleep(chance.uniform(0.02, 0.95) * whole.took)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        in_a_save += any((folder / "checkpoints").glob("*.tmp-*"))
        run_to_end(words, whole.place)  # the same command, nothing else: unattended
        assert final(folder) == final(whole.run), f"kill {i}: other weights"
        assert history(folder) == history(whole.run), f"kill {i}: another history"
        best = Path("model", "model.safetensors")
        assert (folder / best).read_bytes() == (whole.run / best).read_bytes()
        assert not list(folder.glob("**/*.tmp-*")), "litter"
    print(f"{count} of {count} killed runs resumed bit-identical; {in_a_save} died in a save")


def test_kill_9_at_random_moments_then_resume_is_bit_identical(whole):
    kill_and_resume(whole, 4)


@pytest.mark.slow
def test_kill_9_at_25_random_moments(whole):
    kill_and_resume(whole, 25)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_finishes_the_step_saves_and_goes_on_bit_identical(whole, how):
    name = f"asked-{how.name}"
    words = train_words(whole.data, name, *MORE)
    child = start(words, whole.place)
    time.sleep(0.6 * whole.took)
    os.kill(child, how)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in {130, 0}  # 0 when it was just done
    run_to_end(words, whole.place)
    assert final(whole.place / "runs" / name) == final(whole.run)


def test_steps_in_two_halves_by_the_real_command_are_the_steps_in_one(whole):
    """Dropout on, three micro-batches a step, stopped in mid-epoch."""
    place, halves = whole.place, whole.place / "runs" / "halves"
    headway(*train_words(whole.data, "halves", *MORE, "--steps", "13"), cwd=place)
    done = headway_process("train", "--resume", str(halves), "--steps", STEPS, cwd=place)
    assert "resumed from step 13" in done.stderr
    assert final(halves) == final(whole.run)


def test_blocks_that_are_recomputed_end_bit_identical_and_so_does_muon_in_two_halves(tmp_path):
    data = write_corpus(tmp_path / "data")
    muon = (*MORE, "--optimizer.kind", "muon", "--optimizer.muon-lr", "0.003")
    run_to_end(train_words(data, "whole", *muon), tmp_path)
    again = (*muon, "--training.recompute", "true")
    run_to_end(train_words(data, "halves", *again, "--steps", "13"), tmp_path)
    halves = tmp_path / "runs" / "halves"
    run_to_end(["train", "--resume", str(halves), "--steps", STEPS, "--quiet"], tmp_path)
    assert final(halves) == final(tmp_path / "runs" / "whole")
    said = tmp_path / "runs" / "halves" / "run.yaml"
    assert "kind: muon" in said.read_text() and "recompute: true" in said.read_text()


def test_a_damaged_checkpoint_is_skipped_with_a_word(tmp_path):
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
    shown = capsys.readouterr().err
    assert leaving.value.code == 0 and "the best model is damaged" in shown
    verify_folder(run / "model")
    flip_one_bit(run / "data" / "train" / "source.bin")
    with pytest.raises(SystemExit) as leaving:
        main(["train", "--resume", "runs/r"])
    assert leaving.value.code == 3
    assert "source.bin" in capsys.readouterr().err
    for name in ("MANIFEST.json", "corpus.json"):
        assert (run / "data" / "train" / name).is_file()
    shutil.rmtree(run / "data" / "train")  # as the message says
    with pytest.raises(SystemExit) as leaving:
        main(["train", "--resume", "runs/r"])
    assert leaving.value.code == 0
