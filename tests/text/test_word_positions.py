"""Pieces joined to words, for every kind of tokenizer that there is."""

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from headway.text import Characters, ForeignTokenizer, TextPieces, Tokenizer, word_places
from tests.fixtures.encoder_tokenizers import spaced
from tests.fixtures.hf_tokenizer import FOREIGN
from tests.fixtures.small_encoder import TEXTS
from tests.fixtures.small_encoder import tokenizer as word_pieces

TEXT = "The old baker waves, twice"
WORDS = ["The", "old", "baker", "waves,", "twice"]


def joined(tokenizer, ids) -> list[str]:
    """Each group of pieces, as text."""
    return [
        tokenizer.decode([ids[i] for i in places]).strip() for places in word_places(tokenizer, ids)
    ]


def test_pieces_that_go_on_are_joined_to_their_words():
    for tokenizer in (
        Tokenizer.train(iter(TEXTS * 3), 280),
        TextPieces.train(TEXTS * 3, 280),
        Characters.train([TEXT]),
        FOREIGN,
    ):
        ids = tokenizer.encode(TEXT)
        assert len(ids) > len(WORDS) and joined(tokenizer, ids) == WORDS
        assert word_places(tokenizer, []) == []


def test_special_tokens_are_words_of_their_own():
    tokenizer = Tokenizer.train(iter(TEXTS * 3), 280)
    ids = [tokenizer.bos, *tokenizer.encode("old"), tokenizer.eos]
    places = word_places(tokenizer, ids)
    assert places[0] == [0] and places[-1] == [len(ids) - 1] and len(places) == 3
    plain = TextPieces.train(TEXTS * 3, 280)
    ids = [*plain.begin("old"), plain.eos, *plain.encode("old")]
    assert [len(group) for group in word_places(plain, ids)][::2][0] == 1
    assert len(word_places(plain, ids)) == 4  # </s>, old, </s>, old


def test_an_encoders_pieces_are_joined_by_its_own_mark():
    for tokenizer, signs in ((word_pieces(), True), (spaced(), False)):
        ids, _ = tokenizer.marks.frame(tokenizer.encode("The old baker waves, twice"))
        places = word_places(tokenizer, ids)
        assert places[0] == [0] and places[-1] == [len(ids) - 1]
        words = len(WORDS) + (1 if signs else 0)  # WordPiece cuts signs off as words
        assert len(places) == words + 2
        assert [p for group in places for p in group] == list(range(len(ids)))


def test_pieces_that_end_words_by_a_mark_end_them():
    made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(
        vocab_size=60, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
    )
    made.train_from_iterator(TEXTS * 3, trainer)
    tokenizer = ForeignTokenizer(made, 0, 0)
    ids = tokenizer.encode("baker waves")
    assert len(ids) > 3 and joined(tokenizer, ids) == ["baker", "waves"]
