"""Tokenizers of encoders: training, marks and their frame, spans, files; and transformers' own."""

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import DataError, UsageError
from headway.text import MarkedTokenizer, Marks
from tests.fixtures.encoder_tokenizers import spaced
from tests.fixtures.small_encoder import TEXTS, tokenizer

OWN = tokenizer()
SPELLING = ["[MASK]", "[CLS]", "[SEP]", "[PAD]"]
ANY_TEXT = st.text(max_size=40) | st.lists(
    st.sampled_from([*SPELLING, "dog", " ", "é", "🦊", "\n"])
).map("".join)


# --- the frame ---------------------------------------------------------------------------------


def test_one_text_stands_between_two_marks_and_two_between_three():
    marks = Marks(pad=0, start=2, end=3, mask=4)
    assert marks.frame([7, 8]) == ([2, 7, 8, 3], [0, 0, 0, 0])
    assert marks.frame([]) == ([2, 3], [0, 0])
    assert marks.frame([7, 8], [9]) == ([2, 7, 8, 3, 9, 3], [0, 0, 0, 0, 1, 1])
    two = Marks(pad=0, start=2, end=3, mask=4, between=2)
    assert two.frame([7], [9]) == ([2, 7, 3, 3, 9, 3], [0, 0, 0, 0, 1, 1])
    assert marks.frame([7, 8, 9], room=4) == ([2, 7, 8, 3], [0] * 4)


@given(st.integers(0, 15), st.integers(1, 15), st.integers(3, 30))  # an empty second is none there
def test_two_texts_are_cut_as_transformers_cuts_them(a, b, room):
    from transformers import PreTrainedTokenizerFast

    own = OWN.encode_batch(["dog " * a, "fox " * b])
    engine = tokenizers.Tokenizer.from_str(json.dumps(OWN.engine_json))
    theirs = PreTrainedTokenizerFast(tokenizer_object=engine)
    found = theirs(
        "dog " * a,
        "fox " * b,
        truncation="longest_first",
        max_length=room,
        return_token_type_ids=True,
    )
    assert OWN.marks.frame(*own, room) == (found["input_ids"], found["token_type_ids"])


@pytest.mark.parametrize("room", [4, 7, 11, 40])
def test_robertas_frame_is_that_of_its_own_tokenizer(room):
    reader = spaced()
    engine = tokenizers.Tokenizer.from_str(json.dumps(reader.engine_json))
    engine.enable_truncation(room, strategy="longest_first")
    for first, second in ((TEXTS[0], TEXTS[3]), (TEXTS[3], "A fox."), ("", TEXTS[1])):
        ids, _ = reader.marks.frame(reader.encode(first), reader.encode(second), room)
        assert ids == engine.encode(first, second).ids
        assert reader.marks.frame(reader.encode(first), room=room)[0] == engine.encode(first).ids


# --- training ----------------------------------------------------------------------------------


def test_training_is_deterministic_and_keeps_to_its_size():
    for _ in range(5):
        assert tokenizer().fingerprint == OWN.fingerprint != tokenizer(120).fingerprint
    assert OWN.size <= 150
    many = ["".join(chr(0x4E00 + i) for i in range(start, start + 20)) for start in range(0, 400)]
    for texts in (many, [" ".join(text) for text in many]):
        assert MarkedTokenizer.train(texts, 120).size <= 120
    with pytest.raises(UsageError, match="below 100"):
        MarkedTokenizer.train(TEXTS, 99)


def test_a_small_source_gets_more_pieces_the_more_sources_are_smoothed():
    def words(letters: str) -> str:
        return " ".join(a + b + c for a in letters for b in letters for c in letters)

    large, small = [words("abcde")] * 30, [words("vwxyz")]

    def tokens(smoothing: float) -> list[int]:
        made = MarkedTokenizer.train_on([large, small], 130, smoothing=smoothing)
        return [len(made.encode(side[0])) for side in (large, small)]

    by_length, alike = tokens(1.0), tokens(0.0)
    assert by_length[0] < by_length[1]
    assert alike[1] < by_length[1]
    assert alike[0] > by_length[0]
    together = MarkedTokenizer.train([*large, *small], 130)
    apart = MarkedTokenizer.train_on([large, small], 130, smoothing=1.0)
    assert together.fingerprint == apart.fingerprint


def test_capitals_and_accents_go_unless_they_are_asked_for():
    assert OWN.encode("The CAFÉ") == OWN.encode("the cafe")
    cased = MarkedTokenizer.train(TEXTS * 3, 150, lower=False)
    assert cased.encode("The café") != cased.encode("the cafe")
    assert OWN.decode(OWN.encode("The old  café.")) == "the old cafe."


# --- marks in texts ----------------------------------------------------------------------------


@given(ANY_TEXT)
def test_no_text_becomes_a_mark(text):
    marks = {OWN.marks.pad, OWN.marks.start, OWN.marks.end, OWN.marks.mask}
    for ids in (OWN.encode(text), *OWN.encode_batch([text]), OWN.encode_spans(text)[0]):
        assert not marks & set(ids)


