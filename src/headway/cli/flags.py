"""Flags that several verbs share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from headway.machine import Machine
from headway.settings import BEAMS, COMMAND_LINE, MOST, PENALTY, Most

if TYPE_CHECKING:
    from headway.bundle import Bundle

B = TypeVar("B")


def check_number(kind: Any, value: Any, least: float | int = -MOST, most: Most = MOST) -> None:
    """ValueError for a number, or one of several, that is not from `least` to `most`; a NaN never
    is. For flags of the command line: settings have limits of their own."""
    for number in value if isinstance(value, list | tuple) else (value,):
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        if math.isnan(number):
            raise ValueError("Must be a finite number.")
        if not number >= least:
            raise ValueError(f"Must be a number of at least {least:,}.")
        if not number <= most:
            raise ValueError(f"Must be at most {most:,}: {most.reason}.")


def number(help: str, consume_multiple: bool = False) -> Parameter:
    """Of a flag in a dataclass of flags, which the app's own validator does not reach."""
    return Parameter(validator=check_number, help=help, consume_multiple=consume_multiple)


def between(least: int, most: Most) -> Callable[[Any, Any], None]:
    """The validator of a flag."""
    return lambda kind, value: check_number(kind, value, least, most)


BeamWidth = Annotated[int, Parameter(validator=between(1, BEAMS), help="Beam width; 1 is greedy.")]
LengthPenalty = Annotated[
    float,
    Parameter(
        validator=between(0, PENALTY),
        help="Exponent of ((5 + length) / 6), by which the sum of log-probabilities is divided.",
    ),
]
Count = Annotated[int, Parameter(validator=between(1, MOST))]
FLOPS = Most(10**18, "no machine and no text is that large")
TokenCount = Annotated[float, Parameter(validator=between(-MOST, FLOPS))]
Port = Annotated[int, Parameter(validator=between(0, Most(65_535, "ports end there")))]


@dataclass(frozen=True)
class Loader(Machine):
    """A machine, and how models are loaded there. verify, family: as in `headway.load`."""

    verify: bool = True
    family: str | None = None
    fast: bool = True

    def load(self, folder: str | Path) -> Bundle:
        """The model of a run or a folder, on this machine's device."""
        from headway.tasks.opening import load

        return load(folder, self.device, verify=self.verify, family=self.family, fast=self.fast)

    def load_as(self, wanted: type[B], folder: str | Path) -> B:
        """The same, which must be of this class: for verbs that only one kind of model has."""
        from headway.tasks.opening import expect

        return expect(wanted, self.load(folder), folder)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MachineFlags:
    """Where a model runs, and how it is loaded."""

    device: Annotated[str, Parameter(help="auto, cpu, cuda or mps.")] = "auto"
    dtype: Annotated[str, Parameter(help="float32 or bfloat16.")] = "float32"
    threads: Annotated[int | None, number("CPU threads.")] = None
    verify: Annotated[
        bool,
        Parameter(
            help="Compare the files of the model with the hashes in its manifest; about a second "
            "for each GB."
        ),
    ] = True

    family: Annotated[
        str | None,
        Parameter(
            help="Type of the model in a Hugging Face folder whose config.json has no model_type, "
            "such as bert."
        ),
    ] = None

    fast: Annotated[
        Literal["yes", "no"],
        Parameter(
            help="Fast twins of attention, linear layers and dropout; no: the plain classes, with "
            "the same results up to rounding."
        ),
    ] = "yes"

    @property
    def settings(self) -> dict[str, Any]:
        """Those flags that are settings of `MachineConfig`, by name."""
        return {"device": self.device, "dtype": self.dtype, "threads": self.threads}

    def prepare(self) -> Loader:
        """Set the process up; an unknown or absent device is refused."""
        from headway.machine import MachineConfig, prepare
        from headway.settings import override

        machine = prepare(override(MachineConfig(), self.settings, COMMAND_LINE))
        return Loader(
            **vars(machine), verify=self.verify, family=self.family, fast=self.fast == "yes"
        )


ON_THIS_MACHINE = MachineFlags()
