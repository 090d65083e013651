"""Headway trains, runs and explains Transformers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headway.base.waiting import wait_briefly_if_busy

if TYPE_CHECKING:
    from headway.api import Run, evaluate, load, tasks, train

__all__ = ["Run", "__version__", "evaluate", "load", "tasks", "train"]
__version__ = "0.1.0"

wait_briefly_if_busy()  # before torch is loaded


def __getattr__(name: str) -> Any:
    """Import the functions of `headway.api`, and torch with them, when they are first used."""
    if name in __all__:
        return getattr(import_module("headway.api"), name)
    raise AttributeError(f"module 'headway' has no attribute {name!r}")
