"""The contract of a task: an application of Headway, as a record of functions.

A task is one folder in `tasks/`; its `task.py` makes the `Task` and names its functions and its
optional parts. `headway train RECIPE`, the verb of the task, `headway eval`, the evaluation during
training, comparisons and the routes of the server are derived from it. A part that a task does not
have is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from headway.base.devices import Machine
from headway.base.settings import required
from headway.base.sharing import WHOLE, Share
from headway.bundle import Bundle
from headway.data.overlap import Sides
from headway.data.stream import Batch
from headway.evaluation.scores import Scores
from headway.tasks.job import AnyJob, Emit, Job
from headway.tasks.sections import (
    ExamplesConfig,
    ObservationConfig,
    RunSettings,
    StudentTrainingConfig,
    TextDataConfig,
    TwoStageConfig,
)
from headway.training import LayersConfig

Network = TypeVar("Network")
Model = TypeVar("Model", bound=Bundle)
RunConfig = TypeVar("RunConfig")
Examples = TypeVar("Examples")
Options = TypeVar("Options")
Input = TypeVar("Input")
Prediction = TypeVar("Prediction")
Columns = TypeVar("Columns")
Report = TypeVar("Report")

Styled = list[tuple[str, str]]
"""A line of text: parts with their style in the terminal ("" for no style)."""

Details = Mapping[str, Sequence[Mapping[str, Any]]]
"""Name of a variant -> the details of the scores of its runs, one for each seed."""


@dataclass(frozen=True)
class BundleSpec(Generic[Network, Model]):
    """How a saved model of one family (`models.registry.MODELS`) is loaded.

    bundle: the class of the bundle. foreign: makes the bundle from a model that was read from a
    Hugging Face folder, from that folder and from its `model_type`. export: writes the
    bundle into a folder for transformers, as a model of the named family there or of the first
    family that can represent it, and returns its class. None: other libraries have no such models.
    """

    bundle: type[Model]
    foreign: Callable[[Network, Path, str], Model] | None = None
    export: Callable[[Model, Path, str | None], str] | None = None


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


def shown_as(template: str) -> Callable[[Scores], list[str]]:
    """Return a function that formats scores as one line.

    template: names metrics and counts in braces; {metrics} is `metrics_line`.
    """
    return lambda scores: [
        template.format(metrics=metrics_line(scores), **scores.numbers(), **scores.counts)
    ]


@dataclass(frozen=True, kw_only=True)
class Pipeline(Generic[Model, Options, Prediction]):
    """How predictions have the form of Hugging Face's inference API.

    form: returns a prediction in that form. option_names: name of an option there -> its name here,
    where they differ. lists_one: whether the reply to a single input is a list with one form.
    """

    form: Callable[[Model, Prediction, Options], Any]
    option_names: Mapping[str, str] = field(default_factory=dict)
    lists_one: bool = False


@dataclass(frozen=True, kw_only=True)
class Table(Generic[Model, Input, Columns]):
    """How inputs are read from a table (--file).

    columns: the class of the names of the columns, a dataclass of settings with defaults, which are
    the flags --data.NAME. read(bundle, path, config, columns): reads the inputs in order; config is
    the configuration of the model's run, None for a model without a run.
    """

    columns: type[Columns]
    read: Callable[[Model, Path, RunSettings | None, Columns], Iterator[Input]]


@dataclass(frozen=True, kw_only=True)
class Foreign(Generic[Model, Input, Options, Prediction]):
    """The form of another server, in which a task is served too.

    fields: the fields of a request. is_request: whether a request has that form. read: returns the
    inputs and options of a request, and raises UsageError for invalid fields. targets: returns
    source language -> target languages of a model; empty if they are unknown. reply: returns the
    reply to a request.
    """

    fields: Sequence[str]
    is_request: Callable[[Mapping[str, object]], bool]
    read: Callable[[Model, Mapping[str, object]], tuple[list[Input], Options]]
    targets: Callable[[Model], Mapping[str, Sequence[str]]]
    reply: Callable[[Mapping[str, object], Sequence[Prediction]], object]


@dataclass(frozen=True, kw_only=True)
class Predicts(Generic[Model, Input, Options, Prediction]):
    """The verb of a task, which is `Bundle.predict`.

    input, options: the classes of one input and of the options, dataclasses of settings. The verb
    reads the first field of an input: text (type str) from its arguments or from the lines of
    standard input, images (type Path) from files and folders. The other fields of an input, and the
    options, are flags. A prediction is a dataclass; --json prints its fields.

    show(bundle, prediction, options): formats the prediction for one input as lines. model_options:
    returns the options where a user sets none, for models that have their own; None: `options()`.
    read_line(bundle, line, where): parses a line of standard input with several fields; it raises
    DataError, with the number `where` of the line, for a line that is no input.
    """

    input: type[Input]
    options: type[Options]
    show: Callable[[Model, Prediction, Options], list[Styled]]
    model_options: Callable[[Model], Options] | None = None
    read_line: Callable[[Model, str, str], Input] | None = None
    table: Table[Model, Input, Any] | None = None
    pipeline: Pipeline[Model, Options, Prediction] | None = None
    foreign: Foreign[Model, Input, Options, Prediction] | None = None

    def defaults(self, bundle: Model) -> Options:
        """Return the options where a user sets none: those of the model, if it has any."""
        return self.options() if self.model_options is None else self.model_options(bundle)


@dataclass(frozen=True, kw_only=True)
class Compares(Generic[RunConfig, Model, Examples, Options]):
    """What `headway compare` shows besides the scores: tables and plots.

    options: returns the options of the evaluation that follow from the configuration of a run.
    evaluate: evaluates as `Task.evaluate`, with the values of the tables and plots as JSON details.
    tables: returns tables in Markdown. plots(variants, folder, title): writes plots to the folder,
    and returns their titles and file names.
    """

    options: Callable[[RunConfig], Mapping[str, object]]
    evaluate: Callable[[Model, Examples, Options], Scores]
    tables: Callable[[Details], list[str]]
    plots: Callable[[Details, Path, str], list[tuple[str, str]]]


@dataclass(frozen=True, kw_only=True)
class Draws(Generic[Model, Options, Prediction]):
    """Plots of predictions (`--plot`).

    shown: what a plot shows, in words. draw(bundle, prediction, options, path): writes the plot of
    one prediction to a new file, and raises UsageError for options that cannot be plotted.
    """

    shown: str
    draw: Callable[[Model, Prediction, Options, Path], None]


@dataclass(frozen=True, kw_only=True)
class Documents(Generic[Model, Columns, Options, Report]):
    """Predictions for the texts of a whole file, which is written anew (-o).

    suffixes: the suffixes of such files. settings: the class of the flags that describe a file, a
    dataclass of settings with defaults.

    write(bundle, path, output, config, settings, options): writes the file `path` with predictions
    to the new file `output`, and returns a report, a dataclass whose fields --json prints. config:
    the configuration of the model's run; None for a model without a run. It raises DataError for an
    invalid file; then nothing is written. show: formats the report as lines.
    """

    suffixes: Sequence[str]
    settings: type[Columns]
    write: Callable[[Model, Path, Path, RunSettings | None, Columns, Options], Report]
    show: Callable[[Report], list[str]]


@dataclass(frozen=True, kw_only=True)
class Teaches(Generic[RunConfig, Model]):
    """How students of the models of a task are configured and trained, by `distillation`.

    data, evaluation, training, distillation: the sections of a student's run that the task decides,
    with their defaults. unit: the word for what a student is trained on.

    job(config, teacher, folder, machine, emit): returns a job of the task, with `views`, whose
    examples are encoded by the tokenizer and the reader of the teacher. config: a run of the task
    on the examples of the student, with the teacher as `training.start`. settings: returns further
    settings of that run, which follow from the student's. decided: the dotted keys of the settings
    of a student that are those of the job. check: raises UsageError for settings that only a
    student's run has.

    compared: returns the held-out batches of a job on which student and teacher are compared, for
    students without outputs, whose score is the difference from their teacher; None: students are
    evaluated as all models of the task. next_commands: as in `Task`; None: those of the task.
    """

    data: ExamplesConfig | TextDataConfig
    evaluation: ObservationConfig
    training: StudentTrainingConfig = field(default_factory=StudentTrainingConfig)
    distillation: LayersConfig = field(default_factory=TwoStageConfig)
    unit: str = "texts"
    job: Callable[[RunConfig, Model, Path, Machine, Emit], AnyJob]
    settings: Callable[[RunSettings], Mapping[str, object]] = lambda config: {}
    decided: frozenset[str] = frozenset()
    check: Callable[[RunSettings], object] = lambda config: None
    compared: Callable[[AnyJob, Machine], Iterator[Batch]] | None = None
    next_commands: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Derives(Generic[RunConfig]):
    """How sections of the configuration follow from another model, which a setting names.

    configure(config, settings): returns the configuration with the sections that the other model
    decides; settings are values by dotted key, one of which names that model. It raises UsageError
    if it is missing. variants: returns one configuration for each kind of model that decides the
    sections. next_commands: returns the `Task.next_commands` after a run.
    """

    configure: Callable[[RunConfig, Mapping[str, object]], RunConfig]
    variants: Callable[[], Sequence[RunConfig]]
    next_commands: Callable[[RunConfig], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Task(Generic[RunConfig, Model, Examples, Options]):
    """An application.

    name: the name of its folder. config: the class of its run configurations. recipes: name ->
    function that returns a run configuration; its docstring states the cost and score to expect.
    check: raises UsageError for a configuration that cannot work, before anything is written.
    prepare(config, folder, machine, emit): prepares the data in the run folder, or reuses it, and
    returns the job of the run.

    evaluation: the class of the options of an evaluation, a dataclass of settings with defaults.
    score(bundle, examples, options, share): evaluates a bundle, in training and in `headway eval`,
    alone or with other processes (`Share.each`). It raises DataError for an example with a label
    that the model does not have.
    read(bundle, paths, config, options): reads labelled examples, which have a length, from files.
    config: the configuration of the run, for the names of columns; None for a model without a run.
    held_out(bundle, run, config, options): returns the held-out examples of a run. reads: whether
    this task evaluates the examples of a file, if its kind of bundle is also that of other tasks;
    it then evaluates no held-out examples but those of its own runs. show_scores: formats scores
    as the lines that `headway eval` prints. sides(data): reads what the training examples and the
    held-out examples of the section `data` of a run say, which are compared with each other; None:
    they cannot be.

    bundles: how its models are loaded, by `family` in their config.json. next_commands: commands to
    suggest after training, with {run} in place of the run folder.
    """

    name: str
    config: type[RunConfig]
    recipes: Mapping[str, Callable[[], RunConfig]]
    check: Callable[[RunConfig], object]
    prepare: Callable[[RunConfig, Path, Machine, Emit], Job[Any, Examples, Options]]
    evaluation: type[Options]
    score: Callable[[Model, Examples, Options, Share], Scores]
    read: Callable[[Model, Sequence[Path], RunSettings | None, Options], Examples]
    held_out: Callable[[Model, Path, Any, Options], Examples]
    next_commands: Sequence[str]
    bundles: Mapping[str, BundleSpec[Any, Model]] = field(default_factory=dict)
    sides: Callable[[Any], Sides] | None = None
    reads: Callable[[Path], bool] | None = None
    show_scores: Callable[[Scores], list[str]] = lambda scores: [metrics_line(scores)]
    predicts: Predicts[Model, Any, Any, Any] | None = None
    compares: Compares[RunConfig, Model, Examples, Options] | None = None
    documents: Documents[Model, Any, Any, Any] | None = None
    draws: Draws[Model, Any, Any] | None = None
    derives: Derives[RunConfig] | None = None
    teaches: Teaches[RunConfig, Model] | None = None

    def evaluate(
        self,
        bundle: Model,
        examples: Examples,
        options: Options | None = None,
        share: Share = WHOLE,
    ) -> Scores:
        """Return the `score` of a bundle. options: None for the defaults of `evaluation`."""
        chosen = self.evaluation() if options is None else options
        return self.score(bundle, examples, chosen, share)

    @property
    def prediction(self) -> AnyPredicts:
        """The part `predicts` of a task whose entry in the registry names a verb."""
        assert self.predicts is not None
        return self.predicts


AnyBundleSpec = BundleSpec[Any, Any]
AnyTask = Task[Any, Any, Any, Any]
AnyPredicts = Predicts[Any, Any, Any, Any]
