"""The named recipes of all tasks. The docstring of a recipe has its cost and expected scores."""

from collections.abc import Callable, Mapping, Set
from functools import cache
from pathlib import Path

from headway.base.config_files import RECIPE, RUN_FILE, read_run_file
from headway.base.errors import DataError, UsageError, did_you_mean
from headway.base.files import TEMPORARY, check_name
from headway.base.settings import differences, flat, override
from headway.tasks.registry import TASKS, owner_of_recipe, task_of_config, tasks
from headway.tasks.registry import task as task_named
from headway.tasks.sections import RunSettings, batch_setting, unset_settings
from headway.training import CHECKPOINTS, MODEL

AnyRunConfig = RunSettings
"""The configuration of a run of any task."""

Layer = tuple[str, Mapping[str, object]]
"""Changes of a configuration: their source, for error messages, and values by dotted key."""


BATCH_SETTINGS = {"training.batch_size", "training.tokens", "training.accumulate"}
"""The settings that determine how many examples an update has."""


@cache
def recipes() -> dict[str, Callable[[], AnyRunConfig]]:
    """The recipes of all tasks by name. UsageError if two tasks have recipes of the same name."""
    makers: dict[str, Callable[[], AnyRunConfig]] = {}
    owners: dict[str, str] = {}
    for owner, names in tasks().items():
        for name in names:
            if name in makers:
                raise UsageError(
                    f"the tasks {owners[name]} and {owner} both have a recipe named {name}",
                    hint=f"uninstall the package of {owner}, or rename its recipe",
                )
            makers[name], owners[name] = task_named(owner).recipes[name], owner
    return makers


def _maker(name: str) -> Callable[[], AnyRunConfig] | None:
    """The function of a recipe, or None. Only its task is imported, if the registry names it."""
    owner = None if recipes.cache_info().currsize else owner_of_recipe(name)
    return recipes().get(name) if owner is None else task_named(owner).recipes[name]


def recipe(name: str, *layers: Layer) -> AnyRunConfig:
    """The configuration of a recipe, with changed settings.

    name: a recipe, or a task, which selects its first recipe. layers: changes in order.
    `model.size` in any layer is applied first, so that other model settings refine it. For a task
    that `Derives`, the layers must name the model that determines its sections; without layers, the
    configuration has the sections of all its runs.
    UsageError for an unknown recipe or setting.
    """
    resolved_name = resolved(name)
    make = None if resolved_name is None else _maker(resolved_name)
    if make is None:
        raise UsageError(
            f"unknown recipe {name!r}" + did_you_mean(name, [*recipes(), *TASKS]),
            hint="one of: " + ", ".join(recipes()),
        )
    settings = {key: value for _, changes in layers for key, value in changes.items()}
    return with_settings(_derived(make(), settings), *layers)


def _derived(config: AnyRunConfig, settings: Mapping[str, object]) -> AnyRunConfig:
    """The configuration with the sections that the settings decide, for a task that `Derives`."""
    derives = task_of_config(config).derives
    return derives.configure(config, settings) if settings and derives is not None else config


def resolved(name: str) -> str | None:
    """The recipe of this name, or the first recipe of the task of this name; None if unknown."""
    if _maker(name) is not None:
        return name
    return next(iter(task_named(name).recipes)) if name in TASKS else None


def sized(config: AnyRunConfig, name: str, where: str) -> AnyRunConfig:
    """A configuration whose model has a named size."""
    size = type(config.model).sizes[name]
    return override(config, {f"model.{key}": value for key, value in size.items()}, where)


def with_settings(config: AnyRunConfig, *layers: Layer) -> AnyRunConfig:
    """A configuration with changed settings; layers as in `recipe`."""
    sizes = type(config.model).sizes
    shape = {f"model.{key}" for name in config.training.sizes for key in sizes[name]}
    for where, changes in layers:
        _check_recipe(config.recipe, changes, where)
    for where, changes in layers:
        if (size := changes.get("model.size")) is not None:
            if not sizes:
                raise UsageError(
                    "model.size cannot be set: the model that the run starts from has its size",
                    where,
                )
            if size not in sizes:
                raise UsageError(f"model.size={size}: must be one of {', '.join(sizes)}", where)
            config = sized(config, str(size), f"size {size}")
    for where, changes in layers:
        applied = ("model.size", RECIPE)
        plain = {key: value for key, value in changes.items() if key not in applied}
        if plain.keys() & BATCH_SETTINGS:  # the user's batch size stays
            plain.setdefault("training.updates", 0)
        if changes.keys() & {"model.size", *shape}:  # the user's size stays
            plain.setdefault("training.sizes", ())
        config = override(config, plain, where)
        if unknown := set(config.training.sizes) - sizes.keys():
            listed = ", ".join(sorted(unknown))
            raise UsageError(
                f"training.sizes={listed}: must be one of {', '.join(sizes) or 'no size'}", where
            )
    return config


