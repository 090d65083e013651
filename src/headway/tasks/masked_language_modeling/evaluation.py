"""How well a text encoder predicts: masked words, next sentences, and pseudo-perplexity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from headway.bundle import EncoderBundle
from headway.data.masked_batches import MaskedBatch, rows_in_order
from headway.data.sentences import SentenceCorpus
from headway.errors import DataError, UsageError
from headway.evaluation import PseudoPerplexity, pseudo_perplexity
from headway.evaluation.scores import Metric, Scores
from headway.tasks.masked_language_modeling.config import EncoderScoring
from headway.tasks.masked_language_modeling.rows import HeldOutText
from headway.text import MarkedTokenizer
from headway.training import judge

USUAL = EncoderScoring()
LOWER_IS_BETTER = {"mlm_nats", "nsp_loss"}


@dataclass(frozen=True)
class RowScores:
    """Sums over rows: of the nats of masked words and of pairs, and of those predicted right."""

    nats: float = 0.0
    words: int = 0
    right: int = 0
    pair_nats: float = 0.0
    pairs: int = 0
    pairs_right: int = 0

    def __add__(self, other: RowScores) -> RowScores:
        return RowScores(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def numbers(self) -> dict[str, float]:
        """Means: nats per masked word and accuracy; of pairs, where there are any."""
        numbers = {"mlm_nats": self.nats / self.words, "mlm_accuracy": self.right / self.words}
        if self.pairs:
            numbers["nsp_loss"] = self.pair_nats / self.pairs
            numbers["nsp_accuracy"] = self.pairs_right / self.pairs
        return numbers


def evaluate(
    bundle: EncoderBundle,
    text: HeldOutText,
    options: EncoderScoring = USUAL,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Masked words and next sentences of held-out rows, and pseudo-perplexity of sentences.

    mlm_nats: mean cross-entropy of a masked word; below_unigram: by how much it is below the
    entropy of the masked words themselves, which no model of single words could reach. nsp_loss and
    nsp_accuracy: next-sentence prediction. details: the same for each text, "held_out_rows", and
    what pseudo-perplexity is made of.

    progress: called before each batch with a count of what was processed so far. DataError if there
    is nothing to evaluate; UsageError for a model that does not predict masked words.
    """
    if bundle.model.masked_words is None:
        raise UsageError("this model has no head for masked words: there is nothing to evaluate")
    metrics: list[Metric] = []
    counts: dict[str, int] = {}
    details: dict[str, Any] = {"held_out_rows": {}}
    if text.sources:
        metrics, details["held_out_rows"] = _of_rows(bundle, text, options.rows, progress)
    if options.sentences:
        sentences = evenly(text.sentences, options.sentences)
        perplexity = pseudo_perplexity(bundle, sentences, progress)
        metrics += _of_sentences(perplexity)
        counts = {
            "tokens": perplexity.tokens,
            "words": perplexity.words,
            "sentences": len(sentences),
        }
        details |= {"nats": perplexity.nats, "pseudo_perplexity": parts_of(perplexity)}
    if not metrics:
        raise DataError("there is no text to evaluate on")
    samples = []
    if options.sample and text.sources:
        corpus = next(iter(text.sources.values())).corpus
        samples = _samples(bundle, corpus, options.sample)
    return Scores(tuple(metrics), counts, samples, details=details)


