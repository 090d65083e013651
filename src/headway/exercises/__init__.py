"""Exercises: one function each, checked by a ladder of tests, then plugged into a real model.

An exercise is a module with `EXERCISE`, an `Exercise`, and an entry in the catalogue; `headway
exercise` lists, starts and checks them. Their order is that of the lectures.
"""

from headway.exercises.catalogue import CATALOGUE, EXERCISES
from headway.exercises.contract import Case, Exercise, Mistake, Plug

__all__ = ["CATALOGUE", "EXERCISES", "Case", "Exercise", "Mistake", "Plug"]
