"""Flags from dataclasses of settings: the one way in which a verb gets its flags.

A field `top: int = setting(10, "Number of texts.", ge=1)` is the flag --top. Help, type, limits and
names come from the field, and `base.settings` parses and checks the value for every verb.

    @as_flags            a class of the verb's own, whose object is a parameter of the verb
    @takes(fields)       fields of other dataclasses; the verb gets those that were set, by name
    split_words(words)   those of a recipe, which is known only after the first words were read
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeVar, dataclass_transform, get_args, get_origin

from cyclopts import Parameter, Token

from headway.base.errors import UsageError, did_you_mean
from headway.base.settings import (
    COMMAND_LINE,
    Configuration,
    Field,
    Most,
    checked,
    declared,
    setting,
)

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")

OUTPUT = Parameter(name=("--output", "-o"))
"""The flag of a new file or folder, in every command that writes one."""
RUN = Parameter(help="A run folder or a model folder.")
"""The first argument of most commands."""
QUIET = Parameter(name=("--quiet", "-q"))
SEVERAL = Parameter(consume_multiple=True)
"""A flag that may be followed by several values."""
WORDS = Parameter(allow_leading_hyphen=True, show=False)
"""Arguments that are parsed by `split_words`."""

SHORT = {
    "model": "model.size",
    "data": "data.train",
    "from": "training.start",
    "teacher": "training.teacher",
    "from-encoder": "training.encoder",
    "from-decoder": "training.decoder",
    "source": "data.source",
    "target": "data.target",
    "valid": "data.valid",
    "test": "data.test",
    "column": "data.column",
    "text": "data.text",
    "label": "data.label",
    "steps": "training.steps",
    "epochs": "training.epochs",
    "time": "training.time",
    "objective": "objective.kind",
    "seed": "training.seed",
    "device": "machine.device",
    "dtype": "machine.dtype",
    "threads": "machine.threads",
    "fast": "machine.fast",
    "compile": "machine.compile",
    "graphs": "machine.graphs",
}
"""Short names of the most used settings of a run."""

PORTS = Most(65_535, "the largest port number")

DOT = "__"
"""Replaces the dot of --data.text in the name of an argument."""


def _checking(field: Field) -> Parameter:
    """How a flag is parsed: by `base.settings`, except for switches and lists of texts."""
    shown = False if field.default in ("", ()) else None
    kinds = (field.type, *get_args(field.type))
    if field.type is bool or any(get_origin(kind) is list for kind in kinds):
        return Parameter(show_default=shown)
    return Parameter(converter=partial(_parsed, field), show_default=shown)


def _parsed(field: Field, _: object, tokens: Sequence[Token]) -> object:
    """The value of a flag. ValueError for a wrong one, whose cause is a UsageError."""
    values = [token.value for token in tokens]
    named = dataclasses.replace(field, key=tokens[0].keyword or spelled(field.key))
    return checked(named, values[0] if len(values) == 1 else values, COMMAND_LINE)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def as_flags(config_class: type[T]) -> type[T]:
    """Make a class a frozen dataclass whose fields are flags of a verb with such a parameter."""
    hints = typing.get_type_hints(config_class, include_extras=True)
    # before `dataclass` copies them: names of this module are unknown in that of a derived class
    config_class.__annotations__ = {name: hints[name] for name in config_class.__annotations__}
    config_class = dataclass(frozen=True, kw_only=True)(config_class)
    for name, field in declared(typing.cast(type[Configuration], config_class)).items():
        config_class.__annotations__[name] = Annotated[hints[name], _checking(field)]
    return Parameter(name="*")(config_class)


@as_flags
class PrintFlags:
    """The form of what a command prints."""

    json: bool = setting(False, "Print JSON objects instead of text.")


TEXT = PrintFlags()


def takes(fields: Mapping[str, Field]) -> Callable[[F], F]:
    """Add flags to a verb, in the place of its parameter `**settings`.

    fields: settings by dotted key. The verb gets the values that were set on the command line, by
    the same keys. A field with the default `dataclasses.MISSING` is required.
    """
    added = [_argument(key, field) for key, field in fields.items()]

    def decorate(verb: F) -> F:
        def run(*arguments: object, **named: object) -> object:
            return verb(*arguments, **{key.replace(DOT, "."): x for key, x in named.items()})

        *own, last = inspect.signature(verb, eval_str=True).parameters.values()
        assert last.kind is last.VAR_KEYWORD
        first = [parameter for parameter in own if parameter.kind is not parameter.KEYWORD_ONLY]
        parameters = [*first, *added, *(p for p in own if p not in first)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.__doc__, run.__name__ = verb.__doc__, verb.__name__
        return typing.cast(F, run)

    return decorate


def spelled(key: str) -> str:
    """A setting on the command line: --top-k, --data.text."""
    return f"--{key.replace('_', '-')}"


def _argument(key: str, field: Field) -> inspect.Parameter:
    parameter = OUTPUT if key == "output" else Parameter(name=spelled(key))
    parameter = Parameter.combine(parameter, Parameter(help=field.help))
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(
        key.replace(".", DOT),
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[field.type, parameter, _checking(field)],
    )


def check_name(name: str, names: Iterable[str], what: str, hint: str | None = None) -> None:
    """UsageError if an argument is none of the names. what: what they name, such as a figure."""
    if name not in (known := list(names)):
        meant = did_you_mean(name, known)
        raise UsageError(
            f"unknown {what} {name!r}{meant}", hint=hint or "one of: " + ", ".join(known)
        )


def split_words(words: Sequence[str]) -> tuple[list[str], dict[str, object]]:
    """The arguments without dashes, and the settings: --a.b VALUE, --a.b=VALUE or --a.b (true)."""
    arguments: list[str] = []
    settings: dict[str, object] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            if word.startswith("-") and len(word) > 1:
                raise UsageError(f"unknown option {word}", hint="--help lists all options")
            arguments.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        settings[SHORT.get(name, name.replace("-", "_"))] = value
    return arguments, settings
