import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, processors

from headway.base.errors import DataError
from headway.text import PretrainedTokenizer, TextTokenizer, load_tokenizer
from tests.fixtures.hf_tokenizer import END, FOREIGN, engine


def framed(single: list[str]) -> PretrainedTokenizer:
    """Return a tokenizer with <s> = 0, </s> = 1 and the template `single` as post-processor."""
    tokenizer_engine = engine("<s>", "</s>")
    tokenizer_engine.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return PretrainedTokenizer(tokenizer_engine, 0, 1)


ANY_TEXT = st.text(max_size=40) | st.text(alphabet=f"a é\n\u2028\x85🦊{END}", max_size=40)


@given(ANY_TEXT)
def test_byte_level_tokens_preserve_any_text(text: str) -> None:
    ids = FOREIGN.encode(text)
    assert FOREIGN.decode(ids) == text and FOREIGN.eos not in ids
    assert FOREIGN.encode_batch([text, ""]) == [ids, []]
    assert FOREIGN.begin(text) == (ids or [0])


def test_text_that_spells_a_special_token_is_not_encoded_as_one(tmp_path: Path) -> None:
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
    with_gaps = {"a": 0, "b": 1, "|": 7}
    tokenizer = PretrainedTokenizer(
        tokenizers.Tokenizer(models.BPE(vocab=with_gaps, merges=[])), 7, 7
    )
    assert tokenizer.size == 8
    assert tokenizer.decode([0, 7]) == "a" and tokenizer.encode("ab") == [0, 1]
    with pytest.raises(DataError, match="bos must be the id of a token, from 0 to 7, but is 3"):
        PretrainedTokenizer(tokenizers.Tokenizer(models.BPE(vocab=with_gaps, merges=[])), 3, 7)


def test_padding_and_truncation_of_the_file_are_ignored(tmp_path: Path) -> None:
    tokenizer_engine = engine(END)
    tokenizer_engine.enable_padding(length=9, pad_id=0, pad_token=END)
    tokenizer_engine.enable_truncation(2)
    tokenizer = PretrainedTokenizer.of_json(json.loads(tokenizer_engine.to_str()), 0, 0, "here")
    long = "The old baker waves at a dog, twice."
    assert tokenizer.encode(long) == FOREIGN.encode(long)
    assert tokenizer.encode_batch(["a", long]) == FOREIGN.encode_batch(["a", long])


def test_a_loaded_tokenizer_writes_the_same_file(tmp_path: Path) -> None:
    tokenizer = framed(["<s>", "$A"])
    tokenizer.save(tmp_path)
    reloaded = load_tokenizer(tmp_path)
    assert isinstance(reloaded, PretrainedTokenizer)
    assert (reloaded.bos, reloaded.eos, reloaded.size) == (0, 1, tokenizer.size)
    (tmp_path / "again").mkdir()
    reloaded.save(tmp_path / "again")
    first = (tmp_path / "tokenizer.json").read_bytes()
    assert (tmp_path / "again" / "tokenizer.json").read_bytes() == first


def test_fingerprints_differ_if_ids_differ() -> None:
    tokenizer_engine = engine("<s>", "</s>")
    variants = [
        PretrainedTokenizer(tokenizer_engine, 0, 1),
        PretrainedTokenizer(tokenizer_engine, 1, 1),
        framed(["<s>", "$A"]),
    ]
    assert len({tokenizer.fingerprint for tokenizer in [FOREIGN, *variants]}) == 4


def test_ids_outside_the_vocabulary_and_lone_surrogates_are_errors() -> None:
    for invalid in (-1, FOREIGN.size):
        with pytest.raises(DataError, match="outside the vocabulary"):
            FOREIGN.decode([invalid])
        with pytest.raises(DataError, match="outside the vocabulary"):
            FOREIGN.token_strings([invalid])
        with pytest.raises(DataError, match="must be the id of a token, from 0 to 2"):
            PretrainedTokenizer(engine(END), 0, invalid)
    for call in (FOREIGN.encode, FOREIGN.begin, lambda text: FOREIGN.encode_batch([text])):
        with pytest.raises(DataError, match="half of a character"):
            call("a\ud800")


NO_UNKNOWN = {"type": "WordLevel", "vocab": {"x": 0}, "unk_token": "?"}
TEMPLATE = {"type": "TemplateProcessing", "pair": [], "special_tokens": {}}
LOST = {"SpecialToken": {"id": "<s>", "type_id": 0}}
FAR = {"<s>": {"id": "<s>", "ids": [99999], "tokens": ["<s>"]}}
SECOND = {"Sequence": {"id": "B", "type_id": 0}}
# The engine panics on these, and a panic is not a Python Exception.
PANICS = {
    "charsmap": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "nothing long": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "a template of the second text only": {"post_processor": {**TEMPLATE, "single": [SECOND]}},
}


def test_damaged_and_hostile_files_are_refused(tmp_path: Path) -> None:
    FOREIGN.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    whole = path.read_bytes()
    content = json.loads(whole)
    engine_json = content["tokenizer"]
    for broken in (
        {**content, "format": "headway foreign 2"},
        {**content, "bos": True},
        {**content, "bos": "0"},
        {**content, "eos": None},
        {**content, "eos": -1},
        {**content, "eos": 2**40},
        {**content, "tokenizer": None},
        {**content, "tokenizer": "x"},
        {**content, "tokenizer": {**engine_json, "model": {"type": "Pickle"}}},
        {
            **content,
            "tokenizer": {**engine_json, "model": {"type": "BPE", "vocab": [], "merges": []}},
        },
        {**content, "tokenizer": {**engine_json, "model": NO_UNKNOWN, "pre_tokenizer": None}},
        {**content, "tokenizer": {**engine_json, "post_processor": {**TEMPLATE, "single": [LOST]}}},
        {**content, "tokenizer": {**engine_json, "decoder": {"type": "Nothing"}}},
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
def test_a_file_on_which_the_engine_panics_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="the tokenizer cannot be loaded"):
        PretrainedTokenizer.of_json({**FOREIGN.engine_json, **PANICS[name]}, 0, 0, "here")


def test_ids_above_the_limit_are_refused() -> None:
    engine_json = FOREIGN.engine_json
    model = engine_json["model"]
    far = {**engine_json, "model": {**model, "vocab": {**model["vocab"], "zz": 2**31}}}
    template = {**TEMPLATE, "single": [LOST], "special_tokens": FAR}
    for broken, token_id in [
        (far, "2147483648"),
        ({**engine_json, "post_processor": template}, "99999"),
    ]:
        with pytest.raises(DataError, match=f"token ids must be at most .* but one is {token_id}"):
            PretrainedTokenizer.of_json(broken, 0, 0, "here")


def test_a_plain_hugging_face_file_is_not_a_saved_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(FOREIGN.engine_json))
    with pytest.raises(DataError, match="not a tokenizer of format"):
        PretrainedTokenizer.load(path)
    with pytest.raises(DataError):
        load_tokenizer(tmp_path)
