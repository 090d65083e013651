"""Tokenizers of encoders: training, special tokens, spans and files, compared with transformers."""

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from headway.base.errors import DataError, UsageError
from headway.text import EncoderTokenizer, SpecialTokens
from tests.fixtures.encoder_tokenizers import roberta_tokenizer
from tests.fixtures.small_encoder import TEXTS, tokenizer

TRAINED = tokenizer()
SPELLING = ["[MASK]", "[CLS]", "[SEP]", "[PAD]"]
ANY_TEXT = st.text(max_size=40) | st.lists(
    st.sampled_from([*SPELLING, "dog", " ", "é", "🦊", "\n"])
).map("".join)


# --- special tokens around texts ---------------------------------------------------------------


def test_one_text_has_two_special_tokens_and_two_texts_three():
    special_tokens = SpecialTokens(pad=0, start=2, end=3, mask=4)
    assert special_tokens.frame([7, 8]) == ([2, 7, 8, 3], [0, 0, 0, 0])
    assert special_tokens.frame([]) == ([2, 3], [0, 0])
    assert special_tokens.frame([7, 8], [9]) == ([2, 7, 8, 3, 9, 3], [0, 0, 0, 0, 1, 1])
    two = SpecialTokens(pad=0, start=2, end=3, mask=4, between=2)
    assert two.frame([7], [9]) == ([2, 7, 3, 3, 9, 3], [0, 0, 0, 0, 1, 1])
    assert special_tokens.frame([7, 8, 9], room=4) == ([2, 7, 8, 3], [0] * 4)


@given(
    st.integers(0, 15), st.integers(1, 15), st.integers(3, 30)
)  # an empty second text counts as none there
def test_two_texts_are_truncated_as_in_transformers(a, b, room):
    from transformers import PreTrainedTokenizerFast

    ids_of_texts = TRAINED.encode_batch(["dog " * a, "fox " * b])
    engine = tokenizers.Tokenizer.from_str(json.dumps(TRAINED.engine_json))
    reference = PreTrainedTokenizerFast(tokenizer_object=engine)
    encoded = reference(
        "dog " * a,
        "fox " * b,
        truncation="longest_first",
        max_length=room,
        return_token_type_ids=True,
    )
    assert TRAINED.special_tokens.frame(*ids_of_texts, room) == (
        encoded["input_ids"],
        encoded["token_type_ids"],
    )


@pytest.mark.parametrize("room", [4, 7, 11, 40])
def test_the_special_tokens_of_roberta_are_those_of_its_own_tokenizer(room):
    tokenizer_ = roberta_tokenizer()
    engine = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_.engine_json))
    engine.enable_truncation(room, strategy="longest_first")
    for first, second in ((TEXTS[0], TEXTS[3]), (TEXTS[3], "A fox."), ("", TEXTS[1])):
        ids, _ = tokenizer_.special_tokens.frame(
            tokenizer_.encode(first), tokenizer_.encode(second), room
        )
        assert ids == engine.encode(first, second).ids
        assert (
            tokenizer_.special_tokens.frame(tokenizer_.encode(first), room=room)[0]
            == engine.encode(first).ids
        )


# --- training ----------------------------------------------------------------------------------


def test_training_is_deterministic_and_respects_the_vocabulary_size():
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
        trained = EncoderTokenizer.train_on([large, small], 130, smoothing=smoothing)
        return [len(trained.encode(side[0])) for side in (large, small)]

    by_length, equal = tokens(1.0), tokens(0.0)
    assert by_length[0] < by_length[1]
    assert equal[1] < by_length[1]
    assert equal[0] > by_length[0]
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
def test_no_text_is_encoded_as_a_special_token(text):
    special_tokens = {
        TRAINED.special_tokens.pad,
        TRAINED.special_tokens.start,
        TRAINED.special_tokens.end,
        TRAINED.special_tokens.mask,
    }
    for ids in (TRAINED.encode(text), *TRAINED.encode_batch([text]), TRAINED.encode_spans(text)[0]):
        assert not special_tokens & set(ids)


def test_a_loaded_tokenizer_encodes_equally_and_writes_the_same_file(tmp_path):
    for name, original in (("own", TRAINED), ("spaced", roberta_tokenizer())):
        folder = tmp_path / name
        (folder / "again").mkdir(parents=True)
        original.save(folder)
        reloaded = EncoderTokenizer.load(folder)
        reloaded.save(folder / "again")
        files = [index / "tokenizer.json" for index in (folder, folder / "again")]
        assert files[0].read_bytes() == files[1].read_bytes()
        assert (
            reloaded.fingerprint == original.fingerprint
            and reloaded.special_tokens == original.special_tokens
        )
        for text in (*TEXTS, "a [MASK] and a <mask>", ""):
            assert reloaded.encode(text) == original.encode(text)
        assert reloaded.special_tokens.mask not in reloaded.encode("a [MASK] and a <mask>")
        assert reloaded.continues() == original.continues()


