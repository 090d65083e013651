import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.base.errors import DataError, UsageError
from headway.text import CharacterTokenizer, TextTokenizer, load_tokenizer

ALPHABET = "\n !aébc🦊</s>"
LETTERS = CharacterTokenizer.train(["bc a", "🦊é!", "</s>\n"])


@given(st.text(alphabet=ALPHABET, max_size=40))
def test_any_text_of_known_characters_is_decoded_exactly_with_one_id_each(text: str) -> None:
    ids = LETTERS.encode(text)
    assert len(ids) == len(text) and LETTERS.eos not in ids
    assert LETTERS.decode(ids) == text and LETTERS.token_strings(ids) == list(text)
    assert LETTERS.encode_batch([text, "a"]) == [ids, LETTERS.encode("a")]
    assert LETTERS.begin(text) == [LETTERS.bos, *ids]


@given(st.text(min_size=1, max_size=40))
def test_the_training_text_is_always_decoded_exactly(text: str) -> None:
    letters = CharacterTokenizer.train([text])
    assert letters.decode(letters.encode(text)) == text
    assert letters.size == 1 + len(set(text))


def test_characters_are_in_the_order_of_their_codes_after_the_end_token() -> None:
    assert isinstance(LETTERS, TextTokenizer)
    assert LETTERS.characters == "".join(sorted(ALPHABET)) and LETTERS.size == len(ALPHABET) + 1
    assert LETTERS.bos == LETTERS.eos == 0 and LETTERS.begin("") == [0]
    assert LETTERS.encode("\n") == [1]


def test_text_that_spells_the_end_token_is_not_encoded_as_it() -> None:
    assert len(LETTERS.encode("</s>")) == 4
    assert LETTERS.decode([0, *LETTERS.encode("</s>"), 0]) == "</s>"
    assert LETTERS.token_strings([0]) == ["</s>"]


def test_an_unknown_character_is_an_error_with_a_hint() -> None:
    with pytest.raises(UsageError, match=r"'z'[^~]*tokenizer bpe"):
        LETTERS.encode("abz")
    with pytest.raises(UsageError):
        LETTERS.encode_batch(["a", "\ud800"])


def test_ids_outside_the_vocabulary_and_empty_texts_are_errors() -> None:
    for invalid in (-1, LETTERS.size):
        with pytest.raises(DataError, match="outside the vocabulary"):
            LETTERS.decode([invalid])
        with pytest.raises(DataError, match="outside the vocabulary"):
            LETTERS.token_strings([invalid])
    for empty in ([], [""]):
        with pytest.raises(DataError, match="must have at least one character"):
            CharacterTokenizer.train(empty)
    with pytest.raises(DataError, match="half of a character"):
        CharacterTokenizer.train(["\ud800"])
    with pytest.raises(DataError, match="twice"):
        CharacterTokenizer("aba")


def test_a_loaded_tokenizer_writes_the_same_file(tmp_path: Path) -> None:
    LETTERS.save(tmp_path)
    reloaded = load_tokenizer(tmp_path)
    assert isinstance(reloaded, CharacterTokenizer) and reloaded.fingerprint == LETTERS.fingerprint
    (tmp_path / "again").mkdir()
    reloaded.save(tmp_path / "again")
    first = (tmp_path / "tokenizer.json").read_bytes()
    assert (tmp_path / "again" / "tokenizer.json").read_bytes() == first
    assert reloaded.encode(ALPHABET) == LETTERS.encode(ALPHABET)
    assert CharacterTokenizer("ab").fingerprint != CharacterTokenizer("ba").fingerprint


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    file_format = "headway characters 1"
    for broken in (
        {"format": file_format},
        {"format": file_format, "characters": ""},
        {"format": file_format, "characters": ["a"]},
        {"format": file_format, "characters": "aba"},
        {"format": file_format, "characters": "\ud800"},
        {"format": "headway characters 2", "characters": "ab"},
        [file_format],
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(DataError):
            load_tokenizer(tmp_path)
        with pytest.raises(DataError):
            CharacterTokenizer.load(path)
