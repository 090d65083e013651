"""The evaluation of a text encoder: masked words, next-sentence prediction, pseudo-perplexity."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from headway.base.errors import DataError, HeadwayWarning, UsageError
from headway.base.sharing import Share
from headway.bundle import EncoderBundle
from headway.data.formats.lines import ending
from headway.data.prepared import numbered
from headway.data.rows import ENDINGS as TABLES
from headway.evaluation.scores import Metric, Scores
from headway.tasks.masked_language_modeling.config import (
    EncoderDataConfig,
    EncoderRunConfig,
    EncoderScoring,
)
from headway.tasks.masked_language_modeling.data import (
    SentenceCorpus,
    held_out_sentences,
    sentences_of_files,
)
from headway.tasks.masked_language_modeling.masked_batches import (
    MaskedBatch,
    Source,
    evaluation_batches,
)
from headway.tasks.masked_language_modeling.masking import Masking
from headway.tasks.masked_language_modeling.model import judge
from headway.tasks.masked_language_modeling.pseudo_perplexity import pseudo_perplexity
from headway.tasks.masked_language_modeling.sentence_pairs import CorpusMixture
from headway.text import EncoderTokenizer

HELD_OUT = 1 << 20
"""Number of the first held-out corpus, so that its random masks differ from those in training."""

LOWER_IS_BETTER = {"mlm_nats", "nsp_loss"}


@dataclass(frozen=True, kw_only=True)
class HeldOutText:
    """Held-out text.

    sources: name of a text -> its sequences, whose masked words are always the same; empty if there
    are only sentences. batch_size: the number of sequences of a batch. read_sentences: returns the
    sentences; it is called only if they are evaluated.
    """

    sources: Mapping[str, Source]
    batch_size: int
    read_sentences: Callable[[], Sequence[str]]

    @cached_property
    def sentences(self) -> Sequence[str]:
        """The held-out sentences."""
        return self.read_sentences()

    def __len__(self) -> int:
        return len(self.sentences)


def sources_of(
    config: EncoderRunConfig,
    corpora: Sequence[SentenceCorpus],
    tokenizer: EncoderTokenizer,
    first: int,
) -> list[Source]:
    """Make the sources of the masked sequences of corpora, by the settings of a run.

    first: the number of the first corpus, which seeds its randomness.
    """
    masking = Masking.of(config.masking, tokenizer)
    anywhere = CorpusMixture.among(corpora, config.data.smoothing) if len(corpora) > 1 else None
    return [
        Source(corpus, config, masking, tokenizer.special_tokens, first + i, anywhere)
        for i, corpus in enumerate(corpora)
    ]


def held_out_of(
    config: EncoderRunConfig, corpora: Sequence[SentenceCorpus], tokenizer: EncoderTokenizer
) -> HeldOutText:
    """Return the held-out text of a run. corpora: its prepared sentences; none if they are missing.

    The random second texts of next-sentence prediction are of the same text.
    """
    data, sources = config.data, sources_of(config, corpora, tokenizer, HELD_OUT)
    names = [", ".join(data.valid)] if data.valid else data.train
    return HeldOutText(
        sources=dict(zip(names, sources, strict=True)) if sources else {},
        batch_size=config.training.batch_size,
        read_sentences=partial(held_out_sentences, data),
    )


def reads_text(path: Path) -> bool:
    """Return whether the file is running text, not a table."""
    return ending(path) not in TABLES


def read_text(
    bundle: EncoderBundle, paths: Sequence[Path], config: object, options: EncoderScoring
) -> HeldOutText:
    """Return the sentences of files, which are read when they are evaluated."""
    data = config.data if isinstance(config, EncoderRunConfig) else EncoderDataConfig()
    read_sentences = partial(sentences_of_files, paths, data)
    return HeldOutText(sources={}, batch_size=1, read_sentences=read_sentences)


def held_out_text(
    bundle: EncoderBundle, run: Path, config: object, options: EncoderScoring
) -> HeldOutText:
    """Open the held-out text of the run; only its sentences if prepared data was removed.

    Raises DataError if the prepared data is damaged, UsageError for a model without a head for
    masked words.
    """
    assert isinstance(config, EncoderRunConfig)
    _check_head(bundle)
    data = config.data
    names = ["valid"] if data.valid else numbered("valid", len(data.train))
    folders = [run / "data" / name for name in names]
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    if missing:
        text = f"no scores for masked words: the prepared data {', '.join(missing)} is missing"
        warnings.warn(text, HeadwayWarning, stacklevel=2)
        folders = []
    corpora = [SentenceCorpus.open(folder, bundle.tokenizer) for folder in folders]
    return held_out_of(replace(config, model=bundle.config), corpora, bundle.tokenizer)


def _check_head(bundle: EncoderBundle) -> None:
    """Raise UsageError for a model without a head for masked words."""
    if bundle.model.masked_lm_head is None:
        raise UsageError(
            "the model has no head for masked words, so it cannot be evaluated",
            hint="headway train bert-domain TEXT --from MODEL trains one",
        )


@dataclass(frozen=True)
class RowScores:
    """Totals over sequences.

    nats, words, right: cross-entropy, number and correct predictions of masked words. pair_nats,
    pairs, pairs_right: those of next-sentence prediction.
    """

    nats: float = 0.0
    words: int = 0
    right: int = 0
    pair_nats: float = 0.0
    pairs: int = 0
    pairs_right: int = 0

    def __add__(self, other: RowScores) -> RowScores:
        return RowScores(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def numbers(self) -> dict[str, float]:
        """Return the means: nats and accuracy of masked words, and of pairs if there are any."""
        numbers = {"mlm_nats": self.nats / self.words, "mlm_accuracy": self.right / self.words}
        if self.pairs:
            numbers["nsp_loss"] = self.pair_nats / self.pairs
            numbers["nsp_accuracy"] = self.pairs_right / self.pairs
        return numbers


def evaluate(
    bundle: EncoderBundle, text: HeldOutText, options: EncoderScoring, share: Share
) -> Scores:
    """Evaluate an encoder on held-out sequences with masked words, and on sentences.

    mlm_nats is the mean cross-entropy per masked word; below_unigram is its difference from the
    entropy of the masked words, a bound that no unigram model can beat. nsp_loss and nsp_accuracy
    are those of next-sentence prediction. The details have the same numbers for each text under
    "held_out_sequences", and the parts of the pseudo-perplexity. Raises DataError if there is no
    text, and UsageError for a model without a head for masked words.
    """
    _check_head(bundle)
    metrics: list[Metric] = []
    counts: dict[str, int] = {}
    details: dict[str, object] = {"held_out_sequences": {}}
    first = share
    if text.sources and options.sentences:  # the sequences are the first half of the work
        rows = sum(min(options.sequences, len(source.plan(0))) for source in text.sources.values())
        first = share.in_examples(len(text) // 2, rows)
    if text.sources:
        metrics, details["held_out_sequences"] = _of_sequences(
            bundle, text, options.sequences, first
        )
    if options.sentences:
        sentences = evenly(text.sentences, options.sentences)
        done = len(text) // 2 if text.sources else 0
        perplexity = pseudo_perplexity(
            bundle, sentences, lambda work: share.after(done).in_examples(len(text) - done, work)
        )
        numbers = {"per_token": perplexity.per_token, "per_word": perplexity.per_word}
        metrics += [
            Metric(f"pseudo_perplexity_{unit}", value, higher_is_better=False)
            for unit, value in numbers.items()
        ]
        counts = {
            "tokens": perplexity.tokens,
            "words": perplexity.words,
            "sentences": len(sentences),
        }
        parts = {**numbers, "fertility": perplexity.fertility}
        details |= {"nats": perplexity.nats, "pseudo_perplexity": parts}
    if not metrics:
        raise DataError("no text to evaluate")
    samples = []
    if options.sample and text.sources:
        corpus = next(iter(text.sources.values())).corpus
        samples = _samples(bundle, corpus, options.sample)
    return Scores(tuple(metrics), counts, samples, details=details)


def evenly(sentences: Sequence[str], most: int) -> Sequence[str]:
    """Choose at most `most` sentences, evenly spaced."""
    return sentences[:: max(1, -(-len(sentences) // most))]


@torch.inference_mode()
def _of_sequences(
    bundle: EncoderBundle, text: HeldOutText, most: int, share: Share
) -> tuple[list[Metric], dict[str, dict[str, float]]]:
    """Evaluate at most `most` sequences of each text; return totals and scores of each text."""
    total, done = RowScores(), 0
    by_text = dict.fromkeys(text.sources, RowScores())
    masked = np.zeros(bundle.tokenizer.size, dtype=np.int64)
    for name, source in text.sources.items():
        batches = evaluation_batches(source, text.batch_size, most, str(bundle.device))
        of_batches = share.after(done).each(
            batches, partial(_batch_scores, bundle), lambda batch: len(batch.targets)
        )
        for sums, targets in of_batches:
            by_text[name] += RowScores(*sums)
            total += RowScores(*sums)
            masked += np.bincount(targets, minlength=len(masked))
        done += min(most, len(source.plan(0)))
    numbers = total.numbers()
    numbers["below_unigram"] = entropy(masked) - numbers["mlm_nats"]
    metrics = [
        Metric(name, value, higher_is_better=name not in LOWER_IS_BETTER)
        for name, value in numbers.items()
    ]
    return metrics, {name: scores.numbers() for name, scores in by_text.items()}


def _batch_scores(bundle: EncoderBundle, batch: MaskedBatch) -> tuple[Sequence[Any], Sequence[int]]:
    """Return the totals of one batch (`RowScores`), and the ids of its masked words."""
    outputs = judge(bundle.model, batch)
    nats = F.cross_entropy(outputs.words, outputs.targets, reduction="sum").item()
    correct = int((outputs.words.argmax(-1) == outputs.targets).sum())
    scores = RowScores(nats, len(outputs.targets), correct)
    if outputs.follows is not None and batch.elsewhere is not None:
        nats = F.cross_entropy(outputs.follows, batch.elsewhere, reduction="sum").item()
        correct = int((outputs.follows.argmax(-1) == batch.elsewhere).sum())
        scores += RowScores(pair_nats=nats, pairs=len(outputs.follows), pairs_right=correct)
    return astuple(scores), outputs.targets.tolist()


def entropy(counts: npt.NDArray[np.int64]) -> float:
    """Compute -sum p log p in nats of a distribution, from the counts of words."""
    probabilities = counts[counts > 0] / counts.sum()
    return -float((probabilities * np.log(probabilities)).sum())


@torch.inference_mode()
def _samples(bundle: EncoderBundle, corpus: SentenceCorpus, top: int) -> list[dict[str, str]]:
    """Predict one masked word of a held-out sentence, as an illustration of the scores."""
    tokenizer, limit = bundle.tokenizer, bundle.config.max_length
    chosen = _choose_word(tokenizer, corpus, limit)
    if chosen is None:
        return []
    ids, position = chosen
    masked = [*ids[:position], tokenizer.special_tokens.mask, *ids[position + 1 :]]
    framed, _ = tokenizer.special_tokens.frame(masked)
    tokens = torch.tensor([framed], device=bundle.device)
    hidden = bundle.model.encode(tokens, None)
    logits = bundle.model.words(hidden[:, position + 1]).float()
    best = logits.softmax(-1)[0, : tokenizer.size].topk(min(top, tokenizer.size))
    words = tokenizer.token_strings(best.indices.tolist())
    predictions = zip(words, best.values.tolist(), strict=True)
    (mask, true) = tokenizer.token_strings([tokenizer.special_tokens.mask, ids[position]])
    before, after = tokenizer.decode(ids[:position]), tokenizer.decode(ids[position + 1 :])
    output = ", ".join(f"{word} {probability:.2f}" for word, probability in predictions)
    return [
        {
            "prompt": f"{before} {mask} {after}".strip(),
            "output": f"{output} (it was: {true})",
        }
    ]


def _choose_word(
    tokenizer: EncoderTokenizer, corpus: SentenceCorpus, limit: int
) -> tuple[list[int], int] | None:
    """Choose a held-out sentence, and in it the position of the longest word that is one token.

    limit: the maximum sequence length. Returns the ids of the sentence and the position, or None.
    """
    continues = [*tokenizer.continues(), False]
    fitting = np.flatnonzero((corpus.lengths >= 6) & (corpus.lengths <= min(30, limit - 2)))
    for number in fitting[len(fitting) // 2 :].tolist():
        ids = corpus.sentence(number)
        following = [*ids[1:], -1]
        tokens = tokenizer.token_strings(ids)
        positions = [
            position
            for position, (i, after) in enumerate(zip(ids, following, strict=True))
            if not (continues[i] or continues[after] or i in tokenizer.special_ids)
        ]
        if positions:
            return ids, max(positions, key=lambda position: len(tokens[position]))
    return None
