"""The applications of Headway, one folder each, and the modules that they share.

The package can be called: `headway.tasks()` lists the tasks and their recipes.
"""

import sys
from collections.abc import Sequence
from types import ModuleType


class _Tasks(ModuleType):
    """The class of this package, which makes it callable.

    Importing the package binds its name in `headway`, so a function of that name cannot be there.
    """

    def __call__(self) -> dict[str, Sequence[str]]:
        from headway.tasks.registry import tasks

        return tasks()


sys.modules[__name__].__class__ = _Tasks
