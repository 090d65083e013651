"""Sentence embedding: vectors of texts whose cosine is the similarity of the texts.

Reimers and Gurevych 2019. The models are text encoders; `headway embed` and `headway similar` use
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.bundle import EncoderBundle
from headway.data.formats import TABLES, ending
from headway.evaluation.scores import Scores
from headway.tasks.job import Emit, Job
from headway.tasks.sentence_embedding.config import (
    EmbedDataConfig,
    EmbedRunConfig,
    EmbedScoring,
    embed,
)
from headway.tasks.sentence_embedding.data import check_pairs, encoded, read_texts, similar_texts
from headway.tasks.sentence_embedding.evaluation import USUAL, evaluate
from headway.tasks.sentence_embedding.job import prepare
from headway.tasks.sentence_embedding.show import score_line
from headway.tasks.sentence_embedding.similar_files import SimilarTexts
from headway.tasks.sentence_embedding.similar_pairs import SimilarPairs
from headway.tasks.task import BundleSpec


class SentenceEmbedding:
    """The `Task` of sentence embedding."""

    name = "sentence_embedding"
    config: type[Any] = EmbedRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {"embed": embed}
    bundles: Mapping[str, BundleSpec] = {}
    evaluation: type[Any] = EmbedScoring
    next_commands: Sequence[str] = (
        'similar {run} "..." TEXTS',
        "embed {run} TEXTS --output vectors.npz",
        "embed {run} TEXTS --plot texts.svg",
    )

    def check(self, config: EmbedRunConfig) -> None:
        check_pairs(config)

    def prepare(self, config: EmbedRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
        return prepare(config, folder, machine, emit)

    def reads(self, path: Path) -> bool:
        """Return whether the file is a table of pairs."""
        return ending(path) in TABLES

    def read(
        self,
        bundle: EncoderBundle,
        paths: Sequence[Path],
        config: Any | None,
        options: EmbedScoring,
    ) -> SimilarPairs:
        data = config.data if isinstance(config, EmbedRunConfig) else EmbedDataConfig()
        return _encoded(bundle, read_texts([str(path) for path in paths], data), data)

    def held_out(
        self, bundle: EncoderBundle, run: Path, config: Any, options: EmbedScoring
    ) -> SimilarPairs:
        return _encoded(bundle, similar_texts(config.data)[1], config.data)

    def evaluate(
        self,
        bundle: EncoderBundle,
        examples: SimilarPairs,
        options: EmbedScoring = USUAL,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return evaluate(bundle, examples, options, progress)

    def show_scores(self, scores: Scores) -> list[str]:
        return [score_line(scores)]


def _encoded(
    bundle: EncoderBundle, pairs: list[SimilarTexts], data: EmbedDataConfig
) -> SimilarPairs:
    return encoded(pairs, bundle.tokenizer, min(data.max_length, bundle.config.max_length))


TASK = SentenceEmbedding()
