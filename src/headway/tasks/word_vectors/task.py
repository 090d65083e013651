"""The task of word vectors: job, evaluation, output, and the record that names them.

Mikolov et al. 2013b.
"""

import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from headway.base.devices import Machine
from headway.base.errors import DataError
from headway.base.settings import override
from headway.base.sharing import Share
from headway.data.rows import read_texts
from headway.data.stream import Batches
from headway.evaluation import nats_of
from headway.evaluation.scores import Metric, Scores
from headway.models import WordsConfig, words_model
from headway.tasks.job import Emit, Job, Summary, update_size
from headway.tasks.sections import RunSettings
from headway.tasks.task import NO_OPTIONS, BundleSpec, NoOptions, Task
from headway.tasks.text_data import held_out_folder
from headway.tasks.word_vectors.config import TextConfig, WordsRunConfig, WordsTrainingConfig, words
from headway.tasks.word_vectors.context_windows import ContextWindowSettings, Windows, WordBatch
from headway.tasks.word_vectors.data import (
    WordCorpus,
    check,
    check_files,
    prepare_text,
    prepare_words,
)
from headway.tasks.word_vectors.model import NegativeSampling, NextWordObjective, WordsBundle
from headway.training import Objective

BATCHES = 50
"""Maximum number of batches of an evaluation."""

WORTH_A_NOTE = 0.2
"""A note is shown if subsampling leaves less than this fraction of the words."""


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


def prepare(
    config: WordsRunConfig, folder: Path, machine: Machine, emit: Emit
) -> Job[WordBatch, WordExamples, NoOptions]:
    """Prepare vocabulary and encoded text in the run folder, and return the job.

    Raises DataError if there are no context words. Emits a note if subsampling leaves few words.
    """
    prepared = prepare_text(config.data, folder, emit)
    size = {"model.vocabulary": prepared.vocabulary.size}
    config = override(config, size, "the vocabulary")
    model, training = config.model, config.training
    settings = window_settings(model, training, training.seed)
    windows = Windows(prepared.train, prepared.vocabulary.counts, settings)
    if model.kind != "next-word":
        if not prepared.train.has_neighbours:
            raise DataError(
                "no two adjacent words are in the vocabulary, so there is nothing to train on",
                ", ".join(config.data.train),
                "use whole sentences on a line; --data.min-count 1 keeps every word",
            )
        remaining = float((windows.keep * windows.counts).sum() / windows.counts.sum())
        if remaining < WORTH_A_NOTE:
            text = f"subsampling leaves {remaining:.0%} of the words: for a short text use "
            emit({"kind": "note", "text": text + "--training.subsample 0"})
    return Job(
        config=config,
        build=lambda: words_model(model),
        batches=Batches(windows, windows.batch, machine.device),
        objective=objective_of(model, training.negatives),
        held_out=examples_of(prepared.valid, model, training),
        evaluation=NO_OPTIONS,
        bundle=lambda trained: WordsBundle(trained, prepared.vocabulary),
        summary=Summary(
            model=f"{model.kind}, {model.vocabulary - 1:,} words, d={model.dim}",
            batches=f"{update_size(training, windows.examples_per_epoch):,} words",
            unit="pairs",
        ),
    )


def read_examples(
    bundle: WordsBundle, paths: Sequence[Path], config: RunSettings | None, options: NoOptions
) -> WordExamples:
    """Read the examples of text files.

    config: the configuration of the run, for the column of tables and the settings of the
    examples; None: the defaults of the recipe.
    """
    check_files(paths)
    data, training = TextConfig(), WordsTrainingConfig()
    if isinstance(config, WordsRunConfig):
        data, training = config.data, config.training
    with tempfile.TemporaryDirectory() as folder:  # the file stays mapped after it is removed
        lines = read_texts(list(paths), data.text)
        corpus = prepare_words(lines, bundle.vocabulary, Path(folder) / "text")
    return examples_of(corpus, bundle.config, training)


def held_out_examples(
    bundle: WordsBundle, run: Path, config: RunSettings, options: NoOptions
) -> WordExamples:
    """Open the held-out examples of a run. Raises UsageError if there are none."""
    assert isinstance(config, WordsRunConfig)
    return examples_of(
        WordCorpus.open(held_out_folder(run), bundle.vocabulary), bundle.config, config.training
    )


@torch.inference_mode()
def evaluate(
    bundle: WordsBundle, examples: WordExamples, options: NoOptions, share: Share
) -> Scores:
    """Compute the mean loss per target in nats; for next-word models the perplexity as well.

    The loss is that of training (`NegativeSampling` or `NextWordObjective`). At most BATCHES
    batches of one epoch are evaluated. Raises DataError if no two adjacent words are in the
    vocabulary.
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

    def loss(batch: WordBatch) -> tuple[float, int]:
        batch_loss = objective(bundle.model, batch)
        return batch_loss.nats.item(), batch_loss.count

    chosen = islice(_of_one_epoch(batches), BATCHES)
    work = min(BATCHES, batches.batches_per_epoch)
    nats = nats_of(loss, chosen, share.in_examples(len(examples), work))
    metrics = [Metric("loss", nats.mean, higher_is_better=False)]
    if is_next_word:
        perplexity = math.exp(min(nats.mean, 50.0))
        metrics.append(Metric("perplexity", perplexity, higher_is_better=False))
    return Scores(tuple(metrics), {"targets": nats.count, "words": len(examples)})


def _of_one_epoch(batches: Batches[Any, WordBatch]) -> Iterator[WordBatch]:
    for epoch, _, batch in batches.stream(0, 0):
        yield batch
        if epoch:
            return


def score_lines(scores: Scores) -> list[str]:
    """Format the loss, the perplexity of next words, and the number of targets."""
    counts = scores.counts
    perplexity = f"   perplexity {scores['perplexity']:.2f}" if "perplexity" in scores else ""
    return [
        f"loss {scores['loss']:.4f} nats per target{perplexity}",
        f"{counts['targets']:,} targets of a text of {counts['words']:,} words",
    ]


WORD_VECTORS = Task(
    name="word_vectors",
    config=WordsRunConfig,
    recipes={"words": words},
    check=check,
    prepare=prepare,
    evaluation=NoOptions,
    score=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    show_scores=score_lines,
    bundles={"words": BundleSpec(WordsBundle)},
    next_commands=(
        "words nearest {run} WORD",
        "words analogy {run} A B C",
        "words scatter {run} -o words.svg",
        "eval {run}",
    ),
)
