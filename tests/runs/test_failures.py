"""Errors that stop a run name its examples and its settings."""

import pytest
import torch

from headway.base.errors import HeadwayError, OutOfMemory, is_out_of_memory
from headway.base.settings import flat, override
from headway.cli.main import main
from headway.runs import recipe, recipes, train
from headway.runs.out_of_memory import less_memory
from headway.training import NonFinite
from tests.fixtures.language_model_runs import STORY, TINY


def configured(folder, **changes):
    (folder / "story.txt").write_text(STORY)
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return recipe("gpt-tiny", ("t", {**TINY, "data.train": str(folder / "story.txt"), **dotted}))


def test_a_language_model_that_is_not_finite_names_tokens_and_not_pairs(tmp_path):
    config = configured(tmp_path, optimizer__lr=1e9, training__clip=1e9, training__steps=50)
    with pytest.raises(NonFinite) as caught:
        train(config, tmp_path / "run")
    assert "sequences beginning at tokens" in caught.value.where
    assert "pairs" not in str(caught.value)


@pytest.mark.parametrize("name", recipes())
def test_advice_about_memory_names_settings_that_the_recipe_has(name):
    config = recipes()[name]()
    advice = less_memory(flat(config))
    flags = [word for word in advice.split() if word.startswith("--")]
    assert flags and all(
        flag.removeprefix("--").replace("-", "_") in flat(config) for flag in flags
    )
    first, *_ = advice.split("; ")
    words = first.replace("--", "").split()
    override(config, dict(zip(words[::2], words[1::2], strict=True)), "advice")


def test_a_run_that_needs_too_much_memory_names_settings_that_help(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes\nx")

    monkeypatch.setattr("headway.training.loop._Loop.step", fail)
    with pytest.raises(OutOfMemory) as caught:
        train(
            configured(tmp_path, training__batch_size=6, training__accumulate=2), tmp_path / "run"
        )
    assert "\n" not in caught.value.what
    assert caught.value.hint.startswith("--machine.micro-batches 2; ")
    assert "--training.recompute true" in caught.value.hint


def test_other_verbs_do_not_name_settings_of_training(monkeypatch, capsys, tmp_path):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr("headway.cli.runs._summary", fail)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.yaml").write_text("recipe: gpt\n")
    with pytest.raises(SystemExit) as leaving:
        main(["runs", "ls", str(tmp_path)])
    assert leaving.value.code == 4
    assert "--training" not in (reported := capsys.readouterr().err)
    assert "out of memory" in reported and "fewer or shorter inputs" in reported


def test_memory_errors_of_libraries_are_recognised():
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"))
    assert not is_out_of_memory(RuntimeError("shapes differ"))
    assert not is_out_of_memory(HeadwayError("the report says out of memory"))