def test_a_loaded_tokenizer_does_the_same_and_writes_the_same_file(tmp_path):
    for name, made in (("own", OWN), ("spaced", spaced())):
        folder = tmp_path / name
        (folder / "again").mkdir(parents=True)
        made.save(folder)
        again = MarkedTokenizer.load(folder)
        again.save(folder / "again")
        files = [place / "tokenizer.json" for place in (folder, folder / "again")]
        assert files[0].read_bytes() == files[1].read_bytes()
        assert again.fingerprint == made.fingerprint and again.marks == made.marks
        for text in (*TEXTS, "a [MASK] and a <mask>", ""):
            assert again.encode(text) == made.encode(text)
        assert again.marks.mask not in again.encode("a [MASK] and a <mask>")
        assert again.continues() == made.continues()


def test_pieces_are_shown_and_marks_are_left_out_of_a_text():
    ids = [OWN.marks.start, *OWN.encode("the dog"), OWN.marks.mask, OWN.marks.end]
    assert OWN.decode(ids) == "the dog"
    pieces = OWN.pieces(ids)
    assert pieces[0] == "[CLS]" and pieces[-2:] == ["[MASK]", "[SEP]"]
    for wrong in (-1, OWN.size):
        for call in (OWN.decode, OWN.pieces, OWN.words):
            with pytest.raises(DataError, match="outside the vocabulary"):
                call([wrong])


def test_a_piece_alone_is_shown_as_a_word_or_as_the_end_of_one():
    wide = spaced()
    the, mark = wide.encode(" the")[0], wide.marks.mask
    assert wide.pieces([the]) == ["Ġthe"]
    assert wide.words([the, wide.encode("o")[0], mark]) == ["the", "##o", "<mask>"]
    ids = OWN.encode("dogma")
    assert OWN.words(ids) == OWN.pieces(ids) and OWN.words(ids)[1].startswith("##")
    assert OWN.words([OWN.marks.mask]) == ["[MASK]"]


# --- words and spans ---------------------------------------------------------------------------


def test_what_continues_a_word_is_told_from_what_begins_one():
    for made in (OWN, spaced()):
        continues = made.continues()
        assert len(continues) == made.size
        assert not any(continues[i] for i in made.special_ids)
        ids, places = made.encode_words(["the", "bakery", "waves", "zq"])
        assert len(ids) > 4 and sorted(set(places)) == [0, 1, 2, 3]
        begins = [i == 0 or places[i] != places[i - 1] for i in range(len(ids))]
        assert [not continues[i] for i in ids] == begins


def test_words_that_are_split_already_are_read_as_in_a_text():
    words = ["two", "dogs", "play", "in", "the", "garden"]
    for made, text in ((OWN, " ".join(words)), (spaced(), " " + " ".join(words))):
        assert made.encode_words(words)[0] == made.encode(text)
    nothing = "\N{ZERO WIDTH SPACE}"
    ids, places = OWN.encode_words(["dog", nothing, "fox"])
    assert set(places) == {0, 2} and ids == OWN.encode("dog fox")


@pytest.mark.parametrize("text", ["The  CAFÉ sells bread.", "a fox🦊, a dog", "", "  "])
def test_a_span_is_where_its_piece_stands(text):
    for made in (OWN, spaced()):
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


def without(facts, name):
    del facts["marks"][name]


SPOILED = {
    "no format": lambda facts: facts.pop("format"),
    "another format": lambda facts: facts.update(format="headway foreign 1"),
    "no marks": lambda facts: facts.pop("marks"),
    "marks as a list": lambda facts: facts.update(marks=[0, 2, 3, 4, 1]),
    "a mark is missing": lambda facts: without(facts, "mask"),
    "a mark too many": lambda facts: facts["marks"].update(more=1),
    "a mark is true": lambda facts: facts["marks"].update(pad=True),
    "a mark is text": lambda facts: facts["marks"].update(pad="0"),
    "a mark below 0": lambda facts: facts["marks"].update(end=-1),
    "a mark beyond all": lambda facts: facts["marks"].update(end=OWN.size),
    "a huge mark": lambda facts: facts["marks"].update(end=2**70),
    "none between": lambda facts: facts["marks"].update(between=0),
    "three between": lambda facts: facts["marks"].update(between=3),
    "no tokenizer": lambda facts: facts.pop("tokenizer"),
    "a tokenizer of nothing": lambda facts: facts.update(tokenizer={}),
    "a model of nothing": lambda facts: facts["tokenizer"].update(model={"type": "WordPiece"}),
    "an unknown model": lambda facts: facts["tokenizer"]["model"].update(type="Magic"),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_file_is_refused_and_named(how, tmp_path):
    OWN.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    SPOILED[how](facts)
    path.write_text(json.dumps(facts), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        MarkedTokenizer.load(tmp_path)
    assert caught.value.where == str(path)


def test_a_missing_file_and_half_a_character_are_errors(tmp_path: Path):
    with pytest.raises(DataError, match=r"no tokenizer\.json"):
        MarkedTokenizer.load(tmp_path)
    for call in (OWN.encode, lambda text: OWN.encode_batch([text]), OWN.encode_spans):
        with pytest.raises(DataError, match="half of a character"):
            call("a\ud800")
