"""Tokenizers of encoder folders, compared with those of transformers."""

import json

import pytest
import tokenizers
import transformers
from tokenizers import processors

from headway.base.errors import DataError, UsageError
from headway.interop import read_encoder_tokenizer
from headway.text import EncoderTokenizer
from tests.fixtures.encoder_tokenizers import (
    ODD,
    check_agreement,
    wordpiece_vocabulary,
    write_byte_level,
    write_json,
    write_sentencepiece,
    write_wordpiece,
)

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"do_lower_case": False},
        {"do_lower_case": False, "strip_accents": True},
        {"do_lower_case": True, "strip_accents": False},
        {"tokenize_chinese_chars": False, "strip_accents": None},
    ],
)
@pytest.mark.parametrize("model", ["bert", "distilbert"])
def test_a_wordpiece_vocabulary_encodes_as_in_transformers(settings, model, tmp_path):
    write_wordpiece(tmp_path, settings.get("do_lower_case", True), **settings)
    write_json(tmp_path, config={"model_type": model})
    ours = read_encoder_tokenizer(tmp_path)
    check_agreement(ours, transformers.AutoTokenizer.from_pretrained(tmp_path))
    assert ours.special_tokens.between == 1
    assert ours.encode("the fox") != ours.encode("the dog")
    assert ours.decode(ours.encode("the old baker")) == "the old baker"
    assert ours.decode([ours.encode("fox")[0], 1, ours.special_tokens.end]) == ours.decode(
        ours.encode("fox")[:1]
    ), "the token for unknown words is not decoded as a word"


def test_a_vocabulary_may_have_windows_line_ends(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    unix, windows = (
        read_encoder_tokenizer(write_wordpiece(tmp_path / n, ends=e))
        for n, e in (("a", "\n"), ("b", "\r\n"))
    )
    assert unix.fingerprint == windows.fingerprint
    check_agreement(windows, transformers.AutoTokenizer.from_pretrained(tmp_path / "b"))


@pytest.mark.parametrize("space", [False, True])
def test_the_two_files_of_roberta_encode_as_in_transformers(space, tmp_path):
    write_byte_level(tmp_path, add_prefix_space=space)
    ours = read_encoder_tokenizer(tmp_path)
    check_agreement(ours, transformers.AutoTokenizer.from_pretrained(tmp_path))
    assert ours.special_tokens.between == 2 and ours.special_tokens.pad == 1
    assert ours.decode(ours.encode(" the old baker")).strip() == "the old baker"
    ids, spans = ours.encode_spans("the old fox")
    assert "".join("the old fox"[a:b] for a, b in spans) == "theoldfox" and len(ids) == len(spans)


@pytest.mark.parametrize(
    ("make", "between"), [(write_wordpiece, 1), (write_byte_level, 2), (write_sentencepiece, 1)]
)
def test_a_tokenizer_json_encodes_as_in_transformers(make, between, tmp_path):
    (tmp_path / "old").mkdir()
    reference = transformers.AutoTokenizer.from_pretrained(make(tmp_path / "old"))
    reference.save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new" / "vocab.txt").exists()
    ours = read_encoder_tokenizer(tmp_path / "new")
    check_agreement(ours, transformers.AutoTokenizer.from_pretrained(tmp_path / "new"))
    assert ours.special_tokens.between == between
    folder = tmp_path / "kept"
    folder.mkdir()
    ours.save(folder)
    reloaded = EncoderTokenizer.load(folder)
    assert (
        reloaded.fingerprint == ours.fingerprint and reloaded.special_tokens == ours.special_tokens
    )
    assert reloaded.encode_batch(ODD) == ours.encode_batch(ODD)


def test_the_setting_of_lower_case_has_priority_over_the_file(tmp_path):
    write_wordpiece(tmp_path, lower=False, do_lower_case=False)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    reference.save_pretrained(tmp_path / "new")
    path = tmp_path / "new" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "do_lower_case": True}))
    ours = read_encoder_tokenizer(tmp_path / "new")
    assert ours.encode("The FOX") == ours.encode("the fox")
    check_agreement(ours, transformers.AutoTokenizer.from_pretrained(tmp_path / "new"))


def test_special_tokens_with_other_names_are_identified_by_the_settings(tmp_path):
    tokens = ["<none>", "<what>", "<begin>", "<stop>", "<hole>", *wordpiece_vocabulary(True)[5:]]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n")
    names = {
        "unk_token": "<what>",
        "pad_token": {"content": "<none>"},
        "cls_token": "<begin>",
        "sep_token": "<stop>",
    }
    write_json(tmp_path, tokenizer_config=names, special_tokens_map={"mask_token": "<hole>"})
    special = read_encoder_tokenizer(tmp_path).special_tokens
    assert (special.pad, special.start, special.end, special.mask) == (0, 2, 3, 4)


