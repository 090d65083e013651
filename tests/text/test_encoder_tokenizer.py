"""Tokenizers of encoders: training, special tokens, spans and files, compared with transformers."""

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import DataError, UsageError
from headway.text import EncoderTokenizer, SpecialTokens
from tests.fixtures.encoder_tokenizers import roberta_tokenizer
from tests.fixtures.small_encoder import TEXTS, tokenizer

TRAINED = tokenizer()
SPELLING = ["[MASK]", "[CLS]", "[SEP]", "[PAD]"]
ANY_TEXT = st.text(max_size=40) | st.lists(
    st.sampled_from([*SPELLING, "dog", " ", "é", "🦊", "\n"])
).map("".join)


# --- the frame ---------------------------------------------------------------------------------


def test_one_text_has_two_special_tokens_and_two_texts_three():
    special_tokens = SpecialTokens(pad=0, start=2, end=3, mask=4)
    assert special_tokens.frame([7, 8]) == ([2, 7, 8, 3], [0, 0, 0, 0])
    assert special_tokens.frame([]) == ([2, 3], [0, 0])
    assert special_tokens.frame([7, 8], [9]) == ([2, 7, 8, 3, 9, 3], [0, 0, 0, 0, 1, 1])
    two = SpecialTokens(pad=0, start=2, end=3, mask=4, between=2)
    assert two.frame([7], [9]) == ([2, 7, 3, 3, 9, 3], [0, 0, 0, 0, 1, 1])
    assert special_tokens.frame([7, 8, 9], room=4) == ([2, 7, 8, 3], [0] * 4)


@given(st.integers(0, 15), st.integers(1, 15), st.integers(3, 30))  # an empty second is none there
def test_two_texts_are_cut_as_transformers_cuts_them(a, b, room):
    from transformers import PreTrainedTokenizerFast

    own = TRAINED.encode_batch(["dog " * a, "fox " * b])
    engine = tokenizers.Tokenizer.from_str(json.dumps(TRAINED.engine_json))
    theirs = PreTrainedTokenizerFast(tokenizer_object=engine)
    encoded = theirs(
        "dog " * a,
        "fox " * b,
        truncation="longest_first",
        max_length=room,
        return_token_type_ids=True,
    )
    assert TRAINED.special_tokens.frame(*own, room) == (
        encoded["input_ids"],
        encoded["token_type_ids"],
    )


@pytest.mark.parametrize("room", [4, 7, 11, 40])
def test_robertas_frame_is_that_of_its_own_tokenizer(room):
    reader = roberta_tokenizer()
    engine = tokenizers.Tokenizer.from_str(json.dumps(reader.engine_json))
    engine.enable_truncation(room, strategy="longest_first")
    for first, second in ((TEXTS[0], TEXTS[3]), (TEXTS[3], "A fox."), ("", TEXTS[1])):
        ids, _ = reader.special_tokens.frame(reader.encode(first), reader.encode(second), room)
        assert ids == engine.encode(first, second).ids
        assert (
            reader.special_tokens.frame(reader.encode(first), room=room)[0]
            == engine.encode(first).ids
        )


# --- training ----------------------------------------------------------------------------------


def test_training_is_deterministic_and_keeps_to_its_size():
    for _ in range(5):
        assert tokenizer().fingerprint == TRAINED.fingerprint != tokenizer(120).fingerprint
    assert TRAINED.size <= 150
    many = ["".join(chr(0x4E00 + i) for i in range(start, start + 20)) for start in range(0, 400)]
    for texts in (many, [" ".join(text) for text in many]):
        assert EncoderTokenizer.train(texts, 120).size <= 120
    with pytest.raises(UsageError, match="at least 100"):
        EncoderTokenizer.train(TEXTS, 99)


def test_smoothing_gives_a_small_source_more_tokens():
    def words(letters: str) -> str:
        return " ".join(a + b + c for a in letters for b in letters for c in letters)

    large, small = [words("abcde")] * 30, [words("vwxyz")]

    def tokens(smoothing: float) -> list[int]:
        made = EncoderTokenizer.train_on([large, small], 130, smoothing=smoothing)
        return [len(made.encode(side[0])) for side in (large, small)]

    by_length, alike = tokens(1.0), tokens(0.0)
    assert by_length[0] < by_length[1]
    assert alike[1] < by_length[1]
    assert alike[0] > by_length[0]
    joined = EncoderTokenizer.train([*large, *small], 130)
    separate = EncoderTokenizer.train_on([large, small], 130, smoothing=1.0)
    assert joined.fingerprint == separate.fingerprint


def test_capitals_and_accents_are_removed_unless_lower_is_false():
    assert TRAINED.encode("The CAFÉ") == TRAINED.encode("the cafe")
    cased = EncoderTokenizer.train(TEXTS * 3, 150, lower=False)
    assert cased.encode("The café") != cased.encode("the cafe")
    assert TRAINED.decode(TRAINED.encode("The old  café.")) == "the old cafe."


# --- special tokens in texts ---


@given(ANY_TEXT)
def test_no_text_becomes_a_special_token(text):
    special_tokens = {
        TRAINED.special_tokens.pad,
        TRAINED.special_tokens.start,
        TRAINED.special_tokens.end,
        TRAINED.special_tokens.mask,
    }
    for ids in (TRAINED.encode(text), *TRAINED.encode_batch([text]), TRAINED.encode_spans(text)[0]):
        assert not special_tokens & set(ids)