def _check_recipe(name: str, changes: Mapping[str, object], where: str) -> None:
    """UsageError if the changes name another recipe than the one whose settings they change.

    A run that recorded another recipe could be neither resumed nor evaluated: the settings of its
    run.yaml would be read as those of the other recipe.
    """
    named = changes.get(RECIPE, name)
    if named != name and not (isinstance(named, str) and resolved(named) == name):
        raise UsageError(
            f"{RECIPE}={named}: must be {name}, the recipe whose settings are changed",
            where,
            f"leave out the key {RECIPE} there to use its other settings for {name}; or train the "
            f"recipe that it names",
        )


def saved(folder: Path) -> AnyRunConfig:
    """The configuration of a run folder.

    UsageError if the folder is not a run; DataError if its run.yaml is not that of a run.
    """
    path = folder / RUN_FILE
    values = read_run_file(folder)
    name = str(values[RECIPE])
    if resolved(name) is None:
        raise DataError(
            f"the run has the unknown recipe {name!r}{did_you_mean(name, recipes())}",
            str(path),
            "install the package that provides the recipe, or correct the name",
        )
    defaults = _derived(type(recipe(name))(), values)
    return override(defaults, values, str(path))


def beside_recipe(config: AnyRunConfig) -> list[tuple[str, object, object]]:
    """The settings that differ from those of the recipe: (key, value of the recipe, value)."""
    usual = flat(recipe(config.recipe))
    return [
        (key, usual.get(key), value)
        for key, value in flat(config).items()
        if usual.get(key) != value
    ]


def saved_or_none(folder: Path) -> AnyRunConfig | None:
    """The configuration of a run folder; None for another folder, such as that of a model."""
    return saved(folder) if (folder / RUN_FILE).is_file() else None


def run_folder(name: str) -> Path:
    """The folder of a run, runs/NAME. UsageError if the name cannot be a folder name."""
    if not name.strip(". ") or Path(name).name != name:
        raise UsageError(f"--run {name!r}: must be a name, not a path; the folder is runs/NAME")
    check_name(name, "--run")
    return Path("runs") / name


def is_trained(folder: Path) -> bool:
    """Whether the run in the folder has saved a checkpoint or a model."""
    checkpoints = (folder / CHECKPOINTS).glob("*")
    return (folder / MODEL).exists() or any(
        not TEMPORARY.fullmatch(path.name) for path in checkpoints
    )


def check_same(folder: Path, settings: AnyRunConfig) -> None:
    """UsageError if `folder` has a trained run with other settings; those that the data or the
    machine decide may differ."""
    before = saved_or_none(folder) if is_trained(folder) else None
    if before is None:
        return
    if type(before) is not type(settings):
        raise UsageError(
            f"{folder} has a run of another recipe: {before.recipe}",
            hint="choose another name with --run",
        )
    if keys := sorted(flat(before).keys() ^ flat(settings).keys()):
        raise UsageError(
            f"{folder} has a run of {before.recipe} with the settings of another kind of model: "
            f"{', '.join(keys[:5])}",
            hint="choose another name with --run",
        )
    if shown := changes_of(before, settings):
        task_of_config(settings).check(settings)  # a mistyped file is not another configuration
        raise UsageError(
            f"{folder} has a run with other settings: {shown}",
            hint="choose another name with --run for a new run; or change settings of this one: "
            f"headway train --resume {folder} --SETTING VALUE",
        )


def changes_of(
    before: AnyRunConfig,
    settings: AnyRunConfig,
    prefix: str = "",
    ignored: Set[str] = frozenset(),
) -> str:
    """Name the settings that differ, up to five, for a message; "" if none does.

    prefix: of the keys that are compared. ignored: keys that may differ, besides those that the
    data or the machine decide.
    """
    ignored = ignored | settings.decided_by_data | decided_by_machine(settings)
    changes = [
        f"{key}: {old} in the run, {new} now"
        for key, old, new in differences(before, settings)
        if key.startswith(prefix) and key not in ignored
    ]
    return "; ".join(changes[:5])


def shape_settings(settings: AnyRunConfig) -> frozenset[str]:
    """The dotted keys of the model's settings that a time limit may change (`training.sizes`).

    None without a time limit, or if a pre-trained model decides some of them.
    """
    if settings.training.time is None:
        return frozenset()
    sizes = type(settings.model).sizes
    keys = frozenset(f"model.{key}" for name in settings.training.sizes for key in sizes[name])
    return keys if keys.isdisjoint(settings.decided_by_data) else frozenset()


def decided_by_machine(settings: AnyRunConfig) -> frozenset[str]:
    """The dotted keys of the settings that are measured when a run begins, and recorded in it."""
    own = ("machine.threads", "machine.graphs", "machine.micro_batches")
    decided = unset_settings(settings, *own, *settings.machine_may_decide)
    if settings.machine.dtype == "auto":
        decided |= {"machine.dtype"}
    decided |= shape_settings(settings)
    batch = batch_setting(settings)
    return decided if batch is None else decided | {batch}


def configurations() -> list[AnyRunConfig]:
    """A configuration of each task, or one of each variant of a task that `Derives`."""
    configs: list[AnyRunConfig] = []
    for name in tasks():
        task = task_named(name)
        configs += [task.config()] if task.derives is None else task.derives.variants()
    return configs
