"""Training runs: named recipes, training from a configuration, reports and evaluation."""

from headway.runs.dry_run import DryRun
from headway.runs.recipes import (
    RECIPES,
    AnyRunConfig,
    amended,
    check_same,
    configurations,
    recipe,
    resolved,
    saved,
)
from headway.runs.run import Outcome, train

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
