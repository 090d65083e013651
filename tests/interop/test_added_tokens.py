"""Tokens that the files of a folder add to the vocabulary have the ids of transformers."""

import json

import pytest
import tokenizers
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.base.errors import DataError, HeadwayWarning
from headway.interop import read_encoder_tokenizer, read_tokenizer
from headway.text import EncoderTokenizer, load_tokenizer
from tests.fixtures.chat_tokenizers import engine_of
from tests.fixtures.encoder_tokenizers import write_byte_level, write_wordpiece
from tests.fixtures.language_model_tokenizers import llama_like, put, small_gpt2

SIZE = 400
START, STOP, TOOL, WORD = "<|start|>", "<|stop|>", "<tool>", "lemonade"


def flags(content, **changed):
    usual = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized", "special"), False)
    return {"content": content, **usual, **changed}


def write_gpt2(folder):
    small_gpt2(folder)
    put(folder, config={"model_type": "gpt2", "vocab_size": SIZE})
    return {"tokenizer_class": "GPT2Tokenizer"}


def write_json(kind):
    def write(folder):
        engine_of(kind).save(str(folder / "tokenizer.json"))
        put(folder, config={"model_type": "mixed", "vocab_size": SIZE})
        names = {"bos_token": "<s>", "eos_token": "</s>"}
        return {"tokenizer_class": "PreTrainedTokenizerFast", **names}

    return write


def write_llama(folder):
    llama_like(folder)
    put(folder, config={"model_type": "mixed", "vocab_size": SIZE})
    names = {"bos_token": "<s>", "eos_token": "</s>"}
    return {"tokenizer_class": "PreTrainedTokenizerFast", **names}


def write_bert(folder):
    write_wordpiece(folder)
    put(folder, config={"model_type": "bert", "vocab_size": SIZE})
    return {}


def write_roberta(folder):
    write_byte_level(folder)
    put(folder, config={"model_type": "roberta", "vocab_size": SIZE})
    return {}


MAKERS = {
    "gpt2": write_gpt2,
    "byte-level": write_json("byte-level"),
    "unigram": write_json("always"),
    "llama": write_llama,
    "bert": write_bert,
    "roberta": write_roberta,
}
ENCODERS = ("bert", "roberta")


def declared(size):
    """Files of a folder, by what is special about them; size: of the vocabulary."""
    tokens = [
        flags(START, special=True),
        flags(STOP, special=True, lstrip=True),
        flags(TOOL, rstrip=True),
        flags(WORD, single_word=True, normalized=True),
    ]
    decoder = {str(size + number): token for number, token in enumerate(tokens)}
    by_text = {token["content"]: size + number for number, token in enumerate(tokens)}
    return {
        "decoder": {"tokenizer_config": {"added_tokens_decoder": decoder}},
        "older file": {"added_tokens": by_text},
        "older file with names": {
            "added_tokens": by_text,
            "tokenizer_config": {"additional_special_tokens": [START, STOP]},
        },
        "map": {"special_tokens_map": {"additional_special_tokens": [START, STOP, WORD]}},
        "map with flags": {
            "special_tokens_map": {"unk_token": flags(STOP, lstrip=True), "pad_token": TOOL}
        },
        "extra": {"tokenizer_config": {"extra_special_tokens": [START, TOOL]}},
        "extra names": {"tokenizer_config": {"extra_special_tokens": {"image_token": TOOL}}},
        "further names": {"tokenizer_config": {"image_token": TOOL, "pad_token": STOP}},
        "decoder and names": {
            "tokenizer_config": {
                "added_tokens_decoder": decoder,
                "pad_token": START,
                "mask_token": TOOL,
                "additional_special_tokens": [STOP],
            },
        },
    }


CASES = [
    (maker, case)
    for maker in MAKERS
    for case in declared(0)
    if maker not in ENCODERS or ("name" not in case and case != "map with flags")
]


