"""Every key of tokenizer_config.json and special_tokens_map.json is used, named, or refused."""

import inspect
import json
import re

import pytest

from headway.base.errors import DataError, HeadwayWarning
from headway.interop import ignored_keys, tokenizer_keys
from headway.interop.encoder_tokenizers import read_encoder_tokenizer
from headway.interop.language_model_tokenizers import read_tokenizer
from headway.interop.translator_tokenizers import read_translator_tokenizers
from tests.fixtures.encoder_decoders import marian
from tests.fixtures.encoder_tokenizers import (
    write_byte_level,
    write_json,
    write_sentencepiece,
    write_wordpiece,
)
from tests.fixtures.language_model_tokenizers import llama_like, put

transformers = pytest.importorskip("transformers")

CLASSES = (
    *("GPT2Tokenizer", "LlamaTokenizer", "OpenAIGPTTokenizer", "Qwen2Tokenizer", "BertTokenizer"),
    *("DistilBertTokenizer", "RobertaTokenizer", "BartTokenizer", "AlbertTokenizer"),
    *("MarianTokenizer", "T5Tokenizer", "MBartTokenizer", "MBart50Tokenizer", "M2M100Tokenizer"),
    *("NllbTokenizer", "XLMRobertaTokenizer", "PreTrainedTokenizerFast"),
)
NO_KEYS = {"self", "args", "kwargs", "_spm_precompiled_charsmap"}
COMMON = (transformers.PreTrainedTokenizerBase, transformers.PreTrainedTokenizerFast)
NEVER_WRITTEN = {
    *("token", "tokenizer", "tokenizer_object", "tokenizer_padding", "tokenizer_truncation"),
    *("post_processor", "use_source_tokenizer", "_json_padding", "_json_truncation"),
    *("model_specific_special_tokens", "_spm_precompiled_charsmap"),
}


@pytest.mark.parametrize("name", CLASSES)
def test_every_argument_of_a_tokenizer_is_used_or_has_a_reason(name):
    arguments = set(inspect.signature(getattr(transformers, name).__init__).parameters)
    assert arguments - NO_KEYS <= tokenizer_keys.KEYS


@pytest.mark.parametrize("base", COMMON, ids=lambda base: base.__name__)
def test_every_key_that_a_class_of_transformers_takes_is_used_or_has_a_reason(base):
    source = inspect.getsource(inspect.getmodule(base))
    keys = set(re.findall(r"""kwargs\.(?:pop|get)\(["'](\w+)["']""", source))
    assert {"padding_side", "split_special_tokens"} & keys or "added_tokens_decoder" in keys
    assert keys - NEVER_WRITTEN <= tokenizer_keys.KEYS


def test_every_ignored_key_has_a_reason():
    for key, rule in ignored_keys.TOKENIZER.items():
        assert rule.reason, key


def language_model(folder):
    llama_like(folder)
    return lambda: read_tokenizer(folder)


def two_files(folder):
    write_byte_level(folder, tokenizer_class="GPT2Tokenizer", bos_token="<s>", eos_token="</s>")
    return lambda: read_tokenizer(folder)


def wordpiece(folder):
    write_wordpiece(folder)
    return lambda: read_encoder_tokenizer(folder)


def sentencepiece(folder):
    write_sentencepiece(folder)
    put(folder, tokenizer_config={"tokenizer_class": "AlbertTokenizer", "unk_token": "<unk>"})
    return lambda: read_encoder_tokenizer(folder)


def translator(folder):
    model, _ = marian(folder)
    return lambda: read_translator_tokenizers(folder, model.config.vocab_size)


KINDS = (language_model, two_files, wordpiece, sentencepiece, translator)


def changed(folder, file="tokenizer_config", **values):
    path = folder / f"{file}.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    put(folder, **{file: {**before, **values}})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", ["tokenizer_config", "special_tokens_map"])