def test_tokens_are_shown_and_special_tokens_are_left_out_of_a_text():
    ids = [
        TRAINED.special_tokens.start,
        *TRAINED.encode("the dog"),
        TRAINED.special_tokens.mask,
        TRAINED.special_tokens.end,
    ]
    assert TRAINED.decode(ids) == "the dog"
    tokens = TRAINED.token_strings(ids)
    assert tokens[0] == "[CLS]" and tokens[-2:] == ["[MASK]", "[SEP]"]
    for invalid in (-1, TRAINED.size):
        for call in (TRAINED.decode, TRAINED.token_strings, TRAINED.words):
            with pytest.raises(DataError, match="outside the vocabulary"):
                call([invalid])


def test_a_single_token_is_shown_as_a_word_or_as_a_continuation():
    byte_level = roberta_tokenizer()
    the, mask = byte_level.encode(" the")[0], byte_level.special_tokens.mask
    assert byte_level.token_strings([the]) == ["Ġthe"]
    assert byte_level.words([the, byte_level.encode("o")[0], mask]) == ["the", "##o", "<mask>"]
    ids = TRAINED.encode("dogma")
    assert TRAINED.words(ids) == TRAINED.token_strings(ids) and TRAINED.words(ids)[1].startswith(
        "##"
    )
    assert TRAINED.words([TRAINED.special_tokens.mask]) == ["[MASK]"]


# --- words and spans ---------------------------------------------------------------------------


def test_continuing_tokens_are_distinguished_from_first_tokens():
    for tokenizer_ in (TRAINED, roberta_tokenizer()):
        continues = tokenizer_.continues()
        assert len(continues) == tokenizer_.size
        assert not any(continues[i] for i in tokenizer_.special_ids)
        ids, indices = tokenizer_.encode_words(["the", "bakery", "waves", "zq"])
        assert len(ids) > 4 and sorted(set(indices)) == [0, 1, 2, 3]
        begins = [i == 0 or indices[i] != indices[i - 1] for i in range(len(ids))]
        assert [not continues[i] for i in ids] == begins


def test_words_are_encoded_as_in_a_text():
    words = ["two", "dogs", "play", "in", "the", "garden"]
    for tokenizer_, text in (
        (TRAINED, " ".join(words)),
        (roberta_tokenizer(), " " + " ".join(words)),
    ):
        assert tokenizer_.encode_words(words)[0] == tokenizer_.encode(text)
    nothing = "\N{ZERO WIDTH SPACE}"
    ids, indices = TRAINED.encode_words(["dog", nothing, "fox"])
    assert set(indices) == {0, 2} and ids == TRAINED.encode("dog fox")


@pytest.mark.parametrize("text", ["The  CAFÉ sells bread.", "a fox🦊, a dog", "", "  "])
def test_a_span_is_the_position_of_its_token(text):
    for tokenizer_ in (TRAINED, roberta_tokenizer()):
        ids, spans = tokenizer_.encode_spans(text)
        assert ids == tokenizer_.encode(text) and len(spans) == len(ids)
        last = 0
        for (start, end), token in zip(spans, tokenizer_.words(ids), strict=True):
            assert last - 1 <= start <= end <= len(text)
            last = end
            part = text[start:end]
            assert part == part.lstrip()
            if part.isascii() and token != "[UNK]" and token.strip("#"):
                assert part.lower() == token.removeprefix("##").lower()


# --- files -------------------------------------------------------------------------------------


def without(content, name):
    del content["special_tokens"][name]


DEFECTS = {
    "no format": lambda content: content.pop("format"),
    "another format": lambda content: content.update(format="headway foreign 1"),
    "no special tokens": lambda content: content.pop("special_tokens"),
    "special tokens as a list": lambda content: content.update(special_tokens=[0, 2, 3, 4, 1]),
    "a special token is missing": lambda content: without(content, "mask"),
    "an unknown special token": lambda content: content["special_tokens"].update(more=1),
    "an id is true": lambda content: content["special_tokens"].update(pad=True),
    "an id is text": lambda content: content["special_tokens"].update(pad="0"),
    "an id below 0": lambda content: content["special_tokens"].update(end=-1),
    "an id beyond the vocabulary": lambda content: content["special_tokens"].update(
        end=TRAINED.size
    ),
    "a huge id": lambda content: content["special_tokens"].update(end=2**70),
    "none between": lambda content: content["special_tokens"].update(between=0),
    "three between": lambda content: content["special_tokens"].update(between=3),
    "no tokenizer": lambda content: content.pop("tokenizer"),
    "an empty tokenizer": lambda content: content.update(tokenizer={}),
    "an empty model": lambda content: content["tokenizer"].update(model={"type": "WordPiece"}),
    "an unknown model": lambda content: content["tokenizer"]["model"].update(type="Magic"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_an_invalid_file_is_refused_by_name(defect, tmp_path):
    TRAINED.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    DEFECTS[defect](content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        EncoderTokenizer.load(tmp_path)
    assert caught.value.where == str(path)


def test_a_missing_file_and_a_lone_surrogate_are_errors(tmp_path: Path):
    with pytest.raises(DataError, match=r"no tokenizer\.json"):
        EncoderTokenizer.load(tmp_path)
    for call in (TRAINED.encode, lambda text: TRAINED.encode_batch([text]), TRAINED.encode_spans):
        with pytest.raises(DataError, match="half of a character"):
            call("a\ud800")
