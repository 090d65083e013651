"""The flags of verbs that load a model: its device, its dtype, and its languages."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from cyclopts import Group, Parameter

from headway.base.devices import Machine, MachineConfig, prepare
from headway.base.errors import UsageError
from headway.base.settings import COMMAND_LINE, THREADS, count, override, setting
from headway.bundle import Bundle, Translating
from headway.cli.flags import as_flags
from headway.tasks.opening import load, other_kind
from headway.terminal.console import say, talk

B = TypeVar("B")

MACHINE = Parameter(group=Group("Machine"))
"""The flags of the machine have their own part of the help."""

PREDICTIONS = "float32"
"""The dtype of predictions that is selected by auto.

Results do not depend on the machine, and are those of `headway.load`. In bfloat16 a batch of 256
texts took 0.59 of the time with MiniLM (Zen 5, 1 thread), one text as long; a vector differs by
0.0014, and its cosine with the one in float32 is 0.99997 or more.
"""


@dataclass(frozen=True)
class Loader(Machine):
    """A machine that loads models onto its device. verify, family, fast: as in `headway.load`."""

    verify: bool = True
    family: str | None = None
    fast: bool = True

    def load(self, folder: str | Path) -> Bundle:
        """Load the model of a run folder or a model folder onto the device of this machine."""
        return load(folder, self.device, verify=self.verify, family=self.family, fast=self.fast)

    def expect(self, contract: type[B], folder: str | Path, *kinds: str) -> B:
        """Load a model that has a contract. UsageError, which names these kinds, for another."""
        bundle = self.load(folder)
        if not isinstance(bundle, contract):
            raise other_kind(bundle, folder, *kinds)
        return bundle


@as_flags
class MachineFlags:
    """The device and dtype of a model, and how it is loaded."""

    device: Annotated[str, MACHINE] = setting(
        "auto", "Device: auto, cpu, cuda or mps; auto selects a GPU if available."
    )
    dtype: Annotated[str, MACHINE] = setting(
        "auto",
        "Dtype of matrix products: auto, float32, or bfloat16 (autocast). For predictions auto is "
        "float32 on every machine, so that they are the same everywhere, and the same in Python. "
        "With instructions for bfloat16, many texts are embedded, classified or tagged 1.7 times "
        "as fast in it, and vectors differ by about 0.001; a step of decoding is faster only with "
        "weights in bfloat16 (headway quantize).",
    )
    threads: Annotated[int | None, MACHINE] = count(
        None,
        "Number of CPU threads. If unset, that of OMP_NUM_THREADS, or the one that is fastest "
        "when the command starts; for headway eval, that of the run.",
        THREADS,
    )
    verify: Annotated[bool, MACHINE] = setting(
        True,
        "Verify the files of the model against the hashes in its manifest; takes about 1 s per GB.",
    )
    family: Annotated[str | None, MACHINE] = setting(
        None,
        "Architecture of a Hugging Face folder, such as bert. If unset, the model_type of its "
        "config.json.",
    )
    fast: Annotated[Literal["yes", "no"], MACHINE] = setting(
        "yes",
        "Fast implementations of attention, linear layers and dropout; no: the plain "
        "implementations, whose results are the same up to rounding.",
    )

    @property
    def settings(self) -> dict[str, object]:
        """The flags that are settings of `MachineConfig`, by name."""
        return {"device": self.device, "dtype": self.dtype, "threads": self.threads}

    def prepare(self) -> Loader:
        """Select the device and set up the process. UsageError if the device is not available."""
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
            say(f"machine   {machine}")
        return Loader(
            **vars(machine), verify=self.verify, family=self.family, fast=self.fast == "yes"
        )


@as_flags
class LanguageFlags:
    """The languages of a model with several."""

    to: Annotated[str | None, Parameter(name=("--to", "--language"))] = setting(
        None, "Target language, for a model with several."
    )
    from_language: str | None = setting(
        None,
        "Source language, for mBART, M2M100 and NLLB. If unset, the language that the files of "
        "the model name.",
    )

    def source_of(self, bundle: Bundle) -> Bundle:
        """Return the bundle for the source language. UsageError for a model without one."""
        return bundle if self.from_language is None else self._between(bundle, None)

    def both_of(self, bundle: Bundle) -> Bundle:
        """Return the bundle for both languages. UsageError for a model without them."""
        is_named = self.to is not None or self.from_language is not None
        return self._between(bundle, self.to) if is_named else bundle

    def _between(self, bundle: Bundle, target: str | None) -> Bundle:
        if not isinstance(bundle, Translating):
            raise UsageError(
                f"--from-language and --to are for translators, but this is a {bundle.kind}",
                hint="leave them out",
            )
        return bundle.into(target, self.from_language)
