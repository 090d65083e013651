"""Headway trains, runs and explains Transformers."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.api import Run, evaluate, load, tasks, train

__all__ = ["Run", "__version__", "evaluate", "load", "tasks", "train"]
__version__ = "0.1.0"

# A CPU thread of torch that has finished its part of a product waits for the others by computing
# nothing, about 1 ms by default. Beside another program it thereby takes the time that the others
# need: with a wait of about 0.05 ms, after which a thread sleeps, two threads are 1.4 to 2.7 times
# as fast there, at times 20 times. Alone they are up to a tenth slower (docs/log/speed.md). Read
# when torch is loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")


def __getattr__(name: str) -> Any:
    """Import the functions of `headway.api`, and torch with them, when they are first used."""
    if name in __all__:
        return getattr(import_module("headway.api"), name)
    raise AttributeError(f"module 'headway' has no attribute {name!r}")
