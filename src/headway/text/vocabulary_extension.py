"""Extends the vocabulary of a tokenizer by words of a new domain, to adapt an encoder (lectures
3.6)."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence

import tokenizers

from headway.base.errors import UsageError
from headway.text.encoder_tokenizer import CONTINUES, EncoderTokenizer
from headway.text.engine import checked
from headway.text.hf_tokenizer import PretrainedTokenizer


def new_words(tokenizer: EncoderTokenizer, texts: Iterable[str], most: int) -> list[str]:
    """Return at most `most` new words that would shorten `texts`, in order of tokens saved.

    Each occurrence of a word saves (its tokens - 1) tokens. Words that occur only once are left
    out, and words with unknown tokens, because no known embeddings could initialise theirs.
    Deterministic. Raises UsageError unless the tokenizer is WordPiece.
    """
    engine = _engine(tokenizer)
    counts: Counter[str] = Counter()
    for text in texts:
        clean = checked(text)
        if engine.normalizer is not None:
            clean = engine.normalizer.normalize_str(clean)
        counts.update(word for word, _ in engine.pre_tokenizer.pre_tokenize_str(clean))
    repeated = [word for word, count in counts.items() if count > 1]
    saved: dict[str, int] = {}
    for word, ids in zip(repeated, tokenizer.encode_batch(repeated), strict=True):
        if len(ids) > 1 and not tokenizer.special_ids.intersection(ids):
            saved[word] = (len(ids) - 1) * counts[word]
    return sorted(saved, key=lambda word: (-saved[word], word))[:most]


def extended(tokenizer: EncoderTokenizer, words: Sequence[str]) -> EncoderTokenizer:
    """Return the tokenizer with `words` as additional tokens, whose ids follow the existing ones.

    A longer word that starts with a new token is then encoded with it. Raises UsageError unless the
    tokenizer is WordPiece, ValueError for a word that is already a token.
    """
    content = json.loads(_engine(tokenizer).to_str())
    vocabulary: dict[str, int] = content["model"]["vocab"]
    for number, word in enumerate(words):
        if not word or word in vocabulary or word.startswith(CONTINUES):
            raise ValueError(f"{word=} must be a new token, but is in the vocabulary or no word")
        vocabulary[word] = tokenizer.size + number
    engine = PretrainedTokenizer.engine_of(content, "the longer vocabulary")
    return EncoderTokenizer(engine, tokenizer.special_tokens)


def _engine(tokenizer: EncoderTokenizer) -> tokenizers.Tokenizer:
    content = tokenizer.engine_json
    if content["model"].get("type") != "WordPiece":
        kind = content["model"].get("type")
        raise UsageError(
            f"only a WordPiece tokenizer can be extended by new words, but this one is {kind}",
            hint="remove --data.new-tokens",
        )
    return tokenizers.Tokenizer.from_str(json.dumps(content))
