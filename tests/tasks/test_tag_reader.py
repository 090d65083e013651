"""Words of raw text, however the tokenizer marks the beginning of a word."""

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from headway.tasks.tagging.model import TagReader
from headway.text import EncoderTokenizer, SpecialTokens

TEXTS = ["Émile isn't in (the old mill), is he?", "«Ada» waits 🦊 by the lake."]
WORDS = [
    ["Émile", "isn", "'", "t", "in", "(", "the", "old", "mill", ")", ",", "is", "he", "?"],
    ["«", "Ada", "»", "waits", "🦊", "by", "the", "lake", "."],
]


def wordpiece():
    return EncoderTokenizer.train(TEXTS * 9, 140, lower=True)


def bytes_with_spaces():
    """As RoBERTa's: a space belongs to the token after it, and a letter may be several bytes."""
    engine = tokenizers.Tokenizer(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    names = ["<s>", "<pad>", "</s>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=names,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    engine.train_from_iterator(TEXTS * 9, trainer)
    return EncoderTokenizer(engine, SpecialTokens(pad=1, start=0, end=2, mask=3, between=2))


@pytest.mark.parametrize("make", [wordpiece, bytes_with_spaces])
def test_words_of_raw_text_are_cut_at_blanks_and_punctuation(make):
    reader = TagReader(make(), ("A", "B"), 30)
    for text, expected in zip(TEXTS, WORDS, strict=True):
        assert [text[start:end] for start, end in reader.split(text)] == expected
    assert reader.split("") == reader.split(" \n\t ") == []


@pytest.mark.parametrize("make", [wordpiece, bytes_with_spaces])
def test_a_list_of_words_is_encoded_like_their_text(make):
    tokenizer = make()
    reader = TagReader(tokenizer, ("A", "B"), 60)
    ((row,),) = reader.encode([["Ada", "waits", "by", "the", "lake"]])
    ids = tokenizer.encode(" Ada waits by the lake")
    assert list(row.ids[1:-1]) == ids and len(row.firsts) == 5
    assert (row.ids[0], row.ids[-1]) == (
        tokenizer.special_tokens.start,
        tokenizer.special_tokens.end,
    )
