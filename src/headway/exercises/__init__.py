"""Exercises: one function each, checked by a ladder of tests, then plugged into a real model.

An exercise is a module with `EXERCISE`, an `Exercise`, and an entry in the catalogue; `headway
exercise` lists, starts and checks them. Their order is that of the lectures.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module

from headway.exercises.catalogue import CATALOGUE
from headway.exercises.contract import Case, Exercise, Mistake, Plug


class _Exercises(Mapping[str, Exercise]):
    """Name -> exercise, whose module is imported when it is looked up."""

    def __getitem__(self, name: str) -> Exercise:
        module = import_module(f"headway.exercises.{CATALOGUE[name].module}")
        exercise: Exercise = module.EXERCISE
        return exercise

    def __iter__(self) -> Iterator[str]:
        return iter(CATALOGUE)

    def __len__(self) -> int:
        return len(CATALOGUE)


EXERCISES = _Exercises()

__all__ = ["CATALOGUE", "EXERCISES", "Case", "Exercise", "Mistake", "Plug"]
