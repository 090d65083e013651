"""Training runs: named recipes, training from a configuration, reports and evaluation."""

from headway.runs.dry_run import DryRun
from headway.runs.recipes import (
    RECIPES,
    AnyRunConfig,
    check_same,
    configurations,
    recipe,
    resolved,
    run_folder,
    saved,
    with_settings,
)
from headway.runs.run import Outcome, train

__all__ = [
    "RECIPES",
    "AnyRunConfig",
    "DryRun",
    "Outcome",
    "check_same",
    "configurations",
    "recipe",
    "resolved",
    "run_folder",
    "saved",
    "train",
    "with_settings",
]
