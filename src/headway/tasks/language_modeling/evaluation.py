"""The evaluation of a language model: nats per token, bits per byte and perplexity."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from headway.base.errors import UsageError
from headway.bundle import TextBundle
from headway.data.documents import read_documents
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.evaluation import bits_per_byte, mean_nats
from headway.evaluation.scores import Metric, Scores
from headway.tasks.language_modeling.config import LanguageEvaluationConfig, LanguageScoring
from headway.tasks.language_modeling.packing import TextBatch, in_order
from headway.tasks.sections import TextDataConfig
from headway.training import TextObjective

BATCH_TOKENS = 4096
"""Batch size in tokens, for a model without a run."""

LONGEST_WINDOW = 1024
"""Maximum default window length."""

LENGTH_LIMIT = 2**17
"""Maximum window length of a model without a maximum context length."""

AS_THE_RUN = LanguageScoring()


@dataclass(frozen=True, kw_only=True)
class Windows:
    """How a text is split into windows, and how many of its tokens are scored.

    length: the number of targets of a window. batch_size: the batch size, in windows. tokens: the
    number of tokens that are scored, rounded up to whole batches; None: all.
    """

    length: int
    batch_size: int
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class ScoredText:
    """The tokens of a text to score, and its windows, which options of the evaluation override."""

    corpus: TextCorpus
    windows: Windows

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self.corpus)


def windows_of(bundle: TextBundle, config: Any | None) -> Windows:
    """Return the windows of a run's validation.

    Without a run, the window length is the model's context length, at most LONGEST_WINDOW.
    """
    if config is not None and isinstance(config.evaluation, LanguageEvaluationConfig):
        training = config.training
        return Windows(
            length=training.length, batch_size=training.batch_size, tokens=config.evaluation.tokens
        )
    length = min(bundle.config.max_length, LONGEST_WINDOW)
    return Windows(length=length, batch_size=max(1, BATCH_TOKENS // length))


def held_out_text(
    bundle: TextBundle, run: Path, config: Any, options: LanguageScoring
) -> ScoredText:
    """Open the held-out text of a run. Raises UsageError if it is missing."""
    folder = run / "data" / "valid"
    if not folder.is_dir():
        raise UsageError(
            "the held-out text of the run is missing", str(folder), "name a text file or folder"
        )
    corpus = TextCorpus.open(folder, bundle.tokenizer)
    return ScoredText(corpus=corpus, windows=windows_of(bundle, config))


def read_text(
    bundle: TextBundle, paths: Sequence[Path], config: Any, options: LanguageScoring
) -> ScoredText:
    """Read and encode the text of files, folders or collections.

    It is split into documents by the settings of the run, or by the defaults. Raises DataError or
    UsageError for text that cannot be read.
    """
    data = None if config is None else config.data
    settings = data if isinstance(data, TextDataConfig) else TextDataConfig()
    with tempfile.TemporaryDirectory() as folder:  # the files stay mapped after they are removed
        parts = read_documents([str(path) for path in paths], settings.split, settings.key)
        corpus = prepare_text(parts, bundle.tokenizer, Path(folder) / "text")
    windows = replace(windows_of(bundle, config), tokens=None)
    return ScoredText(corpus=corpus, windows=windows)


@torch.inference_mode()
def evaluate(
    bundle: TextBundle,
    text: ScoredText,
    options: LanguageScoring = AS_THE_RUN,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Score a text in consecutive windows without overlap.

    Every token but the first of the text is a target once, predicted from the earlier tokens of its
    window and its document. If documents end in <eos>, <bos> is no target.

    progress: called before each batch with the number of tokens scored so far. Raises UsageError if
    the window length is above the model's context length.

    The scores are nats, the mean negative log-likelihood per token; bits_per_byte, extrapolated to
    the whole text; and perplexity = exp(nats), infinite if that overflows.
    """
    windows, corpus = _chosen(bundle, text.windows, options), text.corpus
    objective, count = TextObjective(), 0
    limit = None
    if windows.tokens is not None:
        limit = -(-windows.tokens // (windows.batch_size * windows.length))

    def batches() -> Iterator[TextBatch]:
        all_batches = in_order(corpus, windows.batch_size, windows.length, str(bundle.device))
        for batch in islice(all_batches, limit):
            progress(count)
            yield batch

    def loss(batch: TextBatch) -> tuple[float, int]:
        nonlocal count
        batch_loss = objective(bundle.model, batch)
        count += batch_loss.count
        return batch_loss.nats.item(), batch_loss.count

    nats = mean_nats(loss, batches())
    not_predicted = len(corpus.offsets) if corpus.has_separate_ends else 1
    bits = bits_per_byte(nats * (len(corpus) - not_predicted), corpus.num_bytes)
    metrics = {"nats": nats, "bits_per_byte": bits, "perplexity": perplexity(nats)}
    return Scores(
        tuple(Metric(name, value, higher_is_better=False) for name, value in metrics.items()),
        {"tokens": count, "bytes": corpus.num_bytes, "window": windows.length},
        _samples(bundle, options),
    )


def perplexity(nats: float) -> float:
    """Return exp(nats), or infinity if that overflows."""
    return math.exp(nats) if nats < 700 else math.inf


def _chosen(bundle: TextBundle, windows: Windows, options: LanguageScoring) -> Windows:
    """Return the windows of the text, with the length and tokens of the options if they are set."""
    longest, reason = bundle.model.max_length, "the model's context length"
    if longest is None:
        longest, reason = LENGTH_LIMIT, "because the memory of attention is quadratic in the length"
    length, tokens = options.length, options.tokens
    if length is not None and not 1 <= length <= longest:
        raise UsageError(f"length={length}: must be from 1 to {longest:,}, {reason}")
    return replace(
        windows,
        length=windows.length if length is None else length,
        tokens=windows.tokens if tokens is None else tokens,
    )


def _samples(bundle: TextBundle, options: LanguageScoring) -> list[Mapping[str, str]]:
    """Generate a text from the prompt, as an illustration of the scores."""
    if not options.sample:
        return []
    ((text,),) = bundle.generate([options.prompt], max_tokens=options.sample)
    return [{"prompt": options.prompt, "output": text.text}]
