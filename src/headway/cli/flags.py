"""Flags that several verbs share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headway.settings import COMMAND_LINE

if TYPE_CHECKING:
    from headway.machine import Machine


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MachineFlags:
    """Where a model runs."""

    device: Annotated[str, Parameter(help="auto, cpu, cuda or mps.")] = "auto"
    dtype: Annotated[str, Parameter(help="float32 or bfloat16.")] = "float32"
    threads: Annotated[int | None, Parameter(help="CPU threads.")] = None

    def prepare(self) -> Machine:
        """Set the process up; an unknown or absent device is refused."""
        from headway.machine import MachineConfig, prepare
        from headway.settings import override

        return prepare(override(MachineConfig(), vars(self), COMMAND_LINE))


ON_THIS_MACHINE = MachineFlags()
