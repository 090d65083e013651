"""The named recipes. Each docstring says what it costs and what score to expect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headway.config_files import read_yaml
from headway.errors import UsageError, did_you_mean
from headway.settings import differences, flat, override
from headway.tasks.registry import TASKS, task_of_config, tasks
from headway.tasks.registry import task as task_named
from headway.tasks.task import Derived

AnyRunConfig = Any
"""The configuration of a run, of whatever task: a dataclass with sections (`tasks.sections`)."""


def _recipes() -> dict[str, Callable[[], AnyRunConfig]]:
    """Those of all tasks. UsageError if two tasks have one of the same name."""
    recipes: dict[str, Callable[[], AnyRunConfig]] = {}
    owners: dict[str, str] = {}
    for owner, names in tasks().items():
        for name in names:
            if name in recipes:
                raise UsageError(
                    f"the tasks {owners[name]} and {owner} both have a recipe called {name}",
                    hint=f"uninstall the package of {owner}, or rename its recipe",
                )
            recipes[name], owners[name] = task_named(owner).recipes[name], owner
    return recipes


RECIPES = _recipes()


def recipe(name: str, *layers: tuple[str, Mapping[str, Any]]) -> AnyRunConfig:
    """A recipe with changes laid over it, in order: (whose words, {dotted key: value}).

    name: a recipe, or a task, whose first recipe is taken. `model.size` in any layer is applied
    first, so that other model settings refine it. Of a `Derived` task, the layers must name the
    model that decides its sections; without any, they are those that all its runs have.
    """
    resolved_name = resolved(name)
    if resolved_name is None:
        raise UsageError(
            f"unknown recipe {name!r}" + did_you_mean(name, [*RECIPES, *TASKS]),
            hint="one of: " + ", ".join(RECIPES),
        )
    settings = {key: value for _, changes in layers for key, value in changes.items()}
    return amended(_derived(RECIPES[resolved_name](), settings), *layers)


def _derived(config: AnyRunConfig, settings: Mapping[str, Any]) -> AnyRunConfig:
    """With the sections that follow from the settings, of a task that has such."""
    task = task_of_config(config)
    return task.derived(config, settings) if settings and isinstance(task, Derived) else config


def resolved(name: str) -> str | None:
    """The recipe of that name, or the first one of the task of that name; None if there is none."""
    if name in RECIPES:
        return name
    return next(iter(task_named(name).recipes)) if name in TASKS else None


def amended(config: AnyRunConfig, *layers: tuple[str, Mapping[str, Any]]) -> AnyRunConfig:
    """`config` with changes laid over it."""
    sizes = type(config.model).sizes
    for where, changes in layers:
        if (size := changes.get("model.size")) is not None:
            if not sizes:
                raise UsageError("model.size: the model it starts from has its size", where)
            if size not in sizes:
                raise UsageError(f"model.size={size}: must be one of {', '.join(sizes)}", where)
            named = {f"model.{key}": value for key, value in sizes[size].items()}
            config = override(config, named, f"size {size}")
    for where, changes in layers:
        plain = {key: value for key, value in changes.items() if key != "model.size"}
        config = override(config, plain, where)
    return config


def saved(folder: Path) -> AnyRunConfig:
    """The configuration that a run folder was trained with; its recipe says of which class."""
    path = folder / "run.yaml"
    if not path.is_file():
        raise UsageError(f"{folder} is not a run folder: it has no run.yaml")
    values = _upgraded(read_yaml(path))
    named = values.get("recipe", "translate")
    usual = _derived(type(recipe(named))(), values)
    if isinstance(metric := values.get("evaluation.metric"), str):
        # an earlier version negated what is better where it is lower
        values["evaluation.metric"] = metric.removeprefix("negative_")
    return override(usual, values, str(path))


def _upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a run.yaml, by the names of today."""
    for task in map(task_named, tasks()):
        if isinstance(task, Derived) and values.get("recipe") in task.former_recipes:
            return dict(task.upgraded(values))
    return values


def check_same(folder: Path, settings: AnyRunConfig) -> None:
    """UsageError if the run in `folder` was configured differently; what data decided aside."""
    if not (folder / "run.yaml").is_file():
        return
    before = saved(folder)
    if type(before) is not type(settings):
        raise UsageError(f"{folder} is a run of {before.recipe}", hint="--run OTHERNAME")
    if other := sorted(flat(before).keys() ^ flat(settings).keys()):
        raise UsageError(
            f"{folder} is a run of {before.recipe} with settings for another kind of model: "
            f"{', '.join(other[:5])}",
            hint="--run OTHERNAME",
        )
    decided = settings.decided_by_data
    found = [d for d in differences(before, settings) if d[0] not in decided]
    if found:
        shown = "; ".join(f"{key}: {old} there, {new} now" for key, old, new in found[:5])
        raise UsageError(
            f"{folder} is a run with other settings: {shown}",
            hint=f"--run OTHERNAME for a new run; or headway train --resume {folder} with the "
            "settings to change",
        )


def configurations() -> list[AnyRunConfig]:
    """One for each task, with the settings of all its recipes; of a `Derived` task each variant."""
    made: list[AnyRunConfig] = []
    for name in tasks():
        task = task_named(name)
        made += task.variants() if isinstance(task, Derived) else [task.config()]
    return made
