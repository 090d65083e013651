"""The contract of a task: what an application of Headway is, and all that generic code knows of it.

A task is one folder in `tasks/`. Its `Task` object names its recipes, prepares a training run,
reads and evaluates examples, and says how predictions and scores look in a terminal. From it follow
`headway train RECIPE`, the verb of the task, `headway eval` and the evaluation during training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headway.evaluation.scores import Scores
from headway.machine import Machine
from headway.tasks.job import Emit, Job

Styled = list[tuple[str, str]]
"""A line of text in parts, each with its style on a terminal ("" for none)."""


@runtime_checkable
class Task(Protocol):
    """An application.

    name: of its folder. kind: of its bundles (`bundle.kind`). config: the class of its run
    configurations. recipes: name -> a run configuration; the docstring says cost and score to
    expect. next_commands: what to run after training, with {run} for the run folder.
    """

    name: str
    kind: str
    config: type[Any]
    recipes: Mapping[str, Callable[[], Any]]
    next_commands: Sequence[str]

    def check(self, config: Any) -> object:
        """UsageError for a configuration that cannot work, before anything is written."""
        ...

    def prepare(self, config: Any, folder: Path, machine: Machine, emit: Emit) -> Job:
        """The data in the run folder, made or reused; model and objective are named."""
        ...

    def read(self, paths: Sequence[Path], config: Any | None) -> list[Any]:
        """Examples with what is right about them. config: of the run, for names of columns."""
        ...

    def held_out(self, config: Any) -> list[Any]:
        """The examples of a run that it was not trained on."""
        ...

    def evaluate(
        self, bundle: Any, examples: Sequence[Any], progress: Callable[[int], None] = ...
    ) -> Scores:
        """The scores of a bundle: the only evaluation of the task, in training and out of it.

        progress: called before each batch with a count of what was processed so far; an exception
        that it raises ends the evaluation. DataError for an example with a label that the model
        does not have.
        """
        ...

    def show_prediction(self, bundle: Any, prediction: Any) -> Styled:
        """One line for one input."""
        ...

    def show_scores(self, scores: Scores) -> list[str]:
        """The lines of `headway eval`."""
        ...
