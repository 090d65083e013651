"""Text that comes piece by piece: it is the whole text, and what stops it never shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.decoding import TextStreamer
from headway.text import CharacterTokenizer, TextBPE

# Few merges: most characters beyond ASCII lie in several tokens, some tokens end inside one.
PIECES = TextBPE.train(["the cat and the däd, été, 猫猫 and 🦊🦊🦊 " * 20], 290)
BROKEN = "\ufffd"
letters = st.one_of(
    st.characters(codec="utf-8"), st.sampled_from("abab \n.é猫🦊" + BROKEN + "\u0301\u200d")
)
texts = st.text(letters, max_size=40)
STOPS = ("ab", "aab", "ba\n", "é.", "猫🦊")


def split(text, cuts):
    """`text` as bytes or pieces: where `cuts` says so, a piece falls into its bytes."""
    tokens = []
    for token, cut in zip(PIECES.encode(text), [*cuts, *[False] * len(text) * 4], strict=False):
        raw = PIECES._bytes[token]
        tokens += [PIECES._bytes.index(bytes([b])) for b in raw] if cut else [token]
    return tokens


def written(writer, tokens):
    """All that it gives, in pieces."""
    return [*(writer.feed(token) for token in tokens), writer.finish()]


def first_stop(text, stop):
    """Up to the stop string that is complete first, the longest of several."""
    for end in range(1, len(text) + 1):
        starts = [end - len(word) for word in stop if text[:end].endswith(word)]
        if starts:
            return text[: min(starts)], True
    return text, False


@given(texts, texts, st.lists(st.booleans(), max_size=60))
def test_the_pieces_are_the_text_whatever_the_tokens(prompt, text, cuts):
    tokens = split(text, cuts)
    assert PIECES.decode(tokens) == text
    pieces = written(TextStreamer(PIECES, PIECES.begin(prompt)), tokens)
    assert "".join(pieces) == text
    for count in range(1, len(tokens) + 1):  # what is out is the beginning of what was said
        assert text.startswith("".join(pieces[:count]))


@given(st.lists(st.integers(0, PIECES.size - 1), max_size=60))
def test_the_pieces_are_the_text_of_any_tokens_broken_ones_too(tokens):
    assert "".join(written(TextStreamer(PIECES), tokens)) == PIECES.decode(tokens)


@given(texts, st.lists(st.booleans(), max_size=60), st.sets(st.sampled_from(STOPS)))
def test_text_ends_before_the_first_stop_string_and_never_shows_a_part_of_it(text, cuts, stop):
    tokens = split(text, cuts)
    writer = TextStreamer(PIECES, [PIECES.bos], tuple(stop))
    expected, stopped = first_stop(text, stop)
    shown = ""
    for piece in written(writer, tokens):
        shown += piece
        assert expected.startswith(shown)  # so no part of what was cut off was ever out
    assert (shown, writer.stopped) == (expected, stopped)


@given(st.lists(st.sampled_from(["a", "b", "ab", "\n", "é"]), max_size=30))
def test_stop_strings_across_tokens_of_several_letters(parts):
    text = "".join(parts)
    tokens = [token for part in parts for token in PIECES.encode(part)]
    pieces = written(TextStreamer(PIECES, (), STOPS), tokens)
    assert "".join(pieces) == first_stop(text, STOPS)[0]


def test_text_that_no_stop_string_can_begin_with_is_shown_at_once():
    writer = TextStreamer(PIECES, PIECES.begin("x"), ("END",))
    assert [writer.feed(token) for token in split("aEbEN", [True] * 5)] == ["a", "", "Eb", "", ""]
    assert writer.finish() == "EN" and not writer.stopped


def test_a_stop_string_is_found_in_what_only_the_end_releases():
    writer = TextStreamer(PIECES, (), ("\ufffdx", "END"))
    byte = PIECES._bytes.index
    for raw in (b"a", b"E", b"N", b"\xe2"):
        writer.feed(byte(raw))
    assert writer.finish() == "EN" + BROKEN
    writer = TextStreamer(PIECES, (), (BROKEN,))
    assert writer.feed(byte(b"a")) == "a" and writer.feed(byte(b"\xe2")) == ""
    assert writer.finish() == "" and writer.stopped and writer.feed(byte(b"b")) == ""


def test_a_prompt_that_ends_anywhere_does_not_lose_the_first_letters():
    """The last tokens of the prompt, that are read for what precedes, may begin inside a 猫."""
    for count in range(1, 9):
        prompt = [PIECES.bos, *split("x" + "猫" * count, [True] * 40)]
        assert "".join(written(TextStreamer(PIECES, prompt), PIECES.encode("猫 猫"))) == "猫 猫"


@pytest.mark.parametrize("text", ["the cat ", "猫", BROKEN])
def test_a_token_costs_the_same_however_long_the_text(text):
    class Counted(TextBPE):
        read = 0

        def decode(self, ids):
            ids = list(ids)
            Counted.read = max(Counted.read, len(ids))
            return super().decode(ids)

    tokens = split(text * 300, [True] * 3000)
    counted = Counted(PIECES._engine)
    assert "".join(written(TextStreamer(counted), tokens)) == text * 300
    assert 0 < Counted.read < 150 < len(tokens)


def test_endless_broken_bytes_cost_no_more_either():
    tokens = [PIECES._bytes.index(b"\xff")] * 1000 + PIECES.encode("é")
    writer = TextStreamer(PIECES)
    text = ""
    for token in tokens:
        text += writer.feed(token)
        assert len(writer._window) < 150
    assert (text + writer.finish()).replace(BROKEN, "") == "é"


def test_characters_are_written_one_by_one():
    alphabet = CharacterTokenizer.train(["abcd"])
    writer = TextStreamer(alphabet, alphabet.begin("ab"), ("da",))
    assert written(writer, alphabet.encode("abda")) == ["a", "b", "", "", ""]
    with pytest.raises(ValueError, match="empty"):
        TextStreamer(alphabet, (), ("a", ""))
