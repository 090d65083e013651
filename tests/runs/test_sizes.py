"""The size of the model that a time limit buys: the rule, who keeps what, and what is recorded."""

from dataclasses import replace

import pytest
import yaml

import headway
from headway.base.errors import UsageError
from headway.comparisons.compare import settings_of
from headway.comparisons.plans import varied
from headway.runs import pace, recipe, recipes
from headway.runs.pace import Pace
from headway.runs.recipes import shape_settings
from tests.fixtures import command_line
from tests.fixtures.images import write_shades

SHORT = {
    "training.time": "60s",
    "training.steps": 2,
    "training.average": 0,
    "evaluation.every": 2,
    "machine.threads": 1,
    "machine.device": "cpu",
    "machine.dtype": "float32",
}
MINI = {"model_dim": 64, "num_heads": 4, "ffn_dim": 128, "num_layers": 4}


def slower_by_width(monkeypatch, updates=100, epochs=1.0):
    """A machine on which a model of width 128 makes this many updates, and a narrower one more.

    Returns the widths that are measured.
    """
    widths = []

    def measured(job, machine):
        widths.append(job.config.model.model_dim)
        faster = (128 / widths[-1]) ** 2
        return Pace(1.0, int(updates * faster), epochs * faster, is_limited_by_time=True)

    monkeypatch.setattr(pace, "measured", measured)
    return widths


@pytest.fixture
def train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_shades(tmp_path / "shades")

    def run(**changes):
        settings = {**SHORT, **{key.replace("__", "."): value for key, value in changes.items()}}
        return headway.train("vision", data="shades", run="x", settings=settings, quiet=True)

    return run


def shape_of(run):
    return {name: getattr(run.config.model, name) for name in MINI}


@pytest.mark.parametrize(
    ("updates", "epochs", "is_limited", "is_enough"),
    [
        (8456, 32.0, True, True),  # Multi30k, 45 minutes of two cores
        (774, 4.9, True, False),  # CIFAR-10, five minutes of two cores limited to AVX2
        (230, 1.2, True, False),  # Fashion-MNIST, five minutes of a busy thread
        (2000, 0.05, True, True),  # a million images
        (60, 20.0, True, True),  # a few hundred images
        (60, 0.1, False, True),  # the user's number of steps ends the run
    ],
)
def test_a_model_is_large_enough_by_updates_or_by_epochs(updates, epochs, is_limited, is_enough):
    assert Pace(1.0, updates, epochs, is_limited_by_time=is_limited).is_enough == is_enough


def test_a_short_time_trains_the_smaller_size_and_says_why(train, monkeypatch):
    widths = slower_by_width(monkeypatch)
    run = train(training__updates=0)
    assert widths == [128, 64] and shape_of(run) == MINI
    recorded = yaml.safe_load((run.folder / "run.yaml").read_text())
    assert {name: recorded["model"][name] for name in MINI} == MINI
    (plan,) = run.history("plan")
    assert plan["buys"] == (
        "60s is enough for about 400 updates, 4 epochs; the model is mini, because 60s buys 1 "
        "epochs of the recipe's and 4 of mini; --model tiny keeps the recipe's"
    )


def test_the_batch_of_the_smaller_size_is_halved_after_it(train, monkeypatch):
    slower_by_width(monkeypatch, updates=20)
    run = train(training__updates=600, training__steps=700, training__time="0.2s")
    assert shape_of(run) == MINI and "--model tiny keeps" in run.history("plan")[0]["buys"]


@pytest.mark.parametrize(
    "changes",
    [
        {"model__size": "tiny"},
        {"model__num_layers": 6},
        {"training__sizes": ()},
        {"training__time": None},
    ],
)
def test_a_size_of_the_user_and_a_run_without_a_time_limit_keep_the_model(
    train, monkeypatch, changes
):
    widths = slower_by_width(monkeypatch)
    run = train(training__updates=0, **changes)
    assert 64 not in widths and shape_of(run) == {
        **MINI,
        "model_dim": 128,
        "ffn_dim": 512,
        "num_layers": 6,
    }


