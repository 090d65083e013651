import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, processors

from headway.errors import DataError
from headway.text import PretrainedTokenizer, TextTokenizer, load_tokenizer
from tests.fixtures.hf_tokenizer import END, FOREIGN, engine


def framed(single: list[str]) -> PretrainedTokenizer:
    """Return a tokenizer with <s> = 0, </s> = 1 and a given post-processor."""
    made = engine("<s>", "</s>")
    made.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return PretrainedTokenizer(made, 0, 1)


ANY_TEXT = st.text(max_size=40) | st.text(alphabet=f"a é\n\u2028\x85🦊{END}", max_size=40)


@given(ANY_TEXT)
def test_byte_level_tokens_preserve_any_text(text: str) -> None:
    ids = FOREIGN.encode(text)
    assert FOREIGN.decode(ids) == text and FOREIGN.eos not in ids
    assert FOREIGN.encode_batch([text, ""]) == [ids, []]
    assert FOREIGN.begin(text) == (ids or [0])


def test_text_that_spells_a_special_token_never_becomes_one(tmp_path: Path) -> None:
    FOREIGN.save(tmp_path)
    for tokenizer in (FOREIGN, PretrainedTokenizer.load(tmp_path / "tokenizer.json")):
        assert isinstance(tokenizer, TextTokenizer)
        ids = tokenizer.encode(f"a{END} {END}")
        assert 0 not in ids and tokenizer.decode(ids) == f"a{END} {END}"
        assert tokenizer.decode([0, *tokenizer.encode("dog"), 0]) == "dog"
        assert tokenizer.token_strings([0]) == [END]


def test_a_text_begins_with_the_special_tokens_of_its_tokenizer_and_does_not_end() -> None:
    first = framed(["<s>", "$A"])
    assert first.begin("dog") == [0, *first.encode("dog")] and first.begin("") == [0]
    both = framed(["<s>", "$A", "</s>"])
    assert both.begin("dog") == [0, *both.encode("dog")] and both.begin("") == [0]
    neither = framed(["$A"])
    assert neither.begin("dog") == neither.encode("dog") and neither.begin("") == [0]


def test_ids_may_have_gaps_and_a_plain_token_may_end_texts() -> None:
    holed = {"a": 0, "b": 1, "|": 7}
    tokenizer = PretrainedTokenizer(tokenizers.Tokenizer(models.BPE(vocab=holed, merges=[])), 7, 7)
    assert tokenizer.size == 8
    assert tokenizer.decode([0, 7]) == "a" and tokenizer.encode("ab") == [0, 1]
    with pytest.raises(DataError, match="bos must be the id of a token, from 0 to 7, but is 3"):
        PretrainedTokenizer(tokenizers.Tokenizer(models.BPE(vocab=holed, merges=[])), 3, 7)


def test_padding_and_truncation_of_its_makers_are_left_out(tmp_path: Path) -> None:
    made = engine(END)
    made.enable_padding(length=9, pad_id=0, pad_token=END)
    made.enable_truncation(2)
    tokenizer = PretrainedTokenizer.of_json(json.loads(made.to_str()), 0, 0, "here")
    long = "The old baker waves at a dog, twice."
    assert tokenizer.encode(long) == FOREIGN.encode(long)
    assert tokenizer.encode_batch(["a", long]) == FOREIGN.encode_batch(["a", long])


def test_a_file_keeps_it_byte_for_byte(tmp_path: Path) -> None:
    tokenizer = framed(["<s>", "$A"])
    tokenizer.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert isinstance(again, PretrainedTokenizer)
    assert (again.bos, again.eos, again.size) == (0, 1, tokenizer.size)
    (tmp_path / "again").mkdir()
    again.save(tmp_path / "again")
    first = (tmp_path / "tokenizer.json").read_bytes()
    assert (tmp_path / "again" / "tokenizer.json").read_bytes() == first


def test_fingerprints_differ_where_ids_do() -> None:
    made = engine("<s>", "</s>")
    others = [
        PretrainedTokenizer(made, 0, 1),
        PretrainedTokenizer(made, 1, 1),
        framed(["<s>", "$A"]),
    ]
    assert len({tokenizer.fingerprint for tokenizer in [FOREIGN, *others]}) == 4


