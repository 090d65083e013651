"""Streamed text: its parts join to the whole text, and stop strings are never shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.decoding import TextStreamer
from headway.text import CharacterTokenizer, TextBPE

# With few merges, most characters beyond ASCII have several tokens, some of which end inside one.
TOKENIZER = TextBPE.train(["the cat and the däd, été, 猫猫 and 🦊🦊🦊 " * 20], 290)
BROKEN = "\ufffd"
letters = st.one_of(
    st.characters(codec="utf-8"), st.sampled_from("abab \n.é猫🦊" + BROKEN + "\u0301\u200d")
)
texts = st.text(letters, max_size=40)
STOPS = ("ab", "aab", "ba\n", "é.", "猫🦊")


def split(text, cuts):
    """Return the tokens of `text`; `cuts` tells which tokens are split into their bytes."""
    tokens = []
    for token, cut in zip(TOKENIZER.encode(text), [*cuts, *[False] * len(text) * 4], strict=False):
        raw = TOKENIZER._bytes[token]
        tokens += [TOKENIZER._bytes.index(bytes([b])) for b in raw] if cut else [token]
    return tokens


def stream_parts(writer, tokens):
    """Return all parts that the streamer returns for the tokens."""
    return [*(writer.feed(token) for token in tokens), writer.finish()]


def first_stop(text, stop):
    """Return the text before the first complete stop string, or the longest of several."""
    for end in range(1, len(text) + 1):
        starts = [end - len(word) for word in stop if text[:end].endswith(word)]
        if starts:
            return text[: min(starts)], True
    return text, False


@given(texts, texts, st.lists(st.booleans(), max_size=60))
def test_the_parts_join_to_the_text_for_any_tokens(prompt, text, cuts):
    tokens = split(text, cuts)
    assert TOKENIZER.decode(tokens) == text
    parts = stream_parts(TextStreamer(TOKENIZER, TOKENIZER.begin(prompt)), tokens)
    assert "".join(parts) == text
    for count in range(1, len(tokens) + 1):  # the shown text is always a prefix of the whole
        assert text.startswith("".join(parts[:count]))


@given(st.lists(st.integers(0, TOKENIZER.size - 1), max_size=60))
def test_the_parts_join_to_the_text_of_invalid_tokens_too(tokens):
    assert "".join(stream_parts(TextStreamer(TOKENIZER), tokens)) == TOKENIZER.decode(tokens)


@given(texts, st.lists(st.booleans(), max_size=60), st.sets(st.sampled_from(STOPS)))
def test_text_ends_before_the_first_stop_string_and_never_shows_a_part_of_it(text, cuts, stop):
    tokens = split(text, cuts)
    writer = TextStreamer(TOKENIZER, [TOKENIZER.bos], tuple(stop))
    expected, stopped = first_stop(text, stop)
    shown = ""
    for part in stream_parts(writer, tokens):
        shown += part
        assert expected.startswith(shown)  # so no part of the stop string was ever shown
    assert (shown, writer.stopped) == (expected, stopped)


@given(st.lists(st.sampled_from(["a", "b", "ab", "\n", "é"]), max_size=30))
def test_stop_strings_across_tokens_of_several_letters(parts):
    text = "".join(parts)
    tokens = [token for part in parts for token in TOKENIZER.encode(part)]
    streamed = stream_parts(TextStreamer(TOKENIZER, (), STOPS), tokens)
    assert "".join(streamed) == first_stop(text, STOPS)[0]


def test_text_that_no_stop_string_can_begin_with_is_shown_at_once():
    writer = TextStreamer(TOKENIZER, TOKENIZER.begin("x"), ("END",))
    assert [writer.feed(token) for token in split("aEbEN", [True] * 5)] == ["a", "", "Eb", "", ""]
    assert writer.finish() == "EN" and not writer.stopped


def test_a_stop_string_in_text_that_only_finish_releases_is_removed():
    writer = TextStreamer(TOKENIZER, (), ("\ufffdx", "END"))
    byte = TOKENIZER._bytes.index
    for raw in (b"a", b"E", b"N", b"\xe2"):
        writer.feed(byte(raw))
    assert writer.finish() == "EN" + BROKEN
    writer = TextStreamer(TOKENIZER, (), (BROKEN,))
    assert writer.feed(byte(b"a")) == "a" and writer.feed(byte(b"\xe2")) == ""
    assert writer.finish() == "" and writer.stopped and writer.feed(byte(b"b")) == ""


def test_a_prompt_that_ends_inside_a_character_does_not_lose_the_first_letters():
    """The last tokens of the prompt, which are read as context, may begin inside a 猫."""
    for count in range(1, 9):
        prompt = [TOKENIZER.bos, *split("x" + "猫" * count, [True] * 40)]
        assert (
            "".join(stream_parts(TextStreamer(TOKENIZER, prompt), TOKENIZER.encode("猫 猫")))
            == "猫 猫"
        )


@pytest.mark.parametrize("text", ["the cat ", "猫", BROKEN])
def test_the_cost_of_a_token_does_not_depend_on_the_length_of_the_text(text):
    class Counted(TextBPE):
        read = 0

        def decode(self, ids):
            ids = list(ids)
            Counted.read = max(Counted.read, len(ids))
            return super().decode(ids)

    tokens = split(text * 300, [True] * 3000)
    counted = Counted(TOKENIZER._engine)
    assert "".join(stream_parts(TextStreamer(counted), tokens)) == text * 300
    assert 0 < Counted.read < 150 < len(tokens)


def test_the_cost_of_invalid_bytes_is_bounded_too():
    tokens = [TOKENIZER._bytes.index(b"\xff")] * 1000 + TOKENIZER.encode("é")
    writer = TextStreamer(TOKENIZER)
    text = ""
    for token in tokens:
        text += writer.feed(token)
        assert len(writer._window) < 150
    assert (text + writer.finish()).replace(BROKEN, "") == "é"


def test_characters_are_written_one_by_one():
    alphabet = CharacterTokenizer.train(["abcd"])
    writer = TextStreamer(alphabet, alphabet.begin("ab"), ("da",))
    assert stream_parts(writer, alphabet.encode("abda")) == ["a", "b", "", "", ""]
    with pytest.raises(ValueError, match="empty"):
        TextStreamer(alphabet, (), ("a", ""))