def test_a_setting_that_is_no_size_keeps_the_choice(train, monkeypatch):
    slower_by_width(monkeypatch)
    run = train(training__updates=0, model__dropout=0.1)
    assert shape_of(run) == MINI and run.config.model.dropout == 0.1


def test_a_smaller_size_that_is_no_faster_is_not_trained(train, monkeypatch):
    """As on a GPU, where a small step takes as long as a large one."""
    few = Pace(1.0, 100, 0.5, is_limited_by_time=True)
    monkeypatch.setattr(pace, "measured", lambda job, machine: few)
    assert train(training__updates=0).config.model.model_dim == 128


def test_the_same_command_and_resume_go_on_with_the_size_of_the_run(train, monkeypatch):
    widths = slower_by_width(monkeypatch)
    assert shape_of(train(training__updates=0)) == MINI
    widths.clear()
    again = train(training__updates=0)
    assert not widths and shape_of(again) == MINI
    with pytest.raises(UsageError, match=r"training\.sizes"):
        train(training__updates=0, model__size="tiny")
    command_line.headway("train", "--resume", "runs/x", "--steps", "3", cwd=again.folder.parents[1])
    resumed = yaml.safe_load((again.folder / "run.yaml").read_text())
    assert resumed["model"]["model_dim"] == 64 and resumed["training"]["steps"] == 3


def test_a_pre_trained_model_keeps_its_size():
    timed = {"training.time": "5m"}
    assert shape_settings(recipe("vision", ("x", timed)))
    assert not shape_settings(recipe("vision", ("x", {**timed, "training.start": "runs/dino"})))
    assert not shape_settings(recipe("caption", ("x", {**timed, "training.encoder": "runs/dino"})))
    assert not shape_settings(recipe("caption", ("x", {**timed, "training.decoder": "runs/gpt"})))


def test_a_size_that_the_model_does_not_have_is_refused():
    with pytest.raises(UsageError, match=r"training\.sizes=huge: must be one of mini, tiny"):
        recipe("vision", ("x", {"training.sizes": ("huge",)}))
    with pytest.raises(UsageError, match=r"training\.sizes=mini: must be one of no size"):
        recipe("classify", ("x", {"training.sizes": ("mini",)}))


def test_the_sizes_of_every_recipe_are_sizes_of_its_model():
    """They change the model, and the settings that they change are known."""
    tables = {name: make().training.sizes for name, make in recipes().items()}
    assert tables["vision"] == ("mini",)
    assert not any(tables[name] for name in ("translate", "translate-multi30k", "gpt-shakespeare"))
    for name, sizes in tables.items():
        config = recipe(name)
        timed = replace(config, training=replace(config.training, time="5m"))
        assert bool(shape_settings(timed)) == bool(sizes), name
        for size in sizes:
            assert recipe(name, ("x", {"model.size": size})).model != config.model


def test_a_time_limit_changes_no_size_of_a_comparison():
    plan = varied("vision", ["model.dropout=0,0.1"])
    (config, *_) = settings_of(
        plan, [("x", {"training.time": "5m", "data.train": ("digits",)})]
    ).values()
    assert not shape_settings(config)


@pytest.mark.parametrize("verb", ["train --dry-run", "plan"])
def test_a_dry_run_and_a_plan_name_the_size(tmp_path, monkeypatch, verb):
    slower_by_width(monkeypatch)
    write_shades(tmp_path / "shades")
    command = f"{verb} vision shades --time 60s --threads 1 --training.updates 0".split()
    done = command_line.headway(*command, cwd=tmp_path)
    assert "the model is mini, because 60s buys 1 epochs" in done.stdout + done.stderr
    kept = command_line.headway(*command, "--model", "tiny", cwd=tmp_path)
    assert "mini" not in kept.stdout + kept.stderr
