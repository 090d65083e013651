"""Byte-pair encoding (Sennrich et al. 2016, section 3.2) of words in bytes.

Training repeatedly merges the most frequent pair of adjacent tokens into a new token until the
vocabulary has the requested size. A word is split by the same merges in the same order.
"""

from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from headway.base.chunks import chunks
from headway.text.byte_level import Model, SubwordModel, byte_level_engine


def _train(
    texts: Iterable[str], size: int, special_tokens: Sequence[str], space: bool
) -> tokenizers.Tokenizer:
    engine = byte_level_engine(tokenizers.Tokenizer(models.BPE()), space=space)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator(chunks(texts, 1000), trainer)
    return engine


def _vocabulary(model: Model) -> dict[str, int] | None:
    vocabulary = model.get("vocab")
    return vocabulary if isinstance(vocabulary, dict) else None


def _fault(model: Model, special_tokens: Sequence[str]) -> str | None:
    plain = (None, False, "")
    if any(model.get(k) not in plain for k in ("dropout", "ignore_merges", "byte_fallback")):
        return "the BPE model uses dropout, ignore_merges or byte_fallback"
    missing = [name for name in special_tokens if name not in model["vocab"]]
    return f"the vocabulary lacks the special tokens {', '.join(missing)}" if missing else None


BYTE_PAIRS = SubwordModel(
    name="byte-level BPE", model_type="BPE", train=_train, vocabulary=_vocabulary, fault=_fault
)


def merges_of(model: Model) -> list[tuple[str, str]]:
    """Return the merged pairs of tokens of a BPE model in JSON, in order, in letters."""
    pairs = (m.split(" ") if isinstance(m, str) else m for m in model["merges"])
    return [(left, right) for left, right in pairs]
