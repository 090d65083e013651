"""The job of a word-vector run."""

from __future__ import annotations

from pathlib import Path

from headway.base.devices import Machine
from headway.base.errors import DataError
from headway.base.settings import override
from headway.data.stream import Batches
from headway.models import words_model
from headway.tasks.job import Emit, Job, Summary, update_size
from headway.tasks.task import NO_OPTIONS, NoOptions
from headway.tasks.word_vectors.bundle import WordsBundle
from headway.tasks.word_vectors.config import WordsRunConfig
from headway.tasks.word_vectors.context_windows import Windows, WordBatch
from headway.tasks.word_vectors.data import prepare_text
from headway.tasks.word_vectors.evaluation import (
    WordExamples,
    examples_of,
    objective_of,
    window_settings,
)

WORTH_A_NOTE = 0.2
"""A note is shown if subsampling leaves less than this fraction of the words."""


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