def test_a_loaded_tokenizer_does_the_same_and_writes_the_same_file(tmp_path):
    for name, made in (("own", TRAINED), ("spaced", roberta_tokenizer())):
        folder = tmp_path / name
        (folder / "again").mkdir(parents=True)
        made.save(folder)
        again = EncoderTokenizer.load(folder)
        again.save(folder / "again")
        files = [index / "tokenizer.json" for index in (folder, folder / "again")]
        assert files[0].read_bytes() == files[1].read_bytes()
        assert again.fingerprint == made.fingerprint and again.special_tokens == made.special_tokens
        for text in (*TEXTS, "a [MASK] and a <mask>", ""):
            assert again.encode(text) == made.encode(text)
        assert again.special_tokens.mask not in again.encode("a [MASK] and a <mask>")
        assert again.continues() == made.continues()


def test_tokens_are_shown_and_special_tokens_are_left_out_of_a_text():
    ids = [
        TRAINED.special_tokens.start,
        *TRAINED.encode("the dog"),
        TRAINED.special_tokens.mask,
        TRAINED.special_tokens.end,
    ]
    assert TRAINED.decode(ids) == "the dog"
    pieces = TRAINED.token_strings(ids)
    assert pieces[0] == "[CLS]" and pieces[-2:] == ["[MASK]", "[SEP]"]
    for wrong in (-1, TRAINED.size):
        for call in (TRAINED.decode, TRAINED.token_strings, TRAINED.words):
            with pytest.raises(DataError, match="outside the vocabulary"):
                call([wrong])


def test_a_single_token_is_shown_as_a_word_or_as_a_continuation():
    wide = roberta_tokenizer()
    the, mark = wide.encode(" the")[0], wide.special_tokens.mask
    assert wide.token_strings([the]) == ["Ġthe"]
    assert wide.words([the, wide.encode("o")[0], mark]) == ["the", "##o", "<mask>"]
    ids = TRAINED.encode("dogma")
    assert TRAINED.words(ids) == TRAINED.token_strings(ids) and TRAINED.words(ids)[1].startswith(
        "##"
    )
    assert TRAINED.words([TRAINED.special_tokens.mask]) == ["[MASK]"]


# --- words and spans ---------------------------------------------------------------------------


def test_continuing_tokens_are_distinguished_from_first_tokens():
    for made in (TRAINED, roberta_tokenizer()):
        continues = made.continues()
        assert len(continues) == made.size
        assert not any(continues[i] for i in made.special_ids)
        ids, indices = made.encode_words(["the", "bakery", "waves", "zq"])
        assert len(ids) > 4 and sorted(set(indices)) == [0, 1, 2, 3]
        begins = [i == 0 or indices[i] != indices[i - 1] for i in range(len(ids))]
        assert [not continues[i] for i in ids] == begins


def test_words_that_are_split_already_are_read_as_in_a_text():
    words = ["two", "dogs", "play", "in", "the", "garden"]
    for made, text in (
        (TRAINED, " ".join(words)),
        (roberta_tokenizer(), " " + " ".join(words)),
    ):
        assert made.encode_words(words)[0] == made.encode(text)
    nothing = "\N{ZERO WIDTH SPACE}"
    ids, indices = TRAINED.encode_words(["dog", nothing, "fox"])
    assert set(indices) == {0, 2} and ids == TRAINED.encode("dog fox")


@pytest.mark.parametrize("text", ["The  CAFÉ sells bread.", "a fox🦊, a dog", "", "  "])
def test_a_span_is_the_position_of_its_token(text):
    for made in (TRAINED, roberta_tokenizer()):
        ids, spans = made.encode_spans(text)
        assert ids == made.encode(text) and len(spans) == len(ids)
        last = 0
        for (start, end), piece in zip(spans, made.words(ids), strict=True):
            assert last - 1 <= start <= end <= len(text)
            last = end
            part = text[start:end]
            assert part == part.lstrip()
            if part.isascii() and piece != "[UNK]" and piece.strip("#"):
                assert part.lower() == piece.removeprefix("##").lower()


# --- files -------------------------------------------------------------------------------------


def without(content, name):
    del content["special_tokens"][name]


SPOILED = {
    "no format": lambda content: content.pop("format"),
    "another format": lambda content: content.update(format="headway foreign 1"),
    "no marks": lambda content: content.pop("special_tokens"),
    "marks as a list": lambda content: content.update(special_tokens=[0, 2, 3, 4, 1]),
    "a mark is missing": lambda content: without(content, "mask"),
    "a mark too many": lambda content: content["special_tokens"].update(more=1),
    "a mark is true": lambda content: content["special_tokens"].update(pad=True),
    "a mark is text": lambda content: content["special_tokens"].update(pad="0"),
    "a mark below 0": lambda content: content["special_tokens"].update(end=-1),
    "a mark beyond all": lambda content: content["special_tokens"].update(end=TRAINED.size),
    "a huge mark": lambda content: content["special_tokens"].update(end=2**70),
    "none between": lambda content: content["special_tokens"].update(between=0),
    "three between": lambda content: content["special_tokens"].update(between=3),
    "no tokenizer": lambda content: content.pop("tokenizer"),
    "a tokenizer of nothing": lambda content: content.update(tokenizer={}),
    "a model of nothing": lambda content: content["tokenizer"].update(model={"type": "WordPiece"}),
    "an unknown model": lambda content: content["tokenizer"]["model"].update(type="Magic"),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_file_is_refused_and_named(how, tmp_path):
    TRAINED.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    SPOILED[how](content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        EncoderTokenizer.load(tmp_path)
    assert caught.value.where == str(path)


def test_a_missing_file_and_half_a_character_are_errors(tmp_path: Path):
    with pytest.raises(DataError, match=r"no tokenizer\.json"):
        EncoderTokenizer.load(tmp_path)
    for call in (TRAINED.encode, lambda text: TRAINED.encode_batch([text]), TRAINED.encode_spans):
        with pytest.raises(DataError, match="half of a character"):
            call("a\ud800")
