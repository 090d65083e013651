"""Headway trains, runs and opens up Transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.tasks.opening import load

__all__ = ["__version__", "load"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`headway.load` brings torch in only when somebody asks for it."""
    if name == "load":
        from headway.tasks.opening import load

        return load
    raise AttributeError(f"module 'headway' has no attribute {name!r}")
