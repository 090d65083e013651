"""The names of models in requests."""

import os
from collections.abc import Sequence
from pathlib import Path

from headway.base.errors import UsageError
from headway.base.files import check_name


def model_names(
    runs: Sequence[str | os.PathLike[str]], names: Sequence[str] | None = None
) -> list[str]:
    """Return the name of each model: `names` if set, or else the names of the folders as they were
    typed, since a link has another name than its target.

    UsageError if two models have the same name, or if a name is not one line of text.
    """
    names = list(names or [Path(os.path.abspath(run)).name for run in runs])
    if len(names) != len(runs):
        raise UsageError(f"--name names {len(names)} models, and there are {len(runs)}")
    for name, run in zip(names, runs, strict=True):
        check_name(name, f"the name of the model {os.fspath(run)!r} in requests")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"two models have the name {twice[0]}", hint="--name A --name B")
    return names