def write(folder, maker, case):
    folder.mkdir(exist_ok=True)
    settings_of_kind = MAKERS[maker](folder)
    put(folder, tokenizer_config=settings_of_kind)
    size = len(transformers.AutoTokenizer.from_pretrained(folder))
    files = dict(declared(size)[case])
    files["tokenizer_config"] = {**settings_of_kind, **files.get("tokenizer_config", {})}
    return put(folder, **files)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Return the tokenizers of a case: (ours, transformers'), made once."""
    made = {}

    def pair(maker, case):
        if (maker, case) not in made:
            folder = write(tmp_path_factory.mktemp("added") / "model", maker, case)
            read = read_encoder_tokenizer if maker in ENCODERS else read_tokenizer
            made[maker, case] = read(folder), transformers.AutoTokenizer.from_pretrained(folder)
        return made[maker, case]

    return pair


PIECES = [
    START,
    STOP,
    TOOL,
    WORD,
    "<",
    "|>",
    " ",
    "  ",
    "\n",
    "the",
    " fox",
    "a",
    "Lemonade",
    "\u65e5",
]
texts = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=7).map("".join)


@pytest.mark.parametrize(("maker", "case"), CASES)
@settings(max_examples=20, deadline=None)
@given(text=texts)
def test_texts_with_added_tokens_are_encoded_as_in_transformers(maker, case, text, pairs):
    ours, reference = pairs(maker, case)
    plain = reference(text, add_special_tokens=False, split_special_tokens=True).input_ids
    assert ours.encode(text) == plain
    if maker not in ENCODERS:
        whole = reference(text, add_special_tokens=False).input_ids
        assert ours.encode_with_special_tokens(text) == whole


