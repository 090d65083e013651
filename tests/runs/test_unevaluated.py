"""Verbs use the newest checkpoint of a run that was stopped before its first evaluation."""

import os
import shutil
import signal
from pathlib import Path

import pytest

import headway
from headway.base.errors import DataError, HeadwayWarning, UsageError
from headway.runs import recipe
from headway.runs import train as train_run
from headway.tasks.opening import family_of, model_path
from tests.fixtures import command_line
from tests.fixtures.manifests import flip_one_bit

TINY = {
    **{"model.model_dim": 24, "model.num_heads": 4, "model.ffn_dim": 40, "model.num_layers": 1},
    **{"model.max_length": 48, "training.length": 32, "data.vocabulary": 270},
    **{"machine.threads": 1, "checkpoint.every": 2, "evaluation.every": 50, "training.steps": 20},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a text, and two runs: interrupted after step 3, and before the first step."""
    path = tmp_path_factory.mktemp("unevaluated")
    lines = "\n".join(f"The {c} baker waves to {i} old foxes." for i in range(60) for c in "abc")
    (path / "text.txt").write_text(lines)

    class AtStepThree:
        def after_step(self, run, report):
            if run.step == 3:
                os.kill(os.getpid(), signal.SIGINT)

    class Killed(BaseException):
        pass

    def kill(event):
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        config = recipe("gpt", ("test", {**TINY, "data.train": "text.txt"}))
        assert train_run(config, Path("runs/cut"), observers=[AtStepThree()]).stop == "interrupted"
        with pytest.raises(Killed):
            train_run(config, Path("runs/begun"), listeners=[kill])
    return path


@pytest.fixture
def cut(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Path("runs", "cut")


def test_a_verb_uses_the_newest_checkpoint_and_says_so(folder):
    done = command_line.headway("generate", "runs/cut", "The", "--max-tokens", "3", cwd=folder)
    assert "runs/cut has no evaluated model yet: step-3, its newest checkpoint" in done.stderr
    assert done.stdout
    done = command_line.headway("eval", "runs/cut", "--json", cwd=folder)
    assert "step-3" in done.stderr and done.stdout.startswith("{")
    assert family_of(folder / "runs" / "cut") == "gpt"


def test_the_first_evaluation_replaces_the_model_of_the_checkpoint(cut):
    assert model_path(cut) == cut / "checkpoints" / "step-3" / "model"
    command_line.headway("train", "--resume", str(cut), "--steps", "5", "--quiet", cwd=Path())
    assert model_path(cut) == cut / "model"
    assert not (cut / "checkpoints" / "step-5" / "model").exists()
    headway.load(cut)  # without a warning


def test_a_damaged_checkpoint_is_passed_over(cut):
    flip_one_bit(cut / "checkpoints" / "step-3" / "model" / "model.safetensors")
    with pytest.warns(HeadwayWarning, match="step-2"):
        headway.load(cut)
    flip_one_bit(cut / "checkpoints" / "step-2" / "state.safetensors")
    with pytest.raises(
        DataError, match=r"every checkpoint of the run is damaged: step-3: .*step-2"
    ):
        headway.load(cut)


def test_a_run_without_a_checkpoint_says_when_its_first_one_is_saved(cut):
    error = command_line.headway("generate", "runs/begun", "The", cwd=Path(), check=2).stderr
    assert "runs/begun holds no model yet" in error and "at step 2 or" in error
    assert "headway train --resume runs/begun" in error
    with pytest.raises(UsageError, match="holds no model yet"):
        headway.evaluate("runs/begun")


def test_a_best_model_that_was_removed_is_saved_again_by_the_resumed_run(cut):
    resume = ("train", "--resume", str(cut), "--steps", "5", "--quiet")
    command_line.headway(*resume, cwd=Path())
    shutil.rmtree(cut / "model")
    for name in ("step-3", "step-4"):
        shutil.rmtree(cut / "checkpoints" / name, ignore_errors=True)
    with pytest.raises(DataError, match="the best model of the run is missing") as caught:
        headway.load(cut)
    assert "headway train --resume runs/cut" in caught.value.hint
    command_line.headway(*resume, cwd=Path())
    headway.load(cut)
