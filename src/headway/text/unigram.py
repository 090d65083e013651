"""A Unigram language model of tokens (Kudo 2018, section 3.2) for words in bytes.

The probability of a segmentation x = (x_1, ..., x_m) of a word is P(x) = Π_i p(x_i). A text is
encoded by the most probable segmentation of each word, found by the Viterbi algorithm. The
vocabulary is learned in `unigram_training`; `unigram_sampling` samples other segmentations.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import models

from headway.text.byte_level import Model, SubwordModel, byte_level_engine
from headway.text.unigram_training import learn_unigram

LONGEST_TOKEN = 1000
"""Maximum length of a token in a file, in bytes."""

LOWEST = -1e4
"""Minimum log-probability of a token in a file."""

_UNITS = re.compile(r"(?= \S)")
"""A space before another character begins a word, whatever is before it."""


def _train(
    texts: Iterable[str], size: int, special_tokens: Sequence[str], space: bool
) -> tokenizers.Tokenizer:
    """The special tokens have the last ids. They have no probability, so that no text contains
    them."""
    splitter = byte_level_engine(tokenizers.Tokenizer(models.Unigram()), space=space)
    learned = learn_unigram(_word_counts(texts, splitter), size - len(special_tokens))
    model = models.Unigram(learned, unk_id=None, byte_fallback=False)
    engine = byte_level_engine(tokenizers.Tokenizer(model), space=space)
    engine.add_special_tokens(list(special_tokens))
    return engine


def _vocabulary(model: Model) -> dict[str, int] | None:
    entries = model.get("vocab")
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        return None
    ids = {token: index for index, (token, _) in enumerate(entries)}
    return ids if len(ids) == len(entries) else None


def _fault(model: Model, special_tokens: Sequence[str]) -> str | None:
    if model.get("unk_id") is not None or model.get("byte_fallback") not in (None, False):
        return "the Unigram model has an unknown token or byte_fallback"
    for token, log_p in model["vocab"]:
        if token in special_tokens:
            return f"the special token {token} has a probability, so that texts may contain it"
        if not 0 < len(token) <= LONGEST_TOKEN:
            return f"a token has {len(token):,} bytes, and 1 to {LONGEST_TOKEN:,} are allowed"
        if not (math.isfinite(log_p) and LOWEST <= log_p <= 0):
            return (
                f"the log-probability of {token!r} must be between {LOWEST:g} and 0, but is {log_p}"
            )
    return None


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 2
        and isinstance(entry[0], str)
        and type(entry[1]) in (int, float)
    )


UNIGRAM = SubwordModel(
    name="byte-level Unigram",
    model_type="Unigram",
    train=_train,
    vocabulary=_vocabulary,
    fault=_fault,
)


def is_unigram(content: object) -> bool:
    """Return whether the parsed JSON of a tokenizer file has a Unigram model."""
    model = content.get("model") if isinstance(content, dict) else None
    return isinstance(model, dict) and model.get("type") == UNIGRAM.model_type


def log_probabilities(model: Model) -> dict[str, float]:
    """Return the log-probability of each token of a Unigram model in JSON."""
    return {token: float(log_p) for token, log_p in model["vocab"]}


def _word_counts(texts: Iterable[str], splitter: tokenizers.Tokenizer) -> Counter[str]:
    """Return how often each word occurs, in letters of the byte-level alphabet.

    Texts are split at their spaces first, so that each different part is read once.
    """
    parts: Counter[str] = Counter()
    for text in texts:
        parts.update(part for part in _UNITS.split(text) if part)
    counts: Counter[str] = Counter()
    for part, count in parts.items():
        for word, _ in splitter.pre_tokenizer.pre_tokenize_str(part):
            counts[word] += count
    return counts
