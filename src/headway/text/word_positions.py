"""Pieces joined to words, whoever made the tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from headway.text.hf_tokenizer import ForeignTokenizer
from headway.text.sentence_bpe import Tokenizer
from headway.text.tokenizer import TextTokenizer
from headway.text.wordpiece import MarkedTokenizer


def word_places(
    tokenizer: Tokenizer | MarkedTokenizer | TextTokenizer, ids: Sequence[int]
) -> list[list[int]]:
    """The places in `ids` of each word's pieces, in order; a special token is a word of its own."""
    if isinstance(tokenizer, Tokenizer):
        return [places for _, places in tokenizer.words(ids)]
    if isinstance(tokenizer, MarkedTokenizer):
        goes_on = tokenizer.continues()
        begins = [not goes_on[i] for i in ids]
        special = tokenizer.special_ids
    else:
        special = frozenset((tokenizer.bos, tokenizer.eos))
        if isinstance(tokenizer, ForeignTokenizer):
            begins = tokenizer.begins_word(ids)
        else:
            begins = [piece[:1].isspace() for piece in tokenizer.pieces(ids)]
    groups: list[list[int]] = []
    for place, i in enumerate(ids):
        alone = i in special or (place > 0 and ids[place - 1] in special)
        if not groups or begins[place] or alone:
            groups.append([place])
        else:
            groups[-1].append(place)
    return groups
