"""Flags that several verbs share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.settings import BEAMS, COMMAND_LINE, MOST, PENALTY, Most
from headway.cli.console import talk

if TYPE_CHECKING:
    from headway.bundle import Bundle

B = TypeVar("B")


def check_number(kind: Any, value: Any, least: float | int = -MOST, most: Most = MOST) -> None:
    """ValueError if a number, or one of several, is NaN, below `least` or above `most`.

    It validates flags of the command line; the limits of settings are checked by `settings`.
    """
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
    """A numeric flag of a dataclass, which the validator of the app does not reach."""
    return Parameter(validator=check_number, help=help, consume_multiple=consume_multiple)


def between(least: int, most: Most) -> Callable[[Any, Any], None]:
    """A validator of a flag: its value must be from `least` to `most`."""
    return lambda kind, value: check_number(kind, value, least, most)


OUTPUT = Parameter(name=("--output", "-o"))
"""The flag of a new file or folder, in every command that writes one."""

BeamWidth = Annotated[int, Parameter(validator=between(1, BEAMS), help="Beam width; 1 is greedy.")]
LengthPenalty = Annotated[
    float,
    Parameter(
        validator=between(0, PENALTY),
        help="Length penalty: the exponent of ((5 + length) / 6), which divides the sum of "
        "log-probabilities.",
    ),
]
Count = Annotated[int, Parameter(validator=between(1, MOST))]
FLOPS = Most(10**18, "far beyond any machine or data set")
TokenCount = Annotated[float, Parameter(validator=between(-MOST, FLOPS))]
Port = Annotated[int, Parameter(validator=between(0, Most(65_535, "the largest port number")))]


@dataclass(frozen=True)
class Loader(Machine):
    """A machine that loads models onto its device. verify, family, fast: as in `headway.load`."""

    verify: bool = True
    family: str | None = None
    fast: bool = True

    def load(self, folder: str | Path) -> Bundle:
        """Load the model of a run folder or a model folder onto the device of this machine."""
        from headway.tasks.opening import load

        return load(folder, self.device, verify=self.verify, family=self.family, fast=self.fast)

    def load_as(self, bundle_class: type[B], folder: str | Path) -> B:
        """Load a model that must be of this class. UsageError if it is of another one."""
        from headway.tasks.opening import expect

        return expect(bundle_class, self.load(folder), folder)


PREDICTIONS = "float32"
"""The dtype of predictions that is selected by auto."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MachineFlags:
    """The device and dtype of a model, and how it is loaded."""

    device: Annotated[
        str, Parameter(help="Device: auto, cpu, cuda or mps; auto selects a GPU if available.")
    ] = "auto"
    dtype: Annotated[
        str,
        Parameter(
            help="Dtype of matrix products: auto, float32, or bfloat16 (autocast). For predictions "
            "auto is float32: a step of decoding is faster only with weights in bfloat16 (headway "
            "quantize)."
        ),
    ] = "auto"
    threads: Annotated[
        int | None,
        number(
            "Number of CPU threads. If unset, that of OMP_NUM_THREADS, or the one that is fastest "
            "when the command starts; for headway eval, that of the run."
        ),
    ] = None
    verify: Annotated[
        bool,
        Parameter(
            help="Verify the files of the model against the hashes in its manifest; takes about "
            "1 s per GB."
        ),
    ] = True

    family: Annotated[
        str | None,
        Parameter(
            help="Architecture of a Hugging Face folder, such as bert. If unset, the model_type of "
            "its config.json."
        ),
    ] = None

    fast: Annotated[
        Literal["yes", "no"],
        Parameter(
            help="Fast implementations of attention, linear layers and dropout; no: the plain "
            "implementations, whose results are the same up to rounding."
        ),
    ] = "yes"

    @property
    def settings(self) -> dict[str, Any]:
        """The flags that are settings of `MachineConfig`, by name."""
        return {"device": self.device, "dtype": self.dtype, "threads": self.threads}

    def prepare(self) -> Loader:
        """Select the device and set up the process. UsageError if the device is not available."""
        from headway.base.devices import MachineConfig, prepare
        from headway.base.settings import override

        if self.dtype == "float8":
            raise UsageError(
                "--dtype float8 is for training: the layers of a trained model multiply in "
                "bfloat16 or float32",
                hint="--dtype bfloat16",
            )
        if self.dtype not in ("auto", "float32", "bfloat16"):
            raise UsageError(
                f"dtype={self.dtype}: must be one of auto, float32, bfloat16", COMMAND_LINE
            )
        settings = {**self.settings, "dtype": PREDICTIONS if self.dtype == "auto" else self.dtype}
        machine = prepare(override(MachineConfig(), settings, COMMAND_LINE))
        if talk.is_terminal or machine.device != "cpu":
            talk.print(f"machine   {machine}", markup=False)
        return Loader(
            **vars(machine), verify=self.verify, family=self.family, fast=self.fast == "yes"
        )


ON_THIS_MACHINE = MachineFlags()


@Parameter(name="*")
@dataclass(frozen=True)
class LanguageFlags:
    """The languages of a model with several."""

    to: Annotated[
        str | None,
        Parameter(name=["--to", "--language"], help="Target language, for a model with several."),
    ] = None
    from_language: Annotated[
        str | None,
        Parameter(
            help="Source language, for mBART, M2M100 and NLLB. If unset, the language that the "
            "files of the model name."
        ),
    ] = None

    def source_of(self, bundle: Bundle) -> Bundle:
        """Return the bundle for the source language. UsageError for a model without one."""
        return bundle if self.from_language is None else self._between(bundle, None)

    def both_of(self, bundle: Bundle) -> Bundle:
        """Return the bundle for both languages. UsageError for a model without them."""
        return bundle if self == UNNAMED else self._between(bundle, self.to)

    def _between(self, bundle: Bundle, target: str | None) -> Bundle:
        from headway.bundle import Translating

        if not isinstance(bundle, Translating):
            raise UsageError(
                f"--from-language and --to are for translators, but this is a {bundle.kind}",
                hint="leave them out",
            )
        return bundle.into(target, self.from_language)


UNNAMED = LanguageFlags()
