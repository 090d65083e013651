"""Plans of `headway compare`: variants of one recipe, each with its changed settings."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from headway.base.config_files import read_yaml
from headway.base.errors import UsageError, did_you_mean

NAME = re.compile(r"[\w+=-][\w.+=-]*")


@dataclass(frozen=True)
class Variant:
    """A variant of a recipe: its name, and its changed settings."""

    name: str
    changes: Mapping[str, object]


@dataclass(frozen=True)
class Plan:
    """The plan of a comparison. common: the settings of all variants, by dotted key."""

    recipe: str
    variants: tuple[Variant, ...]
    common: Mapping[str, object] = field(default_factory=dict)
    title: str = ""
    seeds: tuple[int, ...] = (42,)

    def __post_init__(self) -> None:
        names = [variant.name for variant in self.variants]
        if len(names) < 2:
            raise UsageError(
                "a comparison needs at least two variants",
                hint="several values of a setting: --vary KEY=A,B",
            )
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"two variants are named {name!r}; their names must be different")
            if not NAME.fullmatch(name):
                raise UsageError(
                    f"variant {name!r}: the name may only have letters, digits and ._+=-"
                )
        if len(set(self.seeds)) != len(self.seeds) or not self.seeds:
            raise UsageError(f"seeds {self.seeds}: must be at least one number, and all different")

    def runs(self) -> Iterator[tuple[Variant, int, str]]:
        """Yield (variant, seed, name of the run folder), seed by seed."""
        for seed, variant in product(self.seeds, self.variants):
            yield variant, seed, f"{variant.name}-seed{seed}"


def read_plan(path: Path) -> Plan:
    """Read a plan from a YAML file: recipe, title, seeds, common: {...}, variants: {NAME: {...}}.

    UsageError for an invalid plan.
    """
    values = read_yaml(path)
    where = str(path)
    recipe = values.pop("recipe", None)
    title = values.pop("title", path.stem)
    seeds = values.pop("seeds", [42])
    common = _pop_section("common", values)
    variants: dict[str, dict[str, object]] = {}
    for key in list(values):
        top, _, rest = key.partition(".")
        name, _, setting = rest.partition(".")
        if top == "variants" and name and setting:
            variants.setdefault(name, {})[setting] = values[key]
        elif top == "variants" and name and not values[key]:
            variants.setdefault(name, {})  # the recipe without changes
        else:
            known = "recipe, title, seeds, common or variants"
            raise UsageError(f"unknown key {key!r}: must be {known}", where)
    if not isinstance(recipe, str):
        raise UsageError("recipe: must be the name of a recipe", where, "recipe: translate")
    if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds):
        raise UsageError(f"seeds: must be a list of whole numbers, not {seeds}", where)
    all_variants = tuple(Variant(name, changes) for name, changes in variants.items())
    return Plan(recipe, all_variants, common, str(title), tuple(seeds))


def _pop_section(section: str, values: dict[str, object]) -> dict[str, object]:
    """Remove the keys of a section from `values`, and return their values."""
    start = f"{section}."
    return {
        key.removeprefix(start): values.pop(key) for key in list(values) if key.startswith(start)
    }


def varied(recipe: str, choices: Sequence[str]) -> Plan:
    """The plan of all combinations: `model.num_heads=1,2,4 model.positions=alibi,rotary`."""
    axes = []
    for choice in choices:
        key, equals, values = choice.partition("=")
        if not equals or not key or not all(values.split(",")):
            raise UsageError(
                f"--vary {choice}: must be a setting and its values, such as model.num_heads=1,2,4"
            )
        axes.append([(key.strip().lstrip("-").replace("-", "_"), v) for v in values.split(",")])
    variants = []
    for settings in product(*axes):
        name = "_".join(f"{key.split('.')[-1]}={value}" for key, value in settings)
        variants.append(Variant(name, dict(settings)))
    title = " x ".join(choice.partition("=")[0] for choice in choices)
    return Plan(recipe, tuple(variants), {}, title)


def named_plan(name: str, plans: Mapping[str, Plan]) -> Plan:
    """The built-in plan of this name. UsageError if there is none."""
    if name not in plans:
        raise UsageError(
            f"unknown plan {name!r}" + did_you_mean(name, plans),
            hint=f"one of: {', '.join(plans)}; or a .yaml file; or a recipe with --vary KEY=A,B",
        )
    return plans[name]


def is_file_of_plan(name: str) -> bool:
    """Whether the name of a plan is that of its YAML file."""
    return name.endswith((".yaml", ".yml"))
