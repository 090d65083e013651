"""Word vectors as a run: text in, a vector for each word out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.bundle import WordsBundle
from headway.data.formats import read_texts
from headway.data.windows import Windows, WindowSettings
from headway.data.words import WordCorpus, prepare_words
from headway.errors import DataError, UsageError
from headway.machine import Machine
from headway.models import words_model
from headway.recipes.config import TextConfig, WordsRunConfig
from headway.settings import override
from headway.tasks.job import Emit, Family
from headway.tasks.splits import is_held_out
from headway.text import Vocabulary
from headway.training import NegativeSampling, NextWordObjective, Objective, Stream

FEW_LINES = 100  # with fewer, nothing is held out
EVALUATED = 50  # batches of held-out words
WORTH_A_NOTE = 0.2  # of the words that subsampling leaves


@dataclass(frozen=True)
class PreparedText:
    """What word vectors are learned from. valid is train where the text is too short to part."""

    vocabulary: Vocabulary
    train: WordCorpus
    valid: WordCorpus


class WordsJob:
    """A `Job`: a word model and the text it learns from."""

    def __init__(self, config: WordsRunConfig, prepared: PreparedText, machine: Machine) -> None:
        size = {"model.vocabulary": prepared.vocabulary.size}
        self.config: WordsRunConfig = override(config, size, "the vocabulary")
        self.prepared, self.machine = prepared, machine
        training, kind = config.training, config.model.kind
        self.objective: Objective = (
            NextWordObjective() if kind == "next-word" else NegativeSampling(training.negatives)
        )
        self.settings = WindowSettings(
            kind=kind,
            rows=training.rows,
            window=training.window,
            subsample=training.subsample,
            seed=training.seed,
        )
        counts = prepared.vocabulary.counts
        self.windows = Windows(prepared.train, counts, self.settings, machine.device)
        # The same examples each time, whatever the seed of the training.
        same = replace(self.settings, seed=0)
        self.held_out = Windows(prepared.valid, counts, same, machine.device)

    def build(self) -> nn.Module:
        return words_model(self.config.model)

    def stream(self, epoch: int, position: int) -> Stream:
        return self.windows.stream(epoch, position)

    @torch.inference_mode()
    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> dict[str, float]:
        """Mean loss of held-out words; of next words also its exponential, the perplexity."""
        total, count = 0.0, 0
        for epoch, _, batch in islice(self.held_out.stream(0, 0), EVALUATED):
            go_on()
            found = self.objective(model, batch)
            total, count = total + found.nats.item(), count + found.count
            if epoch:
                break
        loss = total / count
        numbers = {"loss": loss, "negative_loss": -loss}
        if self.config.model.kind == "next-word":
            numbers["perplexity"] = math.exp(min(loss, 50.0))
        return numbers

    def bundle(self, model: Any) -> WordsBundle:
        return WordsBundle(model, self.prepared.vocabulary)

    def plan(self) -> dict[str, Any]:
        model, training = self.config.model, self.config.training
        return {
            "model": f"{model.kind}, {model.vocabulary - 1:,} words, d={model.dim}",
            "batches": f"{training.rows * training.accumulate:,} words",
            "batches_an_epoch": self.windows.batches_an_epoch(),
            "unit": "pairs",
        }


def _paths(config: TextConfig) -> list[Path]:
    """The text files, all of which must be there."""
    if not config.train:
        raise UsageError(
            "there is no text to learn from",
            hint="headway train words FILE, where FILE is .txt or .tsv, plain or .gz",
        )
    paths = [Path(name) for name in config.train]
    for path in paths:
        if not path.is_file():
            what = "a folder, not a file" if path.is_dir() else "no such file"
            raise UsageError(what, str(path), "name text files: .txt or .tsv, plain or .gz")
    return paths


def _lines(config: TextConfig, emit: Emit, what: str) -> Iterator[str]:
    for number, line in enumerate(read_texts(_paths(config), config.column), start=1):
        if number % 20_000 == 0:
            emit({"kind": "preparing", "what": what, "done": number, "unit": "lines"})
        yield line


def _prepared_text(config: TextConfig, folder: Path, emit: Emit) -> PreparedText:
    """Vocabulary and ids in `folder`, made once."""
    lines = sum(1 for _ in _lines(config, emit, "lines"))
    share = config.held_out if lines >= FEW_LINES else 0.0

    def part(held_out: bool, what: str) -> Iterator[str]:
        return (x for x in _lines(config, emit, what) if is_held_out(x, share) == held_out)

    if (folder / "vocabulary.json").exists():
        vocabulary, reused = Vocabulary.load(folder), True
    else:
        most, least = config.vocabulary, config.min_count
        vocabulary, reused = Vocabulary.count(part(False, "words"), most, least), False
        vocabulary.save(folder)
    facts = {"words": vocabulary.size - 1, "min_count": config.min_count, "reused": reused}
    emit({"kind": "vocabulary", **facts})

    def encoded(name: str, held_out: bool) -> WordCorpus:
        place = folder / "data" / name
        reused = place.exists()
        if reused:
            corpus = WordCorpus.open(place, vocabulary)
        else:
            corpus = prepare_words(part(held_out, name), vocabulary, place)
        skipped = {"unknown": corpus.unknown}
        facts = {"what": name, "count": corpus.words, "unit": "words", "reused": reused}
        emit({"kind": "prepared", **facts, "skipped": skipped})
        return corpus

    train = encoded("train", False)
    valid = encoded("valid", True) if share else train
    return PreparedText(vocabulary, train, valid if valid.has_neighbours else train)


def _prepare(config: WordsRunConfig, folder: Path, machine: Machine, emit: Emit) -> WordsJob:
    job = WordsJob(config, _prepared_text(config.data, folder, emit), machine)
    _check_examples(job, emit)
    return job


def _check_examples(job: WordsJob, emit: Emit) -> None:
    """Refuse a text without neighbours; say so when subsampling leaves little of it."""
    if job.config.model.kind == "next-word":
        return
    if not job.prepared.train.has_neighbours:
        raise DataError(
            "no known word stands beside another, so there is nothing to learn",
            ", ".join(job.config.data.train),
            "whole sentences on a line; --data.min-count 1 keeps every word",
        )
    counts = job.windows.counts
    left = float((job.windows.keep * counts).sum() / counts.sum())
    if left < WORTH_A_NOTE:
        text = f"subsampling leaves {left:.0%} of the words: a short text wants "
        emit({"kind": "note", "text": text + "--training.subsample 0"})


WORDS = Family(check=lambda config: _paths(config.data), prepare=_prepare)
