"""The evaluation of word vectors: the loss on text, and the perplexity of next words."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from headway.base.errors import DataError, UsageError
from headway.data.rows import read_texts
from headway.data.stream import Batches
from headway.evaluation.scores import Metric, Scores
from headway.models import WordsConfig
from headway.tasks.task import NO_OPTIONS, NoOptions
from headway.tasks.word_vectors.bundle import WordsBundle
from headway.tasks.word_vectors.config import TextConfig, WordsRunConfig, WordsTrainingConfig
from headway.tasks.word_vectors.context_windows import ContextWindowSettings, Windows
from headway.tasks.word_vectors.data import check_files
from headway.tasks.word_vectors.objective import NegativeSampling, NextWordObjective
from headway.tasks.word_vectors.word_corpus import WordCorpus, prepare_words
from headway.training import Objective

BATCHES = 50
"""Maximum number of batches of an evaluation."""


@dataclass(frozen=True, kw_only=True)
class WordExamples:
    """A text whose words are predicted as in training.

    corpus: the encoded text. settings: how examples are made of words and their context.
    negatives: the weight of the negative samples.
    """

    corpus: WordCorpus
    settings: ContextWindowSettings
    negatives: int

    def __len__(self) -> int:
        """The number of words."""
        return self.corpus.words


def objective_of(model: WordsConfig, negatives: int) -> Objective:
    """Return the objective of a kind of word model. negatives: weight of the negative samples."""
    return NextWordObjective() if model.kind == "next-word" else NegativeSampling(negatives)


def window_settings(
    model: WordsConfig, training: WordsTrainingConfig, seed: int
) -> ContextWindowSettings:
    """Return how the examples of a run are made of words and their context."""
    return ContextWindowSettings(
        kind=model.kind,
        batch_size=training.batch_size,
        window=training.window,
        subsample=training.subsample,
        seed=seed,
    )


def examples_of(
    corpus: WordCorpus, model: WordsConfig, training: WordsTrainingConfig
) -> WordExamples:
    """Return the examples of a text, which do not depend on the random seed of the training."""
    settings = window_settings(model, training, seed=0)
    return WordExamples(corpus=corpus, settings=settings, negatives=training.negatives)


def read_examples(
    bundle: WordsBundle, paths: Sequence[Path], config: Any, options: NoOptions
) -> WordExamples:
    """Read the examples of text files.

    config: the configuration of the run, for the column of .tsv files and the settings of the
    examples; None: the defaults of the recipe.
    """
    check_files(paths)
    data, training = TextConfig(), WordsTrainingConfig()
    if isinstance(config, WordsRunConfig):
        data, training = config.data, config.training
    with tempfile.TemporaryDirectory() as folder:  # the file stays mapped after it is removed
        lines = read_texts(list(paths), data.column)
        corpus = prepare_words(lines, bundle.vocabulary, Path(folder) / "text")
    return examples_of(corpus, bundle.config, training)


def held_out_examples(
    bundle: WordsBundle, run: Path, config: Any, options: NoOptions
) -> WordExamples:
    """Open the held-out examples of a run. Raises UsageError if there are none."""
    folder = run / "data" / "valid"
    if not folder.is_dir():
        raise UsageError(
            "the run has no held-out text, or it was removed",
            str(folder),
            f"name a text file: headway eval {run} FILE",
        )
    return examples_of(WordCorpus.open(folder, bundle.vocabulary), bundle.config, config.training)


@torch.inference_mode()
def evaluate(
    bundle: WordsBundle,
    examples: WordExamples,
    options: NoOptions = NO_OPTIONS,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Compute the mean loss per target in nats; for next-word models the perplexity as well.

    The loss is that of training (`NegativeSampling` or `NextWordObjective`). At most BATCHES
    batches of one epoch are evaluated. progress: called before each batch with the number of
    targets so far. Raises DataError if no two adjacent words are in the vocabulary.
    """
    config = bundle.config
    is_next_word = config.kind == "next-word"
    if not examples or not (is_next_word or examples.corpus.has_neighbours):
        raise DataError(
            "no two adjacent words are in the vocabulary, so there is nothing to predict",
            hint="use a text with more words of the model's vocabulary",
        )
    objective = objective_of(config, examples.negatives)
    windows = Windows(examples.corpus, bundle.vocabulary.counts, examples.settings)
    batches = Batches(windows, windows.batch, str(bundle.device))
    total, count = 0.0, 0
    for epoch, _, batch in islice(batches.stream(0, 0), BATCHES):
        progress(count)
        loss = objective(bundle.model, batch)
        total, count = total + loss.nats.item(), count + loss.count
        if epoch:
            break
    nats = total / count
    metrics = [Metric("loss", nats, higher_is_better=False)]
    if is_next_word:
        metrics.append(Metric("perplexity", math.exp(min(nats, 50.0)), higher_is_better=False))
    return Scores(tuple(metrics), {"targets": count, "words": len(examples)})
