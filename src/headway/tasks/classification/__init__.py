"""Classification of texts and of text pairs into classes, and regression.

Radford et al. 2018, sections 3.2 and 3.3; Devlin et al. 2019, section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.base.errors import DataError
from headway.base.settings import setting
from headway.bundle import label_scores
from headway.evaluation.scores import Scores
from headway.tasks.classification.bundle import (
    ClassifiedText,
    ClassifierBundle,
    ClassInput,
    ClassOptions,
)
from headway.tasks.classification.config import ClassifyRunConfig, classify, pairs, regress
from headway.tasks.classification.data import check_texts, columns_of, labelled_texts
from headway.tasks.classification.evaluation import evaluate
from headway.tasks.classification.foreign import from_hugging_face, to_hugging_face
from headway.tasks.classification.job import prepare
from headway.tasks.classification.label_files import Columns, LabelledText, read_labelled
from headway.tasks.classification.show import prediction_line, score_line
from headway.tasks.classification.teaching import STUDENTS
from headway.tasks.job import Emit, Job
from headway.tasks.task import NO_OPTIONS, BundleSpec, NoOptions, Styled, TaskDefaults
from headway.tasks.truncation import warn_of_truncation


@dataclass(frozen=True, kw_only=True)
class ClassColumns:
    """Names of the columns of a table of inputs."""

    text: str | None = setting(
        None, "Column of --file that holds the text; if unset, as in training."
    )
    second: str | None = setting(
        None, "Column of --file that holds the second text; if unset, as in training."
    )


class Classification(TaskDefaults):
    """The `Task` of classification."""

    name = "classification"
    config: type[Any] = ClassifyRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {
        "classify": classify,
        "pairs": pairs,
        "regress": regress,
    }
    bundles: Mapping[str, BundleSpec] = {
        "gpt-classifier": BundleSpec(bundle=ClassifierBundle),
        "bert-classifier": BundleSpec(
            bundle=ClassifierBundle,
            foreign=from_hugging_face,
            export=to_hugging_face,
        ),
    }
    option_names: Mapping[str, str] = {"top_k": "top"}
    lists_one = True
    input: type[Any] = ClassInput
    options: type[Any] = ClassOptions
    columns: type[Any] = ClassColumns
    students = STUDENTS
    next_commands: Sequence[str] = ('classify {run} "..."', "eval {run}")

    def check(self, config: ClassifyRunConfig) -> None:
        check_texts(config)

    def prepare(self, config: ClassifyRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
        return prepare(config, folder, machine, emit)

    def read(
        self,
        bundle: ClassifierBundle,
        paths: Sequence[Path],
        config: Any | None,
        options: NoOptions,
    ) -> list[LabelledText]:
        texts = [
            text
            for path in paths
            for text in read_labelled([path], columns_of(bundle, path, config).columns)
        ]
        _warn(bundle, texts)
        return texts

    def held_out(
        self, bundle: ClassifierBundle, run: Path, config: Any, options: NoOptions
    ) -> list[LabelledText]:
        texts = labelled_texts(config.data)[1]
        _warn(bundle, texts)
        return texts

    def evaluate(
        self,
        bundle: ClassifierBundle,
        examples: Sequence[LabelledText],
        options: NoOptions = NO_OPTIONS,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return evaluate(bundle, examples, progress)

    def read_line(self, bundle: ClassifierBundle, line: str, where: str) -> ClassInput:
        """Parse a line of standard input.

        A model of text pairs reads two texts separated by a tab. A model that does not declare
        whether it reads pairs reads two texts if the line has a tab. Raises DataError for a line
        that has not exactly one tab where two texts are expected.
        """
        first, tab, second = line.partition("\t")
        reads_pairs = bundle.reader.pairs
        if not (reads_pairs or (reads_pairs is None and tab)):
            return ClassInput(text=line)
        if not tab or "\t" in second:
            raise DataError("expected two texts separated by one tab", where)
        return ClassInput(text=first, second=second)

    def read_table(
        self,
        bundle: ClassifierBundle,
        path: Path,
        config: Any | None,
        columns: ClassColumns,
    ) -> Iterator[ClassInput]:
        names = columns_of(bundle, path, config)
        second = columns.second or names.second
        for text in read_labelled([path], Columns(columns.text or names.text, None, second)):
            yield ClassInput(text=text.text, second=text.second)

    def pipeline_form(
        self, bundle: ClassifierBundle, prediction: ClassifiedText, options: ClassOptions
    ) -> list[dict[str, Any]]:
        if prediction.number is not None:
            return [{"label": "number", "score": prediction.number}]
        return label_scores(prediction.probabilities or {})

    def show_prediction(
        self, bundle: ClassifierBundle, prediction: ClassifiedText, options: ClassOptions
    ) -> list[Styled]:
        return [prediction_line(prediction, options)]

    def show_scores(self, scores: Scores) -> list[str]:
        return [score_line(scores)]


def _warn(bundle: ClassifierBundle, texts: Sequence[LabelledText]) -> None:
    """Warn of texts that are longer than the model's maximum length."""
    lengths = bundle.reader.lengths([text.texts for text in texts])
    warn_of_truncation(lengths, bundle.reader.max_length)


TASK = Classification()
