"""Complete named runs: what to train, on what, for how long, and what to expect."""

from headway.recipes.catalogue import (
    RECIPES,
    AnyRunConfig,
    amended,
    check_same,
    configurations,
    recipe,
    resolved,
    saved,
)
from headway.recipes.dry_run import DryRun
from headway.recipes.run import Outcome, train

__all__ = [
    "RECIPES",
    "AnyRunConfig",
    "DryRun",
    "Outcome",
    "amended",
    "check_same",
    "configurations",
    "recipe",
    "resolved",
    "saved",
    "train",
]
