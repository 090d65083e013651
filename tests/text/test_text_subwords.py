import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.base.errors import DataError, UsageError
from headway.text import CharacterTokenizer, TextBPE, TextTokenizer, Tokenizer, load_tokenizer

TEXTS = ["The old baker waves.", "  The baker bakes bread </s>\n", "A dog barks, twice."] * 9
TOKENIZER = TextBPE.train(TEXTS, 320)
ANY_TEXT = st.text(max_size=40) | st.text(alphabet="a é\n\t\r\u2028\x85\u00a0🦊ก</s>", max_size=40)


@given(ANY_TEXT)
def test_any_text_is_decoded_exactly(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert TOKENIZER.encode_batch([text, text]) == [ids, ids]
    assert TOKENIZER.begin(text) == [TOKENIZER.bos, *ids]
    assert TOKENIZER.decode([*TOKENIZER.begin(text), TOKENIZER.eos]) == text
    assert TOKENIZER.eos not in ids


@given(st.lists(st.integers(0, TOKENIZER.size - 1), max_size=30))
def test_any_ids_are_decoded_with_replacement_characters(ids: list[int]) -> None:
    text = TOKENIZER.decode(ids)
    text.encode()
    plain = [i for i in ids if i != TOKENIZER.eos]
    if "\ufffd" not in text:
        assert TOKENIZER.decode(TOKENIZER.encode(text)) == text
    assert len(TOKENIZER.token_strings(plain)) == len(plain)


def test_one_token_ends_a_text_and_begins_the_next() -> None:
    assert isinstance(TOKENIZER, TextTokenizer)
    assert TOKENIZER.bos == TOKENIZER.eos == 0
    assert TOKENIZER.begin("") == [0] and TOKENIZER.encode("") == []
    assert 257 < TOKENIZER.size <= 320


def test_text_that_spells_the_special_token_is_not_encoded_as_it(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path)
    for tokenizer in (TOKENIZER, TextBPE.load(tmp_path / "tokenizer.json")):
        ids = tokenizer.encode("a</s> </s>")
        assert 0 not in ids and tokenizer.decode(ids) == "a</s> </s>"
        assert tokenizer.token_strings([0]) == ["</s>"] and tokenizer.decode([0]) == ""


def test_spaces_are_kept_and_tokens_show_them() -> None:
    assert TOKENIZER.token_strings(TOKENIZER.encode(" baker"))[0].startswith(" ")
    assert not TOKENIZER.token_strings(TOKENIZER.encode("baker"))[0].startswith(" ")
    assert TOKENIZER.token_strings(TOKENIZER.encode("🦊")) == ["\ufffd"] * 4


def test_a_loaded_tokenizer_writes_the_same_file(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path)
    reloaded = load_tokenizer(tmp_path)
    assert isinstance(reloaded, TextBPE) and reloaded.fingerprint == TOKENIZER.fingerprint
    (tmp_path / "again").mkdir()
    reloaded.save(tmp_path / "again")
    first = (tmp_path / "tokenizer.json").read_bytes()
    assert (tmp_path / "again" / "tokenizer.json").read_bytes() == first
    assert TextBPE.train(iter(TEXTS), 320).fingerprint == TOKENIZER.fingerprint


def test_fingerprints_differ_if_ids_differ() -> None:
    variants = [TextBPE.train(TEXTS, 270), TextBPE.train(TEXTS[:1], 320)]
    variants += [Tokenizer.train(TEXTS, 320), CharacterTokenizer.train(TEXTS)]
    assert len({tokenizer.fingerprint for tokenizer in [TOKENIZER, *variants]}) == 5


def test_ids_outside_the_vocabulary_lone_surrogates_and_small_vocabularies_are_errors() -> None:
    for invalid in (-1, TOKENIZER.size):
        with pytest.raises(DataError, match="outside the vocabulary"):
            TOKENIZER.decode([invalid])
        with pytest.raises(DataError, match="outside the vocabulary"):
            TOKENIZER.token_strings([invalid])
    with pytest.raises(DataError, match="half of a character"):
        TOKENIZER.encode("a\ud800")
    with pytest.raises(DataError, match="half of a character"):
        TextBPE.train(["a\ud800"], 300)
    with pytest.raises(UsageError, match="at least 257"):
        TextBPE.train(TEXTS, 256)


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    whole = path.read_bytes()
    content = json.loads(whole)
    model = content["model"]
    without = {token: i for token, i in model["vocab"].items() if token != "</s>"}
    with_gap = {**model["vocab"], "xy": 9999}
    twice = {**model["vocab"], "xy": 5}
    added = {**content["added_tokens"][0], "content": "dog", "id": 7}
    spaced = {**content["pre_tokenizer"], "add_prefix_space": True}
    for broken in (
        [],
        {**content, "model": {**model, "type": "Unigram"}},
        {**content, "model": {**model, "vocab": without}},
        {**content, "model": {**model, "vocab": with_gap}},
        {**content, "model": {**model, "vocab": twice}},
        {**content, "model": {**model, "merges": [["日", "本"]]}},
        {**content, "model": {**model, "dropout": 0.5}},
        {**content, "added_tokens": [added]},
        {**content, "pre_tokenizer": spaced},
        {**content, "normalizer": {"type": "Lowercase"}},
        {**content, "truncation": {"max_length": 3}},
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(DataError):
            load_tokenizer(tmp_path)
    for raw in (b"", whole[:-20], b"\xff" + whole, b"[" * 100_000):
        path.write_bytes(raw)
        with pytest.raises(DataError):
            load_tokenizer(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=r"the folder has no tokenizer\.json"):
        load_tokenizer(tmp_path)
