"""Applications of Headway, one folder each, and what they share.

The name is a function too: `headway.tasks()` lists the tasks and their recipes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType


class _Tasks(ModuleType):
    """This package, which can be called: Python binds its name in `headway` as it is imported."""

    def __call__(self) -> dict[str, Sequence[str]]:
        from headway.tasks.registry import tasks

        return tasks()


sys.modules[__name__].__class__ = _Tasks
