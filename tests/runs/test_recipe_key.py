"""The key `recipe` of a file of settings: used if no recipe is named, never recorded beside the
settings of another recipe."""

from operator import attrgetter

import pytest

import headway
from headway.base.errors import DataError, UsageError
from headway.runs import recipe, saved, with_settings
from tests.fixtures import command_line

TINY = {
    **{"model.model_dim": 24, "model.num_heads": 4, "model.ffn_dim": 40, "model.num_layers": 1},
    **{"model.max_length": 48, "training.length": 32, "data.vocabulary": 270},
    **{"machine.threads": 1, "training.steps": 2},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = "\n".join(f"The {c} baker waves to {i} old foxes." for i in range(60) for c in "abc")
    (tmp_path / "text.txt").write_text(lines)
    settings = "".join(f"{key}: {value}\n" for key, value in TINY.items())
    (tmp_path / "gpt.yaml").write_text(f"recipe: gpt\n{settings}")
    (tmp_path / "bert.yaml").write_text(f"recipe: bert-tiny\n{settings}")
    return tmp_path


def test_a_file_of_another_recipe_is_refused_with_its_name_and_key(folder):
    words = ("train", "gpt", "text.txt", "--config", "bert.yaml")
    error = command_line.headway(*words, cwd=folder, check=2).stderr
    assert "recipe=bert-tiny: must be gpt" in error and "at   bert.yaml" in error
    assert not (folder / "runs").exists()
    error = command_line.headway("train", "gpt", "text.txt", "--recipe", "x", cwd=folder, check=2)
    assert "recipe=x: must be gpt" in error.stderr


@pytest.mark.parametrize("value", ["bert-tiny", "gpt-tiny", "nonsense", 3, ["gpt"], None, True])
def test_settings_never_change_the_recipe(value):
    with pytest.raises(UsageError, match=r"recipe=.*: must be gpt"):
        with_settings(recipe("gpt"), ("x.yaml", {"recipe": value}))
    with pytest.raises(UsageError, match=r"recipe=.*: must be gpt"):
        headway.train("gpt", settings={"recipe": value})


def test_a_task_stands_for_its_first_recipe():
    named = with_settings(recipe("translate"), ("x.yaml", {"recipe": "translation"}))
    assert named.recipe == "translate"


def test_the_recipe_of_the_file_is_trained_if_none_is_named(folder):
    command_line.headway("train", "text.txt", "--config", "gpt.yaml", "--quiet", cwd=folder)
    assert saved(folder / "runs" / "gpt").recipe == "gpt"
    words = ("train", "--config", "gpt.yaml", "--data", "text.txt", "--run", "b", "--quiet")
    command_line.headway(*words, cwd=folder)
    assert saved(folder / "runs" / "b").model.model_dim == 24
    error = command_line.headway("train", "gtp", "--config", "gpt.yaml", cwd=folder, check=2).stderr
    assert "unknown recipe 'gtp'. Did you mean gpt?" in error


def test_a_resumed_run_keeps_its_recipe(folder):
    words = ("train", "text.txt", "--config", "gpt.yaml", "--quiet")
    command_line.headway(*words, cwd=folder)
    words = ("train", "--resume", "runs/gpt", "--config", "bert.yaml")
    assert "at   bert.yaml" in command_line.headway(*words, cwd=folder, check=2).stderr


@pytest.mark.parametrize(
    "content", ["", "# nothing\n", "recipe:\n", "recipe: [a]\n", "recipe: nonsense\n", "steps: 3\n"]
)
def test_a_run_file_without_its_recipe_is_refused_with_its_path(tmp_path, content):
    (tmp_path / "run.yaml").write_text(content)
    with pytest.raises(
        DataError, match=r"(not the configuration of a run|unknown recipe)"
    ) as caught:
        saved(tmp_path)
    assert caught.value.where == str(tmp_path / "run.yaml")


@pytest.mark.parametrize("content", ["- a\n- b\n", "text\n", "{", "\x00", "3\n"])
def test_a_run_file_that_is_no_mapping_is_refused_with_its_path(tmp_path, content):
    (tmp_path / "run.yaml").write_text(content)
    with pytest.raises(DataError) as caught:
        saved(tmp_path)
    assert caught.value.where.startswith(str(tmp_path / "run.yaml"))


@pytest.mark.parametrize(
    "name", ["gpt", "gpt-tiny", "gpt-shakespeare", "translate", "text-to-text"]
)
def test_a_named_size_is_whole_whatever_the_recipe_has(name):
    """gpt2-small kept the grouped queries, the norms and the positions of the recipe."""
    kind = type(recipe(name).model)
    for size, shape in kind.sizes.items():
        model = recipe(name, ("test", {"model.size": size})).model
        other = recipe(name, ("test", {"model.size": size}), ("test", {"model.dropout": 0.0})).model
        assert {key: attrgetter(key)(model) for key in shape} == shape
        own = {key: value for key, value in shape.items() if "." not in key}
        expected = kind(**{**own, "dropout": 0.0})
        for key in ("num_layers", "num_kv_heads", "norm_kind", "activation", "positions"):
            assert getattr(other, key, None) == getattr(expected, key, None), (size, key)