@pytest.mark.parametrize(("maker", "case"), CASES)
def test_added_tokens_have_the_ids_of_transformers(maker, case, pairs, tmp_path):
    ours, reference = pairs(maker, case)
    theirs = {token: i for token, i in reference.get_vocab().items() if token in PIECES[:4]}
    ids = ours._engine.get_vocab()
    assert theirs and {token: ids[token] for token in theirs} == theirs
    special = [i for i in theirs.values() if reference.added_tokens_decoder[i].special]
    text = " ".join(theirs)
    assert ours.decode(theirs.values()) == reference.decode(
        list(theirs.values()), skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    assert not set(ours.encode(text)) & set(special)
    ours.save(tmp_path)
    load = EncoderTokenizer.load if maker in ENCODERS else load_tokenizer
    assert load(tmp_path).encode(text) == ours.encode(text)


@pytest.mark.parametrize("maker", MAKERS)
def test_ids_with_gaps_are_those_of_the_file(maker, tmp_path):
    config = MAKERS[maker](tmp_path)
    tokens = {"380": flags(START, special=True), "360": flags(TOOL, normalized=True)}
    put(tmp_path, tokenizer_config={**config, "added_tokens_decoder": tokens})
    read = read_encoder_tokenizer if maker in ENCODERS else read_tokenizer
    ours = read(tmp_path)
    assert ours.size == 381 and 360 in ours.encode(f"a {TOOL} b") and 380 not in ours.encode(START)
    assert TOOL in ours.decode([360]) and START not in ours.decode([380])
    if maker not in ENCODERS:
        assert 380 in ours.encode_with_special_tokens(f"a {START}")
        mixed = f"{START}a {TOOL}{START}"
        ids = ours.encode_with_special_tokens(mixed, [(len(mixed) - len(START), len(mixed))])
        assert ids.count(380) == 1 and ids.count(360) == 1 and max(ids) == 380


def test_a_vocabulary_with_gaps_is_read(tmp_path):
    vocabulary = small_gpt2(tmp_path)
    spread = {token: i + 50 * (i > 200) for token, i in vocabulary.items()}
    put(tmp_path, vocab=spread, added_tokens={START: 500})
    ours, usual = read_tokenizer(tmp_path), "the old baker sees \u65e5"
    reference = transformers.GPT2Tokenizer.from_pretrained(tmp_path)
    assert ours.encode(usual) == reference(usual).input_ids
    assert ours.decode(ours.encode(usual)) == usual
    assert ours.encode(START) == [500] and ours.size == 501
    assert ours.token_strings([220, 400]) == ["<unused 220>", "<unused 400>"]
    assert ours.decode([220, 500, 499]) == START


def test_a_token_without_an_embedding_is_ignored_with_a_warning(tmp_path):
    small_gpt2(tmp_path)
    put(tmp_path, config={"vocab_size": 281}, added_tokens={START: 280, STOP: 281})
    put(tmp_path, special_tokens_map={"pad_token": "[PAD]"})
    with pytest.warns(HeadwayWarning) as caught:
        ours = read_tokenizer(tmp_path)
    assert ours.encode(START) == [280] and ours.size == 281
    stop, pad = (str(warning.message) for warning in caught)
    assert "added_tokens.json" in stop and "its id is 281" in stop and "281 tokens" in stop
    assert "special_tokens_map.json: pad_token: '[PAD]' is ignored: its id is 282" in pad


def test_tokens_of_the_older_file_that_the_newer_one_lacks_are_named(tmp_path):
    small_gpt2(tmp_path)
    put(tmp_path, tokenizer_config={"added_tokens_decoder": {"280": flags(START)}})
    put(tmp_path, added_tokens={START: 280, TOOL: 281})
    with pytest.warns(HeadwayWarning, match=r"added_tokens.json: 1 tokens, such as '<tool>'"):
        assert read_tokenizer(tmp_path).encode(START) == [280]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"added_tokens": {START: "x"}}, "the id of a token must be a whole number"),
        ({"added_tokens": {START: -1}}, "from 0 to 16,777,216, found -1"),
        ({"added_tokens": {START: 2**40}}, "from 0 to 16,777,216"),
        ({"added_tokens": [START]}, "must be a JSON object"),
        ({"added_tokens": {START: 5}}, "has the id 5, but in the vocabulary '%' has this id"),
        ({"added_tokens": {"the": 300}}, "'the' has the id 300, but in the vocabulary its id is"),
        (
            {"added_tokens": {START: 300, STOP: 300}},
            "300, but in the vocabulary '<.start.>' has this id",
        ),
        ({"added_tokens": {"": 300}}, "must be the text of a token"),
        ({"tokenizer_config": {"added_tokens_decoder": [1]}}, "must be an object of ids"),
        ({"tokenizer_config": {"added_tokens_decoder": {"a": flags(START)}}}, "found a"),
        ({"tokenizer_config": {"added_tokens_decoder": {"300": {}}}}, "must be the text of a"),
        ({"tokenizer_config": {"added_tokens_decoder": {"300": 7}}}, "must be the text of a"),
        (
            {"tokenizer_config": {"added_tokens_decoder": {"300": flags(START, lstrip=1)}}},
            r"added_tokens_decoder\[300\]: lstrip must be true or false, found 1",
        ),
        ({"tokenizer_config": {"additional_special_tokens": "x"}}, "must be a list of tokens"),
        ({"tokenizer_config": {"extra_special_tokens": [3]}}, "must be the text of a token"),
    ],
)
def test_damaged_added_tokens_are_refused_with_their_file(files, message, tmp_path):
    small_gpt2(tmp_path)
    with pytest.raises(DataError, match=message) as refused:
        read_tokenizer(put(tmp_path, **files))
    assert str(tmp_path) in str(refused.value.where)


def test_an_id_far_above_those_of_the_vocabulary_is_refused(tmp_path):
    write_json("always")(tmp_path)
    put(tmp_path, config={}, added_tokens={START: 200_000})
    put(tmp_path, tokenizer_config={"bos_token": "<s>"})
    with pytest.raises(DataError, match="ids below it have no token"):
        read_tokenizer(tmp_path)


def test_a_file_in_json_has_the_flags_of_the_settings(tmp_path):
    engine = engine_of("byte-level")
    engine.add_tokens([tokenizers.AddedToken(TOOL, normalized=False)])
    engine.save(str(tmp_path / "tokenizer.json"))
    number = str(engine.token_to_id(TOOL))
    decoder = {number: flags(TOOL, lstrip=True)}
    put(tmp_path, tokenizer_config={"added_tokens_decoder": decoder, "eos_token": "</s>"})
    ours = read_tokenizer(tmp_path)
    reference = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    expected = reference(f"a  {TOOL} b", add_special_tokens=False).input_ids
    assert ours.encode(f"a  {TOOL} b") == expected
    assert json.loads(ours._engine.to_str())["added_tokens"][-1]["lstrip"]