def test_ids_outside_and_half_characters_are_errors() -> None:
    for wrong in (-1, FOREIGN.size):
        with pytest.raises(DataError, match="outside the vocabulary"):
            FOREIGN.decode([wrong])
        with pytest.raises(DataError, match="outside the vocabulary"):
            FOREIGN.token_strings([wrong])
        with pytest.raises(DataError, match="must be the id of a token, from 0 to 2"):
            PretrainedTokenizer(engine(END), 0, wrong)
    for call in (FOREIGN.encode, FOREIGN.begin, lambda text: FOREIGN.encode_batch([text])):
        with pytest.raises(DataError, match="half of a character"):
            call("a\ud800")


NO_UNKNOWN = {"type": "WordLevel", "vocab": {"x": 0}, "unk_token": "?"}
TEMPLATE = {"type": "TemplateProcessing", "pair": [], "special_tokens": {}}
LOST = {"SpecialToken": {"id": "<s>", "type_id": 0}}
FAR = {"<s>": {"id": "<s>", "ids": [99999], "tokens": ["<s>"]}}
SECOND = {"Sequence": {"id": "B", "type_id": 0}}
# The engine panics over these, which is no Exception of Python's.
PANICS = {
    "charsmap": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "nothing long": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "one text, the second asked for": {"post_processor": {**TEMPLATE, "single": [SECOND]}},
}


def test_damaged_and_hostile_files_are_refused(tmp_path: Path) -> None:
    FOREIGN.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    whole = path.read_bytes()
    content = json.loads(whole)
    theirs = content["tokenizer"]
    for broken in (
        {**content, "format": "headway foreign 2"},
        {**content, "bos": True},
        {**content, "bos": "0"},
        {**content, "eos": None},
        {**content, "eos": -1},
        {**content, "eos": 2**40},
        {**content, "tokenizer": None},
        {**content, "tokenizer": "x"},
        {**content, "tokenizer": {**theirs, "model": {"type": "Pickle"}}},
        {**content, "tokenizer": {**theirs, "model": {"type": "BPE", "vocab": [], "merges": []}}},
        {**content, "tokenizer": {**theirs, "model": NO_UNKNOWN, "pre_tokenizer": None}},
        {**content, "tokenizer": {**theirs, "post_processor": {**TEMPLATE, "single": [LOST]}}},
        {**content, "tokenizer": {**theirs, "decoder": {"type": "Nothing"}}},
        [content],
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(DataError):
            PretrainedTokenizer.load(path)
    for raw in (b"", whole[:-20], b"\xff" + whole, b"[" * 100_000, whole.replace(b"{", b"{{", 1)):
        path.write_bytes(raw)
        with pytest.raises(DataError):
            load_tokenizer(tmp_path)


@pytest.mark.parametrize("name", PANICS)
def test_a_file_over_which_the_engine_panics_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="the tokenizer cannot be loaded"):
        PretrainedTokenizer.of_json({**FOREIGN.engine_json, **PANICS[name]}, 0, 0, "here")


def test_ids_that_no_model_has_are_refused() -> None:
    theirs = FOREIGN.engine_json
    model = theirs["model"]
    far = {**theirs, "model": {**model, "vocab": {**model["vocab"], "zz": 2**31}}}
    template = {**TEMPLATE, "single": [LOST], "special_tokens": FAR}
    for broken, said in [(far, "2147483648"), ({**theirs, "post_processor": template}, "99999")]:
        with pytest.raises(DataError, match=f"token ids must be at most .* but one is {said}"):
            PretrainedTokenizer.of_json(broken, 0, 0, "here")


def test_a_plain_hugging_face_file_is_not_a_saved_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(FOREIGN.engine_json))
    with pytest.raises(DataError, match="not a tokenizer of format"):
        PretrainedTokenizer.load(path)
    with pytest.raises(DataError):
        load_tokenizer(tmp_path)