def test_an_unknown_key_of_each_kind_is_named_with_its_value(kind, file, tmp_path):
    read = kind(tmp_path)
    changed(tmp_path, file, headway=3)
    with pytest.warns(HeadwayWarning) as caught:
        read()
    assert [str(warning.message) for warning in caught] == [
        f"{tmp_path / file}.json: headway=3 is ignored: Headway does not know this key"
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_keys_that_change_nothing_are_read_in_silence(kind, tmp_path):
    read = kind(tmp_path)
    changed(
        tmp_path,
        model_max_length=int(1e30),
        padding_side="left",
        truncation_side="left",
        name_or_path="here",
        clean_up_tokenization_spaces=False,
        errors="replace",
        sp_model_kwargs={},
        legacy=True,
        split_special_tokens=False,
        do_lower_case=None,
        image_token="<s>" if kind in (language_model, two_files) else None,
    )
    read()


@pytest.mark.parametrize(
    ("kind", "values", "is_named"),
    [
        (language_model, {"clean_up_tokenization_spaces": True}, False),
        (wordpiece, {"clean_up_tokenization_spaces": True}, False),
        (sentencepiece, {"clean_up_tokenization_spaces": True}, True),
        (translator, {"clean_up_tokenization_spaces": True}, True),
        (language_model, {"auto_map": {"AutoTokenizer": ["code.Own", None]}}, True),
        (language_model, {"add_eos_token": True}, False),
        (two_files, {"add_eos_token": True}, True),
        (two_files, {"add_eos_token": False}, False),
        (two_files, {"add_bos_token": True}, False),
        (two_files, {"add_prefix_space": True}, False),
        (language_model, {"add_prefix_space": True}, False),
        (language_model, {"add_prefix_space": False}, True),
        (
            language_model,
            {"add_prefix_space": False, "tokenizer_class": "PreTrainedTokenizerFast"},
            False,
        ),
        (wordpiece, {"do_lower_case": False}, False),
        (wordpiece, {"tokenize_chinese_chars": False}, False),
        (sentencepiece, {"keep_accents": False}, False),
        (sentencepiece, {"keep_accents": True}, True),
        (sentencepiece, {"do_lower_case": True}, True),
        (translator, {"sp_model_kwargs": {"enable_sampling": True}}, True),
        (translator, {"do_lower_case": True}, True),
        (language_model, {"errors": "ignore"}, True),
    ],
)
def test_a_key_is_named_if_it_changes_texts_in_transformers_alone(kind, values, is_named, tmp_path):
    read = kind(tmp_path)
    changed(tmp_path, **values)
    if not is_named:
        read()
        return
    key, value = next(iter(values.items()))
    with pytest.warns(HeadwayWarning, match=re.escape(f"{key}={value!r} is ignored: ")):
        read()


def test_a_translator_with_two_vocabularies_is_refused(tmp_path):
    read = translator(tmp_path)
    changed(tmp_path, separate_vocabs=True)
    with pytest.raises(DataError, match=r"separate_vocabs=True.*one vocabulary for both"):
        read()


@pytest.mark.parametrize("name", ["GPT2TokenizerFast", "PreTrainedTokenizerFast"])
@pytest.mark.parametrize("space", [True, False])
def test_a_space_before_a_text_is_added_as_in_transformers(name, space, tmp_path):
    write_byte_level(tmp_path, tokenizer_class="GPT2Tokenizer", bos_token="<s>", eos_token="</s>")
    transformers.GPT2Tokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path)
    for file in ("vocab.json", "merges.txt"):
        (tmp_path / file).unlink()
    write_json(
        tmp_path,
        config={"model_type": "gpt2"},
        tokenizer_config={
            "tokenizer_class": name,
            "add_prefix_space": space,
            "bos_token": "<s>",
            "eos_token": "</s>",
        },
    )
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = read_tokenizer(tmp_path)
    for text in ("the mill", " the mill", ""):
        assert ours.encode(text) == theirs(text, add_special_tokens=False).input_ids
