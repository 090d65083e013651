"""A tokenizer that learns words of a new domain. Used to adapt an encoder (lectures 3.6)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

import tokenizers

from headway.errors import UsageError
from headway.text.bpe import checked
from headway.text.hf_tokenizer import ForeignTokenizer
from headway.text.wordpiece import CONTINUES, MarkedTokenizer


def new_words(tokenizer: MarkedTokenizer, texts: Iterable[str], most: int) -> list[str]:
    """At most so many words that `texts` would be shorter with, those that save most first.

    A word saves (its pieces - 1) tokens each time that it stands there, and counts if it stands
    there twice. Words with pieces that the tokenizer does not know at all are left out: there is
    nothing to begin their vectors with. Deterministic. UsageError unless it is of WordPiece.
    """
    engine = _engine(tokenizer)
    counts: Counter[str] = Counter()
    for text in texts:
        clean = checked(text)
        if engine.normalizer is not None:
            clean = engine.normalizer.normalize_str(clean)
        counts.update(word for word, _ in engine.pre_tokenizer.pre_tokenize_str(clean))
    often = [word for word, count in counts.items() if count > 1]
    saved: dict[str, int] = {}
    for word, ids in zip(often, tokenizer.encode_batch(often), strict=True):
        if len(ids) > 1 and not tokenizer.special_ids.intersection(ids):
            saved[word] = (len(ids) - 1) * counts[word]
    return sorted(saved, key=lambda word: (-saved[word], word))[:most]


def extended(tokenizer: MarkedTokenizer, words: Sequence[str]) -> MarkedTokenizer:
    """The same tokenizer with `words` as pieces of their own, whose ids follow the old ones.

    A longer word that begins with one of them begins with the new piece then. UsageError unless it
    is of WordPiece, ValueError for a word that it has.
    """
    content = json.loads(_engine(tokenizer).to_str())
    vocabulary: dict[str, int] = content["model"]["vocab"]
    for number, word in enumerate(words):
        if not word or word in vocabulary or word.startswith(CONTINUES):
            raise ValueError(f"{word=} is a piece already, or no word")
        vocabulary[word] = tokenizer.size + number
    engine = ForeignTokenizer.engine_of(content, "the longer vocabulary")
    return MarkedTokenizer(engine, tokenizer.marks)


def _engine(tokenizer: MarkedTokenizer) -> tokenizers.Tokenizer:
    content = tokenizer.engine_json
    if content["model"].get("type") != "WordPiece":
        kind = content["model"].get("type")
        raise UsageError(
            f"new words are for tokenizers of WordPiece, and this is one of {kind}",
            hint="leave out --data.new-pieces",
        )
    return tokenizers.Tokenizer.from_str(json.dumps(content))
