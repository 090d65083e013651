"""The job of a word-vector run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from headway.base.devices import Machine
from headway.base.errors import DataError
from headway.base.settings import override
from headway.data.stream import Batches
from headway.models import words_model
from headway.tasks.job import Emit, Job, update_size
from headway.tasks.task import NO_OPTIONS
from headway.tasks.word_vectors.bundle import WordsBundle
from headway.tasks.word_vectors.config import WordsRunConfig
from headway.tasks.word_vectors.context_windows import Windows
from headway.tasks.word_vectors.data import PreparedText, prepare_text
from headway.tasks.word_vectors.evaluation import examples_of, objective_of, window_settings
from headway.training import Stream

WORTH_A_NOTE = 0.2
"""A note is shown if subsampling leaves less than this fraction of the words."""


class WordsJob:
    """A `Job` that trains word vectors on text."""

    def __init__(self, config: WordsRunConfig, prepared: PreparedText, machine: Machine) -> None:
        size = {"model.vocabulary": prepared.vocabulary.size}
        self.config: WordsRunConfig = override(config, size, "the vocabulary")
        self.prepared = prepared
        model, training = self.config.model, config.training
        self.objective = objective_of(model, training.negatives)
        settings = window_settings(model, training, training.seed)
        counts = prepared.vocabulary.counts
        self.windows = Windows(prepared.train, counts, settings)
        self.train_batches = Batches(self.windows, self.windows.batch, machine.device)
        self.held_out, self.evaluation = examples_of(prepared.valid, model, training), NO_OPTIONS

    def build(self) -> nn.Module:
        return words_model(self.config.model)

    def stream(self, epoch: int, position: int) -> Stream:
        return self.train_batches.stream(epoch, position)

    def bundle(self, model: Any) -> WordsBundle:
        return WordsBundle(model, self.prepared.vocabulary)

    def plan(self) -> dict[str, Any]:
        model, training = self.config.model, self.config.training
        examples = update_size(training, self.train_batches.examples_per_epoch)
        return {
            "model": f"{model.kind}, {model.vocabulary - 1:,} words, d={model.dim}",
            "batches": f"{examples:,} words",
            "batches_per_epoch": self.train_batches.batches_per_epoch,
            "unit": "pairs",
        }


def prepare(config: WordsRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """Prepare vocabulary and encoded text in the run folder."""
    job = WordsJob(config, prepare_text(config.data, folder, emit), machine)
    _check_examples(job, emit)
    return job


def _check_examples(job: WordsJob, emit: Emit) -> None:
    """Check that there are context words; emit a note if subsampling leaves few words."""
    if job.config.model.kind == "next-word":
        return
    if not job.prepared.train.has_neighbours:
        raise DataError(
            "no two adjacent words are in the vocabulary, so there is nothing to train on",
            ", ".join(job.config.data.train),
            "use whole sentences on a line; --data.min-count 1 keeps every word",
        )
    counts = job.windows.counts
    remaining = float((job.windows.keep * counts).sum() / counts.sum())
    if remaining < WORTH_A_NOTE:
        text = f"subsampling leaves {remaining:.0%} of the words: for a short text use "
        emit({"kind": "note", "text": text + "--training.subsample 0"})
