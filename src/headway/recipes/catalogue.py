"""The named recipes. Each docstring says what it costs and what score to expect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headway.config_files import read_yaml
from headway.errors import UsageError, did_you_mean
from headway.recipes import encoder_catalogue as encoders
from headway.settings import differences, fields_of, override
from headway.tasks.registry import TASKS, task, tasks

AnyRunConfig = Any
"""The configuration of a run, of whatever task: a dataclass with sections (`tasks.sections`)."""


RECIPES: dict[str, Callable[[], Any]] = {
    "distil": encoders.distil,
    "distil-tag": encoders.distil_tag,
    "distil-answer": encoders.distil_answer,
    "distil-gpt": encoders.distil_gpt,
    "distil-encoder": encoders.distil_encoder,
}


for _name in tasks():
    RECIPES |= task(_name).recipes


def recipe(name: str, *layers: tuple[str, Mapping[str, Any]]) -> AnyRunConfig:
    """A recipe with changes laid over it, in order: (whose words, {dotted key: value}).

    name: a recipe, or a task, whose first recipe is taken. `model.size` in any layer is applied
    first, so that other model settings refine it.
    """
    resolved_name = resolved(name)
    if resolved_name is None:
        raise UsageError(
            f"unknown recipe {name!r}" + did_you_mean(name, [*RECIPES, *TASKS]),
            hint="one of: " + ", ".join(RECIPES),
        )
    return amended(RECIPES[resolved_name](), *layers)


def resolved(name: str) -> str | None:
    """The recipe of that name, or the first one of the task of that name; None if there is none."""
    if name in RECIPES:
        return name
    return next(iter(task(name).recipes)) if name in TASKS else None


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
    values = read_yaml(path)
    named = values.get("recipe", "translate")
    usual = type(recipe(named))()
    metric = values.get("evaluation.metric")
    if isinstance(metric, str) and metric not in fields_of(usual)["evaluation.metric"].expects:
        # an earlier version negated what is better where it is lower
        values["evaluation.metric"] = metric.removeprefix("negative_")
    return override(usual, values, str(path))


def check_same(folder: Path, settings: AnyRunConfig) -> None:
    """UsageError if the run in `folder` was configured differently; what data decided aside."""
    if not (folder / "run.yaml").is_file():
        return
    before = saved(folder)
    if type(before) is not type(settings):
        raise UsageError(f"{folder} is a run of {before.recipe}", hint="--run OTHERNAME")
    decided = settings.decided_by_data
    found = [d for d in differences(before, settings) if d[0] not in decided]
    if found:
        shown = "; ".join(f"{key}: {old} there, {new} now" for key, old, new in found[:5])
        raise UsageError(
            f"{folder} is a run with other settings: {shown}",
            hint=f"--run OTHERNAME for a new run; or headway train --resume {folder} with the "
            "settings to change",
        )


def config_classes() -> list[type[AnyRunConfig]]:
    """The classes of all recipes' configurations, each once."""
    return list(dict.fromkeys(type(make()) for make in RECIPES.values()))
