"""How well a language model predicts a text: nats per token, bits per byte, perplexity."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from headway.bundle import TextBundle
from headway.data.documents import read_documents
from headway.data.packing import TextBatch, in_order
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.errors import UsageError
from headway.evaluation import bits_per_byte, mean_nats
from headway.evaluation.scores import Metric, Scores
from headway.tasks.language_modeling.config import LanguageEvaluationConfig, LanguageScoring
from headway.tasks.sections import TextDataConfig
from headway.training import TextObjective

BATCH_TOKENS = 4096  # tokens scored at once where no run says how many
LONGEST_WINDOW = 1024  # unless asked for
LENGTH_LIMIT = 2**17
AS_THE_RUN = LanguageScoring()


@dataclass(frozen=True, kw_only=True)
class Windows:
    """How a text is cut into windows, and how many tokens of it are scored.

    length: targets of a window. rows: windows scored at once. tokens: the number scored, rounded up
    to whole batches; None for all.
    """

    length: int
    rows: int
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class ScoredText:
    """A text that is scored: its tokens, and the windows into which it is cut unless the options of
    the evaluation name others."""

    corpus: TextCorpus
    windows: Windows

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self.corpus)


def windows_of(bundle: TextBundle, config: Any | None) -> Windows:
    """Those of a run's validation; without a run, the model's context, at most LONGEST_WINDOW."""
    if config is not None and isinstance(config.evaluation, LanguageEvaluationConfig):
        training = config.training
        return Windows(length=training.length, rows=training.rows, tokens=config.evaluation.tokens)
    length = min(bundle.config.max_length, LONGEST_WINDOW)
    return Windows(length=length, rows=max(1, BATCH_TOKENS // length))


def held_out_text(bundle: TextBundle, run: Path, config: Any) -> ScoredText:
    """The held-out text of a run. UsageError if it is not there."""
    folder = run / "data" / "valid"
    if not folder.is_dir():
        raise UsageError(
            "the run's held-out text is not there", str(folder), "name a text file or folder"
        )
    corpus = TextCorpus.open(folder, bundle.tokenizer)
    return ScoredText(corpus=corpus, windows=windows_of(bundle, config))


def read_text(bundle: TextBundle, paths: Sequence[Path], config: Any | None) -> ScoredText:
    """All of the text of files, folders of them or collections, cut into documents as the run's
    text is. DataError, UsageError."""
    data = None if config is None else config.data
    cut = data if isinstance(data, TextDataConfig) else TextDataConfig()
    with tempfile.TemporaryDirectory() as folder:  # the files stay mapped after they are removed
        parts = read_documents([str(path) for path in paths], cut.split, cut.key)
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
    """Score a text in consecutive windows that do not overlap: every token but the first of the
    text is a target once, predicted from the earlier tokens of its window and its document.

    nats: mean negative log-likelihood of a token. bits_per_byte: of all of the text if what was
    scored is like the rest. perplexity = exp(nats), infinite where that is too large for a number.
    progress: called before each batch with the number of tokens scored so far. Of a text whose
    documents end in <eos>, <bos> is no target. UsageError if the model has no such context.
    """
    windows, corpus = _chosen(bundle, text.windows, options), text.corpus
    objective, count = TextObjective(), 0
    most = None
    if windows.tokens is not None:
        most = -(-windows.tokens // (windows.rows * windows.length))

    def batches() -> Iterator[TextBatch]:
        every = in_order(corpus, windows.rows, windows.length, str(bundle.device))
        for batch in islice(every, most):
            progress(count)
            yield batch

    def loss(batch: TextBatch) -> tuple[float, int]:
        nonlocal count
        of_batch = objective(bundle.model, batch)
        count += of_batch.count
        return of_batch.nats.item(), of_batch.count

    nats = mean_nats(loss, batches())
    unlearned = len(corpus.offsets) if corpus.marks_ends else 1
    bits = bits_per_byte(nats * (len(corpus) - unlearned), corpus.num_bytes)
    metrics = {"nats": nats, "bits_per_byte": bits, "perplexity": perplexity(nats)}
    return Scores(
        tuple(Metric(name, value, higher_is_better=False) for name, value in metrics.items()),
        {"tokens": count, "bytes": corpus.num_bytes, "window": windows.length},
        _samples(bundle, options),
    )


def perplexity(nats: float) -> float:
    """exp(nats), infinite where that is too large for a number."""
    return math.exp(nats) if nats < 700 else math.inf


def _chosen(bundle: TextBundle, windows: Windows, options: LanguageScoring) -> Windows:
    """The windows of the text, with what the options name instead."""
    longest, why = bundle.model.max_length, "the model's context"
    if longest is None:
        longest, why = LENGTH_LIMIT, "as attention takes memory with the square of it"
    length, tokens = options.length, options.tokens
    if length is not None and not 1 <= length <= longest:
        raise UsageError(f"--length {length}: must be from 1 to {longest:,}, {why}")
    return replace(
        windows,
        length=windows.length if length is None else length,
        tokens=windows.tokens if tokens is None else tokens,
    )


def _samples(bundle: TextBundle, options: LanguageScoring) -> list[Mapping[str, str]]:
    """A text that the model writes, so that a person sees what the numbers mean."""
    if not options.sample:
        return []
    ((text,),) = bundle.generate([options.prompt], max_tokens=options.sample)
    return [{"prompt": options.prompt, "output": text.text}]