def test_a_file_without_a_template_gets_the_special_tokens_of_its_class(tmp_path):
    write_byte_level(tmp_path)
    content = read_encoder_tokenizer(tmp_path).engine_json
    content["post_processor"] = None
    write_json(tmp_path, tokenizer=content)
    assert read_encoder_tokenizer(tmp_path).special_tokens.between == 2
    write_json(tmp_path, config={"model_type": "bert"})
    assert read_encoder_tokenizer(tmp_path).special_tokens.between == 1


def test_a_file_with_an_unsupported_template_of_special_tokens_is_refused(tmp_path):
    content = read_encoder_tokenizer(write_wordpiece(tmp_path)).engine_json
    engine = tokenizers.Tokenizer.from_str(json.dumps(content))
    engine.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", pair="$A [SEP] $B [SEP]", special_tokens=[("[SEP]", 3)]
    )
    engine.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(DataError, match="unsupported template of special tokens"):
        read_encoder_tokenizer(tmp_path)


def test_a_text_that_spells_a_special_token_is_not_encoded_as_one(tmp_path):
    ours = read_encoder_tokenizer(write_wordpiece(tmp_path))
    assert not set(ours.encode("a [MASK] and a [SEP]")) & {0, 2, 3, 4}


def test_a_sentencepiece_model_alone_is_refused_with_a_hint(tmp_path):
    (tmp_path / "spiece.model").write_bytes(b"\n\x0e")
    with pytest.raises(UsageError, match=r"spiece.model alone is not supported.*save_pretrained"):
        read_encoder_tokenizer(tmp_path).encode("a")


@pytest.mark.parametrize("name", [SPECIAL_TOKENS[0], *SPECIAL_TOKENS[1:]])
def test_a_missing_special_token_is_named(name, tmp_path):
    write_wordpiece(tmp_path)
    tokens = [token for token in wordpiece_vocabulary(True) if token != name]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n")
    kind = {"[CLS]": "cls", "[SEP]": "sep"}.get(name, name.strip("[]").lower())
    with pytest.raises(DataError, match=f"the tokenizer has no {kind}_token"):
        read_encoder_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tokenizer_config": {"mask_token": 7}}, "must be a token of the tokenizer"),
        ({"tokenizer_config": {"do_lower_case": "yes"}}, "do_lower_case='yes'"),
        ({"tokenizer_config": {"strip_accents": 1}}, "strip_accents=1"),
        ({"tokenizer_config": []}, "JSON object"),
        (
            {"added_tokens": {"<new>": 0}},
            "'<new>' has the id 0, but in the vocabulary '.PAD.' has this id",
        ),
        ({"tokenizer": {}}, "the tokenizer cannot be loaded"),
        ({"tokenizer": [1]}, "the tokenizer cannot be loaded"),
    ],
)
def test_invalid_tokenizer_files_are_refused(files, message, tmp_path):
    write_wordpiece(tmp_path)
    with pytest.raises(DataError, match=message):
        read_encoder_tokenizer(write_json(tmp_path, **files))


def test_a_folder_without_a_tokenizer_is_refused_with_the_accepted_files(tmp_path):
    absent = read_encoder_tokenizer(tmp_path)
    for use in (
        lambda: absent.encode("a"),
        lambda: absent.special_tokens,
        lambda: absent.save(tmp_path),
    ):
        with pytest.raises(UsageError, match=r"vocab\.txt, or vocab\.json and merges\.txt"):
            use()
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe\n")
    with pytest.raises(DataError, match="not UTF-8"):
        read_encoder_tokenizer(tmp_path)
    with (tmp_path / "vocab.txt").open("wb") as file:
        file.truncate(2**28 + 1)  # a sparse file: no data is written
    with pytest.raises(DataError, match="are allowed"):
        read_encoder_tokenizer(tmp_path)


def test_two_files_of_another_kind_are_refused(tmp_path):
    write_byte_level(tmp_path)
    with pytest.raises(DataError, match="differently than RoBERTa"):
        read_encoder_tokenizer(write_json(tmp_path, config={"model_type": "gpt2"}))
    write_json(tmp_path, config={"model_type": "roberta"})
    (tmp_path / "merges.txt").write_text("日 本\n")
    with pytest.raises(DataError, match="does not match"):
        read_encoder_tokenizer(tmp_path)
