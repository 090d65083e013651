"""Language modelling: a decoder (GPT) that predicts every token from the tokens before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.bundle import TextBundle
from headway.evaluation.scores import Scores
from headway.tasks.job import Emit, Job
from headway.tasks.language_modeling.config import (
    LanguageRunConfig,
    LanguageScoring,
    gpt,
    gpt_shakespeare,
    gpt_tiny,
)
from headway.tasks.language_modeling.data import check_sources
from headway.tasks.language_modeling.evaluation import (
    AS_THE_RUN,
    ScoredText,
    evaluate,
    held_out_text,
    read_text,
)
from headway.tasks.language_modeling.foreign import (
    from_hugging_face,
    to_ctranslate2,
    to_hugging_face,
)
from headway.tasks.language_modeling.job import prepare
from headway.tasks.language_modeling.show import score_lines
from headway.tasks.language_modeling.teaching import STUDENTS
from headway.tasks.task import BundleSpec


class LanguageModeling:
    """The `Task` of language modelling."""

    name = "language_modeling"
    config: type[Any] = LanguageRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {
        "gpt": gpt,
        "gpt-tiny": gpt_tiny,
        "gpt-shakespeare": gpt_shakespeare,
    }
    bundles: Mapping[str, BundleSpec] = {
        "gpt": BundleSpec(
            bundle=TextBundle,
            foreign=from_hugging_face,
            export=to_hugging_face,
            export_to_ctranslate2=to_ctranslate2,
        )
    }
    evaluation: type[Any] = LanguageScoring
    students = STUDENTS
    next_commands: Sequence[str] = (
        'generate {run} "..."',
        "chat {run}",
        "eval {run}",
        "export {run} --to hf",
    )

    def check(self, config: LanguageRunConfig) -> None:
        check_sources(config)

    def prepare(self, config: LanguageRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
        return prepare(config, folder, machine, emit)

    def read(
        self,
        bundle: TextBundle,
        paths: Sequence[Path],
        config: Any | None,
        options: LanguageScoring,
    ) -> ScoredText:
        return read_text(bundle, paths, config)

    def held_out(
        self, bundle: TextBundle, run: Path, config: Any, options: LanguageScoring
    ) -> ScoredText:
        return held_out_text(bundle, run, config)

    def evaluate(
        self,
        bundle: TextBundle,
        examples: ScoredText,
        options: LanguageScoring = AS_THE_RUN,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return evaluate(bundle, examples, options, progress)

    def show_scores(self, scores: Scores) -> list[str]:
        return score_lines(scores)


TASK = LanguageModeling()
