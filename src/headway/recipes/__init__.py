"""Complete named runs: what to train, on what, for how long, and what to expect."""

from headway.recipes.catalogue import RECIPES, amended, recipe
from headway.recipes.config import RunConfig
from headway.recipes.translate import Outcome, train_translator

__all__ = ["RECIPES", "Outcome", "RunConfig", "amended", "recipe", "train_translator"]
