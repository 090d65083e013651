"""Perplexity and bits per byte of text: in training's validation and in `headway eval` alike."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch

from headway.bundle import TextBundle
from headway.data.documents import read_documents
from headway.data.packing import TextBatch, in_order
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.errors import UsageError
from headway.evaluation import bits_per_byte, mean_nats
from headway.machine import Machine
from headway.models import GPT
from headway.recipes.catalogue import AnyRunConfig
from headway.recipes.distil_config import DistilLanguageRunConfig
from headway.recipes.language_config import LanguageRunConfig
from headway.tasks.sections import TextDataConfig
from headway.training import TextObjective

BATCH_TOKENS = 4096  # tokens scored at once where no run says how many
LONGEST_WINDOW = 1024  # unless asked for
LENGTH_LIMIT = 2**17


@dataclass(frozen=True)
class Windows:
    """How a text is cut into windows, and how many tokens of it are scored.

    length: targets of a window. rows: windows scored at once. tokens: the number scored, rounded up
    to whole batches; None for all.
    """

    length: int
    rows: int
    tokens: int | None = None


@dataclass(frozen=True)
class LanguageScores:
    """nats: mean negative log-likelihood of a token. bits_per_byte: of all of the text if what was
    scored is like the rest. tokens: those scored. bytes: of all of the text in UTF-8."""

    nats: float
    bits_per_byte: float
    tokens: int
    bytes: int

    @property
    def perplexity(self) -> float:
        """exp(nats), infinite where that is too large for a number."""
        return math.exp(self.nats) if self.nats < 700 else math.inf


def language_scores(
    model: GPT,
    corpus: TextCorpus,
    windows: Windows,
    machine: Machine,
    go_on: Callable[[], object] = lambda: None,
) -> LanguageScores:
    """Score a text in consecutive windows that do not overlap: every token but the first of the
    text is a target once, predicted from the earlier tokens of its window and its document.

    go_on is called before each batch. Of a text whose documents end in <eos>, <bos> is no target.
    """
    objective, count = TextObjective(), 0
    most = None
    if windows.tokens is not None:
        most = -(-windows.tokens // (windows.rows * windows.length))

    def batches() -> Iterator[TextBatch]:
        every = in_order(corpus, windows.rows, windows.length, machine.device)
        for batch in islice(every, most):
            go_on()
            yield batch

    def loss(batch: TextBatch) -> tuple[float, int]:
        nonlocal count
        with machine.precision():
            found = objective(model, batch)
        count += found.count
        return found.nats.item(), found.count

    nats = mean_nats(loss, batches())
    unlearned = len(corpus.offsets) if corpus.marks_ends else 1
    bits = bits_per_byte(nats * (len(corpus) - unlearned), corpus.num_bytes)
    return LanguageScores(nats, bits, count, corpus.num_bytes)


def windows_of(bundle: TextBundle, config: AnyRunConfig | None, length: int | None) -> Windows:
    """Those that the run's validation uses; without a run, the model's context, at most
    LONGEST_WINDOW. length: another number of targets. UsageError if the model has no such context.
    """
    longest, why = bundle.model.max_length, "the model's context"
    if longest is None:
        longest, why = LENGTH_LIMIT, "as attention takes memory with the square of it"
    if length is not None and not 1 <= length <= longest:
        raise UsageError(f"--length {length}: must be from 1 to {longest:,}, {why}")
    if isinstance(config, LanguageRunConfig | DistilLanguageRunConfig):
        training = config.training
        windows = Windows(training.length, training.rows, config.evaluation.tokens)
        return windows if length is None else replace(windows, length=length)
    length = length or min(bundle.config.max_length, LONGEST_WINDOW)
    return Windows(length, max(1, BATCH_TOKENS // length))


@torch.inference_mode()
def score_held_out(
    bundle: TextBundle, run: Path, config: AnyRunConfig, length: int | None, machine: Machine
) -> LanguageScores:
    """What the run's validation gives for its held-out text. UsageError if that is not there."""
    folder = run / "data" / "valid"
    if not folder.is_dir():
        raise UsageError(
            "the run's held-out text is not there", str(folder), "name a text file or folder"
        )
    corpus = TextCorpus.open(folder, bundle.tokenizer)
    return language_scores(bundle.model, corpus, windows_of(bundle, config, length), machine)


@torch.inference_mode()
def score_text(
    bundle: TextBundle,
    path: Path,
    config: AnyRunConfig | None,
    length: int | None,
    machine: Machine,
) -> LanguageScores:
    """Score all of a text file, a folder of them or a collection, cut into documents as the run's
    text is. Its tokens are kept in a temporary folder. DataError, UsageError."""
    data = config.data if config is not None else None
    told = data if isinstance(data, TextDataConfig) else TextDataConfig()
    windows = replace(windows_of(bundle, config, length), tokens=None)
    with tempfile.TemporaryDirectory() as folder:
        parts = read_documents([str(path)], told.split, told.key)
        corpus = prepare_text(parts, bundle.tokenizer, Path(folder) / "text")
        return language_scores(bundle.model, corpus, windows, machine)
