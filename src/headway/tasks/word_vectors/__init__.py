"""Word vectors (word2vec), trained by predicting neighbouring words. Mikolov et al. 2013."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.evaluation.scores import Scores
from headway.tasks.job import Emit, Job
from headway.tasks.task import NO_OPTIONS, BundleSpec, NoOptions
from headway.tasks.word_vectors.bundle import WordsBundle
from headway.tasks.word_vectors.config import WordsRunConfig, words
from headway.tasks.word_vectors.data import check_text
from headway.tasks.word_vectors.evaluation import (
    WordExamples,
    evaluate,
    held_out_examples,
    read_examples,
)
from headway.tasks.word_vectors.job import prepare
from headway.tasks.word_vectors.show import score_lines


class WordVectorLearning:
    """The `Task` of word vectors."""

    name = "word_vectors"
    config: type[Any] = WordsRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {"words": words}
    bundles: Mapping[str, BundleSpec] = {"words": BundleSpec(bundle=WordsBundle)}
    evaluation: type[Any] = NoOptions
    next_commands: Sequence[str] = (
        "words nearest {run} WORD",
        "words analogy {run} A B C",
        "words scatter {run} -o words.svg",
        "eval {run}",
    )

    def check(self, config: WordsRunConfig) -> None:
        check_text(config.data)

    def prepare(self, config: WordsRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
        return prepare(config, folder, machine, emit)

    def read(
        self, bundle: WordsBundle, paths: Sequence[Path], config: Any | None, options: NoOptions
    ) -> WordExamples:
        return read_examples(bundle, paths, config)

    def held_out(
        self, bundle: WordsBundle, run: Path, config: Any, options: NoOptions
    ) -> WordExamples:
        return held_out_examples(bundle, run, config)

    def evaluate(
        self,
        bundle: WordsBundle,
        examples: WordExamples,
        options: NoOptions = NO_OPTIONS,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return evaluate(bundle, examples, progress)

    def show_scores(self, scores: Scores) -> list[str]:
        return score_lines(scores)


TASK = WordVectorLearning()
