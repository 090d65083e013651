"""Training runs: named recipes, training from a configuration, reports and evaluation."""

from headway.runs.dry_run import DryRun
from headway.runs.recipes import (
    AnyRunConfig,
    Layer,
    check_same,
    configurations,
    recipe,
    recipes,
    resolved,
    run_folder,
    saved,
    with_settings,
)
from headway.runs.run import Outcome, train

__all__ = [
    "AnyRunConfig",
    "DryRun",
    "Layer",
    "Outcome",
    "check_same",
    "configurations",
    "recipe",
    "recipes",
    "resolved",
    "run_folder",
    "saved",
    "train",
    "with_settings",
]
