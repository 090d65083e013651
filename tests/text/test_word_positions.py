"""Grouping tokens into words, for every kind of tokenizer."""

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from headway.text import (
    CharacterTokenizer,
    PretrainedTokenizer,
    TextBPE,
    Tokenizer,
    positions_of_words,
)
from tests.fixtures.encoder_tokenizers import roberta_tokenizer
from tests.fixtures.hf_tokenizer import FOREIGN
from tests.fixtures.small_encoder import TEXTS
from tests.fixtures.small_encoder import tokenizer as wordpiece_tokenizer

TEXT = "The old baker waves, twice"
WORDS = ["The", "old", "baker", "waves,", "twice"]


def joined(tokenizer, ids) -> list[str]:
    """Return each group of tokens as text."""
    return [
        tokenizer.decode([ids[i] for i in positions]).strip()
        for positions in positions_of_words(tokenizer, ids)
    ]


def test_continuing_tokens_are_grouped_with_their_words():
    for tokenizer in (
        Tokenizer.train(iter(TEXTS * 3), 280),
        TextBPE.train(TEXTS * 3, 280),
        CharacterTokenizer.train([TEXT]),
        FOREIGN,
    ):
        ids = tokenizer.encode(TEXT)
        assert len(ids) > len(WORDS) and joined(tokenizer, ids) == WORDS
        assert positions_of_words(tokenizer, []) == []


def test_each_special_token_is_one_word():
    tokenizer = Tokenizer.train(iter(TEXTS * 3), 280)
    ids = [tokenizer.bos, *tokenizer.encode("old"), tokenizer.eos]
    positions = positions_of_words(tokenizer, ids)
    assert positions[0] == [0] and positions[-1] == [len(ids) - 1] and len(positions) == 3
    plain = TextBPE.train(TEXTS * 3, 280)
    ids = [*plain.begin("old"), plain.eos, *plain.encode("old")]
    assert [len(group) for group in positions_of_words(plain, ids)][::2][0] == 1
    assert len(positions_of_words(plain, ids)) == 4  # </s>, old, </s>, old


def test_tokens_of_encoders_are_grouped_by_their_prefix():
    for tokenizer, splits_punctuation in (
        (wordpiece_tokenizer(), True),
        (roberta_tokenizer(), False),
    ):
        ids, _ = tokenizer.special_tokens.frame(tokenizer.encode("The old baker waves, twice"))
        positions = positions_of_words(tokenizer, ids)
        assert positions[0] == [0] and positions[-1] == [len(ids) - 1]
        words = len(WORDS) + (
            1 if splits_punctuation else 0
        )  # WordPiece splits punctuation off as words
        assert len(positions) == words + 2
        assert [p for group in positions for p in group] == list(range(len(ids)))


def test_tokens_with_a_word_end_suffix_end_words():
    tokenizer_engine = tokenizers.Tokenizer(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>")
    )
    tokenizer_engine.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer_engine.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(
        vocab_size=60, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
    )
    tokenizer_engine.train_from_iterator(TEXTS * 3, trainer)
    tokenizer = PretrainedTokenizer(tokenizer_engine, 0, 0)
    ids = tokenizer.encode("baker waves")
    assert len(ids) > 3 and joined(tokenizer, ids) == ["baker", "waves"]
