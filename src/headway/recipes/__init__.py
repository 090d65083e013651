"""Complete named runs: what to train, on what, for how long, and what to expect."""

from headway.recipes.catalogue import (
    RECIPES,
    amended,
    check_same,
    config_classes,
    recipe,
    saved,
)
from headway.recipes.config import AnyRunConfig, RunConfig, WordsRunConfig
from headway.recipes.run import Outcome, train

__all__ = [
    "RECIPES",
    "AnyRunConfig",
    "Outcome",
    "RunConfig",
    "WordsRunConfig",
    "amended",
    "check_same",
    "config_classes",
    "recipe",
    "saved",
    "train",
]