def evenly(sentences: Sequence[str], most: int) -> Sequence[str]:
    """At most that many, at equal distances."""
    return sentences[:: max(1, -(-len(sentences) // most))]


def parts_of(perplexity: PseudoPerplexity) -> dict[str, float]:
    """Pseudo-perplexity per token and per word, and tokens per word."""
    return {
        "a_token": perplexity.a_token,
        "a_word": perplexity.a_word,
        "fertility": perplexity.fertility,
    }


def _of_sentences(perplexity: PseudoPerplexity) -> list[Metric]:
    numbers = {
        "pseudo_perplexity_per_token": perplexity.a_token,
        "pseudo_perplexity_per_word": perplexity.a_word,
    }
    return [Metric(name, value, higher_is_better=False) for name, value in numbers.items()]


@torch.inference_mode()
def _of_rows(
    bundle: EncoderBundle, text: HeldOutText, most: int, progress: Callable[[int], None]
) -> tuple[list[Metric], dict[str, dict[str, float]]]:
    """The metrics of at most so many rows of each text, together and for each text."""
    total, done = RowScores(), 0
    by_text = dict.fromkeys(text.sources, RowScores())
    masked = np.zeros(bundle.tokenizer.size, dtype=np.int64)
    for name, source in text.sources.items():
        for batch in rows_in_order(source, text.batch_size, most, str(bundle.device)):
            progress(done)
            scores, targets = _judged(bundle, batch)
            by_text[name] += scores
            total += scores
            masked += np.bincount(targets, minlength=len(masked))
            done += len(batch.targets)
    numbers = total.numbers()
    numbers["below_unigram"] = entropy(masked) - numbers["mlm_nats"]
    metrics = [
        Metric(name, value, higher_is_better=name not in LOWER_IS_BETTER)
        for name, value in numbers.items()
    ]
    return metrics, {name: scores.numbers() for name, scores in by_text.items()}


def _judged(bundle: EncoderBundle, batch: MaskedBatch) -> tuple[RowScores, npt.NDArray[np.int64]]:
    """The sums of one batch, and its masked words."""
    judged = judge(bundle.model, batch)
    nats = F.cross_entropy(judged.words, judged.targets, reduction="sum").item()
    right = int((judged.words.argmax(-1) == judged.targets).sum())
    scores = RowScores(nats, len(judged.targets), right)
    if judged.follows is not None and batch.elsewhere is not None:
        nats = F.cross_entropy(judged.follows, batch.elsewhere, reduction="sum").item()
        right = int((judged.follows.argmax(-1) == batch.elsewhere).sum())
        scores += RowScores(pair_nats=nats, pairs=len(judged.follows), pairs_right=right)
    return scores, judged.targets.cpu().numpy()


def entropy(counts: npt.NDArray[np.int64]) -> float:
    """-sum p log p in nats, of the words that occur so often."""
    probabilities = counts[counts > 0] / counts.sum()
    return -float((probabilities * np.log(probabilities)).sum())


@torch.inference_mode()
def _samples(bundle: EncoderBundle, corpus: SentenceCorpus, top: int) -> list[dict[str, str]]:
    """A held-out sentence with a masked word, so that a person sees what the numbers mean."""
    tokenizer, room = bundle.tokenizer, bundle.config.max_length
    chosen = _to_guess(tokenizer, corpus, room)
    if chosen is None:
        return []
    ids, place = chosen
    shown = [*ids[:place], tokenizer.marks.mask, *ids[place + 1 :]]
    framed, _ = tokenizer.marks.frame(shown)
    tokens = torch.tensor([framed], device=bundle.device)
    hidden = bundle.model.encode(tokens, None)
    logits = bundle.model.words(hidden[:, place + 1]).float()
    best = logits.softmax(-1)[0, : tokenizer.size].topk(min(top, tokenizer.size))
    words = tokenizer.pieces(best.indices.tolist())
    guesses = zip(words, best.values.tolist(), strict=True)
    (mask, true) = tokenizer.pieces([tokenizer.marks.mask, ids[place]])
    before, after = tokenizer.decode(ids[:place]), tokenizer.decode(ids[place + 1 :])
    output = ", ".join(f"{word} {probability:.2f}" for word, probability in guesses)
    return [
        {
            "prompt": f"{before} {mask} {after}".strip(),
            "output": f"{output} (it was: {true})",
        }
    ]


def _to_guess(
    tokenizer: MarkedTokenizer, corpus: SentenceCorpus, room: int
) -> tuple[list[int], int] | None:
    """(a held-out sentence of some length, the place of its longest word that is one piece)."""
    continues = [*tokenizer.continues(), False]
    fitting = np.flatnonzero((corpus.lengths >= 6) & (corpus.lengths <= min(30, room - 2)))
    for number in fitting[len(fitting) // 2 :].tolist():
        ids = corpus.sentence(number)
        after = [*ids[1:], -1]
        pieces = tokenizer.pieces(ids)
        places = [
            place
            for place, (i, following) in enumerate(zip(ids, after, strict=True))
            if not (continues[i] or continues[following] or i in tokenizer.special_ids)
        ]
        if places:
            return ids, max(places, key=lambda place: len(pieces[place]))
    return None
