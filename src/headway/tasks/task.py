"""The contract of a task: what an application of Headway is, and all that generic code knows of it.

A task is one folder in `tasks/`. Its `Task` object names its recipes, prepares a training run,
reads and evaluates examples, and says how predictions and scores look in a terminal. From it follow
`headway train RECIPE`, the verb of the task, `headway eval` and the evaluation during training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headway.bundle import Bundle
from headway.evaluation.scores import Scores
from headway.interop import Exported
from headway.machine import Machine
from headway.settings import required
from headway.tasks.job import Emit, Job

Styled = list[tuple[str, str]]
"""A line of text in parts, each with its style on a terminal ("" for none)."""


@dataclass(frozen=True, kw_only=True)
class BundleSpec:
    """How a saved model of one family (`models.registry.MODELS`) is opened.

    bundle: its class. foreign: makes it from a model that was read from a Hugging Face folder, that
    folder and its `model_type`. export: writes such a folder from the bundle, as a model of the
    named family there, or the first that can represent it. None: other libraries have no such
    models.
    """

    bundle: type[Bundle]
    foreign: Callable[[Any, Path, str], Bundle] | None = None
    export: Callable[[Any, Path, str | None], Exported] | None = None


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Nothing can be chosen."""


NO_OPTIONS = NoOptions()


@dataclass(frozen=True, kw_only=True)
class TextInput:
    """One text."""

    text: str = required("a text")


def metrics_line(scores: Scores) -> str:
    """Every metric with its value."""
    return "   ".join(
        f"{name.replace('_', ' ')} {value:.3f}" for name, value in scores.numbers().items()
    )


class TaskDefaults:
    """What a `Task` has unless it says otherwise: nothing to choose, and its scores in one line."""

    options: type[Any] = NoOptions
    evaluation: type[Any] = NoOptions

    def show_scores(self, scores: Scores) -> list[str]:
        """Every metric with its value."""
        return [metrics_line(scores)]


@runtime_checkable
class Task(Protocol):
    """An application.

    name: of its folder. config: the class of its run configurations. recipes: name -> a run
    configuration; the docstring says cost and score to expect. bundles: how its models are opened,
    by `family` in their config.json. evaluation: the class of what may be chosen for an evaluation,
    a dataclass of settings with defaults. next_commands: what to run after training, with {run} for
    the run folder.
    """

    name: str
    config: type[Any]
    recipes: Mapping[str, Callable[[], Any]]
    bundles: Mapping[str, BundleSpec]
    evaluation: type[Any]
    next_commands: Sequence[str]

    def check(self, config: Any) -> object:
        """UsageError for a configuration that cannot work, before anything is written."""
        ...

    def prepare(self, config: Any, folder: Path, machine: Machine, emit: Emit) -> Job:
        """The data in the run folder, made or reused; model and objective are named."""
        ...

    def read(self, bundle: Any, paths: Sequence[Path], config: Any | None, options: Any) -> Any:
        """The examples of files, with what is right about them; they have a length. config: of the
        run, for names of columns; None for a model without a run. options: of the evaluation."""
        ...

    def held_out(self, bundle: Any, run: Path, config: Any, options: Any) -> Any:
        """The examples of a run that it was not trained on."""
        ...

    def evaluate(
        self,
        bundle: Any,
        examples: Any,
        options: Any = ...,
        progress: Callable[[int], None] = ...,
    ) -> Scores:
        """The scores of a bundle: the only evaluation of the task, in training and out of it.

        examples: what `read`, `held_out` or `Job.held_out` gives. progress: called before each
        batch with a count of what was processed so far; an exception that it raises ends the
        evaluation. DataError for an example with a label that the model does not have.
        """
        ...

    def show_scores(self, scores: Scores) -> list[str]:
        """The lines of `headway eval`."""
        ...


@runtime_checkable
class Selective(Protocol):
    """A `Task` that shares the kind of its bundles with other tasks, and evaluates its own runs
    only, or files that it reads."""

    def reads(self, path: Path) -> bool:
        """Whether the examples of that file or folder are evaluated by this task."""
        ...


@runtime_checkable
class Derived(Protocol):
    """A `Task` whose settings follow from another model, which one of them names.

    former_recipes: names of recipes in the run.yaml of earlier versions.
    """

    former_recipes: Sequence[str]

    def derived(self, config: Any, settings: Mapping[str, Any]) -> Any:
        """The configuration with the sections that the model decides which `settings` name, by
        dotted key. UsageError if they name none."""
        ...

    def upgraded(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values of a run.yaml with one of the former recipes, by the names of today."""
        ...

    def variants(self) -> Sequence[Any]:
        """A configuration for each kind of model that decides the sections."""
        ...

    def commands_after(self, config: Any) -> Sequence[str]:
        """`next_commands` after a run with that configuration."""
        ...


@runtime_checkable
class Predicting(Protocol):
    """A `Task` whose verb is `Bundle.predict`.

    input, options: the classes of one input and of what may be chosen, dataclasses of settings. The
    first field of an input is what the verb reads: text (the type str) from its arguments or from
    the lines of standard input, images (the type Path) from files and folders. Its further fields,
    and the options, are flags. A prediction is a dataclass, whose fields are what --json prints.
    """

    input: type[Any]
    options: type[Any]

    def show_prediction(self, bundle: Any, prediction: Any, options: Any) -> list[Styled]:
        """The lines for one input."""
        ...


@runtime_checkable
class Comparing(Protocol):
    """A `Task` of which `headway compare` shows more than the scores.

    Variants: name of a variant -> the details of the scores of its runs, one for each seed.
    """

    def comparison_options(self, config: Any) -> Mapping[str, Any]:
        """Options of the evaluation that follow from the configuration of a run."""
        ...

    def evaluate_in_depth(self, bundle: Any, examples: Any, options: Any) -> Scores:
        """As `Task.evaluate`; its details, for JSON, hold what the tables and plots show."""
        ...

    def comparison_tables(self, variants: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
        """Tables in Markdown."""
        ...

    def comparison_plots(
        self, variants: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path, title: str
    ) -> list[tuple[str, str]]:
        """Draws plots in `folder`; their titles and file names."""
        ...


@runtime_checkable
class Drawing(Protocol):
    """A `Predicting` task whose predictions can be drawn (`--plot`). plotted: what a plot shows."""

    plotted: str

    def draw(self, bundle: Any, prediction: Any, options: Any, path: Path) -> None:
        """Write the plot of one prediction to a new file. UsageError for what cannot be drawn."""
        ...


@runtime_checkable
class LineReading(Protocol):
    """A `Predicting` whose inputs may have several fields on one line of standard input."""

    def read_line(self, bundle: Any, line: str, where: str) -> Any:
        """The input on a line. where: the number of the line, for errors. DataError for a line that
        is no input."""
        ...


@runtime_checkable
class TableReading(Protocol):
    """A `Predicting` that reads inputs from a table, too (--file). columns: the class of what the
    columns are called, a dataclass of settings with defaults, which are the flags --data.NAME."""

    columns: type[Any]

    def read_table(
        self, bundle: Any, path: Path, config: Any | None, columns: Any
    ) -> Iterator[Any]:
        """The inputs in the table, in order. config: of the model's run; None for a model without a
        run."""
        ...
