"""The contract of a task, an application of Headway; generic code uses tasks only through it.

A task is one folder in `tasks/`. Its `Task` object names its recipes, prepares training runs, reads
and evaluates examples, and formats predictions and scores for the terminal. `headway train RECIPE`,
the verb of the task, `headway eval` and the evaluation during training are derived from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headway.base.devices import Machine
from headway.base.settings import required
from headway.bundle import Bundle
from headway.evaluation.scores import Scores
from headway.interop import Exported, ExportedCTranslate2
from headway.tasks.job import Emit, Job

Styled = list[tuple[str, str]]
"""A line of text: parts with their style in the terminal ("" for no style)."""


@dataclass(frozen=True, kw_only=True)
class BundleSpec:
    """How a saved model of one family (`models.registry.MODELS`) is loaded.

    bundle: the class of the bundle. foreign: makes the bundle from a model that was read from a
    Hugging Face folder, from that folder and from its `model_type`. export: writes the bundle as a
    Hugging Face folder, as a model of the named family there or of the first family that can
    represent it. export_to_ctranslate2: writes it as a folder of CTranslate2, with matrices of the
    named dtype. None: other libraries have no such models.
    """

    bundle: type[Bundle]
    foreign: Callable[[Any, Path, str], Bundle] | None = None
    export: Callable[[Any, Path, str | None], Exported] | None = None
    export_to_ctranslate2: Callable[[Any, Path, str], ExportedCTranslate2] | None = None


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """No options."""


NO_OPTIONS = NoOptions()


@dataclass(frozen=True, kw_only=True)
class TextInput:
    """One text."""

    text: str = required("a text")


def metrics_line(scores: Scores) -> str:
    """Format all metrics with their values in one line."""
    return "   ".join(
        f"{name.replace('_', ' ')} {value:.3f}" for name, value in scores.numbers().items()
    )


class TaskDefaults:
    """Defaults of a `Task`: no options, and scores in one line."""

    options: type[Any] = NoOptions
    evaluation: type[Any] = NoOptions

    def show_scores(self, scores: Scores) -> list[str]:
        """Format all metrics with their values."""
        return [metrics_line(scores)]


@runtime_checkable
class Task(Protocol):
    """An application.

    name: the name of its folder. config: the class of its run configurations. recipes: name ->
    function that returns a run configuration; its docstring states the cost and score to expect.
    bundles: how its models are loaded, by `family` in their config.json. evaluation: the class of
    the options of an evaluation, a dataclass of settings with defaults. next_commands: commands to
    suggest after training, with {run} in place of the run folder.
    """

    name: str
    config: type[Any]
    recipes: Mapping[str, Callable[[], Any]]
    bundles: Mapping[str, BundleSpec]
    evaluation: type[Any]
    next_commands: Sequence[str]

    def check(self, config: Any) -> object:
        """Raise UsageError for a configuration that cannot work, before anything is written."""
        ...

    def prepare(self, config: Any, folder: Path, machine: Machine, emit: Emit) -> Job:
        """Prepare the data in the run folder, or reuse it, and return the job of the run."""
        ...

    def read(self, bundle: Any, paths: Sequence[Path], config: Any | None, options: Any) -> Any:
        """Read labelled examples from files.

        config: the configuration of the run, for the names of columns; None for a model without a
        run. options: the options of the evaluation. Returns examples, which have a length.
        """
        ...

    def held_out(self, bundle: Any, run: Path, config: Any, options: Any) -> Any:
        """Return the held-out examples of a run."""
        ...

    def evaluate(
        self,
        bundle: Any,
        examples: Any,
        options: Any = ...,
        progress: Callable[[int], None] = ...,
    ) -> Scores:
        """Evaluate a bundle. Training and `headway eval` both use this method.

        examples: the result of `read` or `held_out`, or `Job.held_out`. progress: called before
        each batch with the number of examples processed so far; an exception that it raises ends
        the evaluation. Raises DataError for an example with a label that the model does not have.
        """
        ...

    def show_scores(self, scores: Scores) -> list[str]:
        """Format the scores as the lines that `headway eval` prints."""
        ...


@runtime_checkable
class Selective(Protocol):
    """A `Task` whose kind of bundle is also that of other tasks.

    It evaluates its own runs only, or files that it can read.
    """

    def reads(self, path: Path) -> bool:
        """Return whether this task evaluates the examples of that file or folder."""
        ...


@runtime_checkable
class Derived(Protocol):
    """A `Task` whose configuration sections follow from another model, which a setting names."""

    def derived(self, config: Any, settings: Mapping[str, Any]) -> Any:
        """Return the configuration with the sections that the other model decides.

        settings: values by dotted key, one of which names that model. Raises UsageError if it is
        missing.
        """
        ...

    def variants(self) -> Sequence[Any]:
        """Return one configuration for each kind of model that decides the sections."""
        ...

    def commands_after(self, config: Any) -> Sequence[str]:
        """Return the `next_commands` after a run with that configuration."""
        ...


@runtime_checkable
class HasDefaultOptions(Protocol):
    """A bundle whose model has its own defaults for the options of its verb."""

    @property
    def default_options(self) -> Any: ...


def default_options(task: Predicting, bundle: Any) -> Any:
    """Return the options of a task where a user sets none: those of the model, if it has any."""
    return bundle.default_options if isinstance(bundle, HasDefaultOptions) else task.options()


@runtime_checkable
class Predicting(Protocol):
    """A `Task` whose verb is `Bundle.predict`.

    input, options: the classes of one input and of the options, dataclasses of settings. The verb
    reads the first field of an input: text (type str) from its arguments or from the lines of
    standard input, images (type Path) from files and folders. The other fields of an input, and the
    options, are flags. A prediction is a dataclass; --json prints its fields.
    """

    input: type[Any]
    options: type[Any]

    def show_prediction(self, bundle: Any, prediction: Any, options: Any) -> list[Styled]:
        """Format the prediction for one input as lines."""
        ...


@runtime_checkable
class Pipeline(Protocol):
    """A `Predicting` task whose predictions have the form of Hugging Face's inference API.

    option_names: name of an option there -> its name here, where they differ. lists_one: whether
    the reply to a single input is a list with one form.
    """

    option_names: Mapping[str, str]
    lists_one: bool

    def pipeline_form(self, bundle: Any, prediction: Any, options: Any) -> Any:
        """Return a prediction in that form."""
        ...


@runtime_checkable
class ForeignRequests(Protocol):
    """A `Predicting` task that is also served in the form of another server.

    foreign_fields: the fields of such a request.
    """

    foreign_fields: Sequence[str]

    def is_foreign(self, fields: Mapping[str, Any]) -> bool:
        """Return whether a request has that form."""
        ...

    def read_foreign(self, bundle: Any, fields: Mapping[str, Any]) -> tuple[list[Any], Any]:
        """Return the inputs and options of a request. Raises UsageError for invalid fields."""
        ...

    def targets(self, bundle: Any) -> Mapping[str, Sequence[str]]:
        """Return source language -> target languages of a model; empty if they are unknown."""
        ...

    def foreign_form(self, fields: Mapping[str, Any], predictions: Sequence[Any]) -> Any:
        """Return the reply to a request."""
        ...


@runtime_checkable
class Comparing(Protocol):
    """A `Task` for which `headway compare` shows tables and plots besides the scores.

    `variants` maps the name of a variant to the details of the scores of its runs, one per seed.
    """

    def comparison_options(self, config: Any) -> Mapping[str, Any]:
        """Return the options of the evaluation that follow from the configuration of a run."""
        ...

    def evaluate_in_depth(self, bundle: Any, examples: Any, options: Any) -> Scores:
        """Evaluate as `Task.evaluate`, with the values of the tables and plots as JSON details."""
        ...

    def comparison_tables(self, variants: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
        """Return tables in Markdown."""
        ...

    def comparison_plots(
        self, variants: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path, title: str
    ) -> list[tuple[str, str]]:
        """Write plots to `folder`; return their titles and file names."""
        ...


@runtime_checkable
class Drawing(Protocol):
    """A `Predicting` task whose predictions can be plotted (`--plot`).

    plotted: what a plot shows, in words.
    """

    plotted: str

    def draw(self, bundle: Any, prediction: Any, options: Any, path: Path) -> None:
        """Write the plot of one prediction to a new file.

        Raises UsageError for options that cannot be plotted.
        """
        ...


@runtime_checkable
class LineReading(Protocol):
    """A `Predicting` task whose inputs may have several fields on a line of standard input."""

    def read_line(self, bundle: Any, line: str, where: str) -> Any:
        """Parse the input of a line.

        where: the number of the line, for errors. Raises DataError for a line that is no input.
        """
        ...


@runtime_checkable
class TableReading(Protocol):
    """A `Predicting` task that can read inputs from a table (--file).

    columns: the class of the names of the columns, a dataclass of settings with defaults, which are
    the flags --data.NAME.
    """

    columns: type[Any]

    def read_table(
        self, bundle: Any, path: Path, config: Any | None, columns: Any
    ) -> Iterator[Any]:
        """Read the inputs of the table, in order.

        config: the configuration of the model's run; None for a model without a run.
        """
        ...


@runtime_checkable
class DocumentWriting(Protocol):
    """A `Predicting` task that predicts for the texts of a whole file and writes it anew (-o).

    document_suffixes: the suffixes of such files. document_options: the class of the flags that
    describe a file, a dataclass of settings with defaults. A report is a dataclass; --json prints
    its fields.
    """

    document_suffixes: Sequence[str]
    document_options: type[Any]

    def write_document(
        self,
        bundle: Any,
        path: Path,
        output: Path,
        config: Any | None,
        chosen: Any,
        options: Any,
    ) -> Any:
        """Write the file `path` with predictions to the new file `output`; return the report.

        config: the configuration of the model's run; None for a model without a run. Raises
        DataError for an invalid file; then nothing is written.
        """
        ...

    def show_document(self, report: Any) -> list[str]:
        """Format the report as lines."""
        ...
