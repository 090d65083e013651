"""Ensembles of translators: the further members, from their folders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.tasks.translation.bundle import TranslatorBundle


def ensemble(
    bundle: TranslatorBundle, paths: Sequence[Path], to: str | None, from_language: str | None
) -> TranslatorBundle:
    """Return a bundle that translates with the mean of the probabilities of all members.

    paths: folders of the others, for the languages `to` and `from_language`; without any, the
    bundle itself is returned. Raises UsageError for a model of another kind, and DataError for
    another tokenizer.
    """
    if not paths:
        return bundle
    others = _loaded(tuple(paths), bundle.device)
    return bundle.ensemble([other.into(to, from_language) for other in others])


@lru_cache(maxsize=4)
def _loaded(paths: tuple[Path, ...], device: torch.device) -> tuple[TranslatorBundle, ...]:
    from headway.tasks.opening import load
    from headway.tasks.translation.bundle import TranslatorBundle

    bundles = []
    for path in paths:
        bundle = load(path, str(device))
        if not isinstance(bundle, TranslatorBundle):
            raise UsageError(f"{path} is a {bundle.kind}, not a translator", "--ensemble")
        bundles.append(bundle)
    return tuple(bundles)
