"""Tokenizers of Hugging Face folders, compared with those of transformers."""

import gzip

import pytest
import transformers

from headway.base.errors import DataError, HeadwayWarning, UsageError
from headway.interop import read_tokenizer
from headway.text import load_tokenizer
from tests.fixtures.encoder_tokenizers import a_thousand_texts
from tests.fixtures.language_model_tokenizers import ODD, llama_like, put, small_gpt2


def test_the_vocabulary_of_gpt2_encodes_as_in_transformers(real_data, tmp_path):
    for source_name, name in [
        ("gpt2.encoder.json", "vocab.json"),
        ("gpt2.vocab.bpe", "merges.txt"),
    ]:
        (tmp_path / name).write_bytes(
            gzip.decompress(real_data(f"vocab/{source_name}.gz").read_bytes())
        )
    ours = read_tokenizer(tmp_path)
    reference = transformers.GPT2Tokenizer.from_pretrained(tmp_path)
    assert (ours.size, ours.bos, ours.eos) == (50257, 50256, 50256)
    for text in ODD:
        expected = reference(text, split_special_tokens=True).input_ids
        assert ours.encode(text) == expected
        assert ours.begin(text) == (expected or [50256])
        assert ours.decode(expected) == text
    assert ours.encode_batch(ODD) == [ours.encode(text) for text in ODD]
    assert ours.encode("Hello world") == [15496, 995]
    assert ours.decode([15496, 50256, 995]) == "Hello world"


def test_a_llama_like_file_encodes_as_in_transformers(tmp_path):
    llama_like(tmp_path)
    ours = read_tokenizer(tmp_path)
    reference = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "tokenizer.json"), bos_token="<s>", eos_token="</s>"
    )
    assert (ours.bos, ours.eos) == (1, 2)
    for text in ODD:
        assert ours.begin(text) == reference(text, split_special_tokens=True).input_ids
        assert ours.encode(text) == ours.begin(text)[1:]
        expected = reference.decode(ours.begin(text), skip_special_tokens=True)
        assert ours.decode(ours.begin(text)) == expected == text


@pytest.mark.slow
def test_a_thousand_texts_have_the_tokens_of_transformers(tmp_path):
    for write in (llama_like, small_gpt2):
        (tmp_path / write.__name__).mkdir()
        write(tmp_path / write.__name__)
    llama = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "llama_like" / "tokenizer.json"),
        bos_token="<s>",
        eos_token="</s>",
    )
    gpt2 = transformers.GPT2Tokenizer.from_pretrained(tmp_path / "small_gpt2")
    ours = [read_tokenizer(tmp_path / name) for name in ("llama_like", "small_gpt2")]
    for text in a_thousand_texts():
        assert ours[0].begin(text) == llama(text, split_special_tokens=True).input_ids
        assert ours[1].encode(text) == gpt2(text, split_special_tokens=True).input_ids


def test_a_tokenizer_is_preserved_by_headways_file_format(tmp_path):
    llama_like(tmp_path)
    ours = read_tokenizer(tmp_path)
    (tmp_path / "kept").mkdir()
    ours.save(tmp_path / "kept")
    reloaded = load_tokenizer(tmp_path / "kept")
    assert reloaded.fingerprint == ours.fingerprint
    assert reloaded.encode_batch(ODD) == ours.encode_batch(ODD)


@pytest.mark.parametrize(
    ("files", "bos", "eos"),
    [
        ({"tokenizer_config": {"bos_token": "<s>", "eos_token": {"content": "</s>"}}}, 1, 2),
        ({"tokenizer_config": {"bos_token": None, "eos_token": "</s>"}}, 2, 2),
        ({"special_tokens_map": {"bos_token": {"content": "<s>"}}}, 1, 1),
        (
            {
                "tokenizer_config": {"bos_token": None, "eos_token": "</s>"},
                "special_tokens_map": {"eos_token": "<unk>"},
                "config": {"bos_token_id": 1, "eos_token_id": 2},
            },
            1,
            0,
        ),
        ({"config": {"bos_token_id": 1, "eos_token_id": [2, 0]}}, 1, 2),
        ({"config": {"eos_token_id": 7}, "generation_config": {"eos_token_id": 2}}, 2, 2),
    ],
)
def test_the_begin_and_end_tokens_are_read_from_the_files(files, bos, eos, tmp_path):
    llama_like(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    ours = read_tokenizer(put(tmp_path, **files))
    assert (ours.bos, ours.eos) == (bos, eos)
    assert ours.decode([*ours.encode("a dog"), eos]) == "a dog"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "no file specifies"),
        ({"config": {"eos_token_id": []}}, "no file specifies"),
        ({"config": {"eos_token_id": True}}, "eos_token_id=True"),
        ({"config": [1]}, "JSON object"),
        ({"tokenizer_config": {"eos_token": ["</s>"]}}, "must be a token of the tokenizer"),
        ({"tokenizer": {}}, "the tokenizer cannot be loaded"),
        ({"tokenizer": [1, 2]}, "the tokenizer cannot be loaded"),
        (
            {"tokenizer": {"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}},
            "tokenizer cannot be loaded",
        ),
    ],
)
def test_empty_and_invalid_files_are_refused(files, message, tmp_path):
    llama_like(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(DataError, match=message):
        read_tokenizer(put(tmp_path, **files))


@pytest.mark.parametrize(
    ("files", "ignored"),
    [
        ({"generation_config": {"eos_token_id": 9999}, "config": {"eos_token_id": 2}}, [9999]),
        ({"generation_config": {"eos_token_id": [-1, 2], "bos_token_id": 50256}}, [50256, -1]),
    ],
)
def test_ids_of_special_tokens_that_the_tokenizer_lacks_are_ignored(files, ignored, tmp_path):
    llama_like(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.warns(HeadwayWarning) as caught:
        ours = read_tokenizer(put(tmp_path, **files))
    assert (ours.bos, ours.eos) == (2, 2)
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == len(ignored)
    for text, number in zip(texts, ignored, strict=True):
        assert "generation_config.json: " in text and f"_id={number} is ignored" in text


def test_a_folder_whose_special_ids_are_all_ignored_is_refused(tmp_path):
    llama_like(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    put(tmp_path, config={"eos_token_id": 9999})
    with pytest.warns(HeadwayWarning), pytest.raises(DataError, match="no file specifies"):
        read_tokenizer(tmp_path)


def test_an_end_token_that_the_vocabulary_lacks_is_named(tmp_path):
    llama_like(tmp_path)
    put(tmp_path, tokenizer_config={"eos_token": "<nowhere>"})
    with (
        pytest.warns(HeadwayWarning, match="eos_token: '<nowhere>' is ignored: the vocabulary"),
        pytest.raises(DataError, match="must be a token of the tokenizer"),
    ):
        read_tokenizer(tmp_path)


def test_a_folder_without_a_tokenizer_is_refused_with_the_accepted_files(tmp_path):
    needed = r"add tokenizer\.json, or GPT-2's vocab\.json and merges"
    with pytest.raises(UsageError, match=needed):
        read_tokenizer(tmp_path).encode("a")
    small_gpt2(tmp_path)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(UsageError, match=needed):
        read_tokenizer(tmp_path).begin("a")


def test_files_that_are_too_large_are_refused(tmp_path):
    for name in ("tokenizer.json", "vocab.json", "merges.txt"):
        small_gpt2(tmp_path)
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**28 + 1)  # a sparse file: no data is written
        with pytest.raises(DataError, match="are allowed"):
            read_tokenizer(tmp_path)
        (tmp_path / name).unlink()


def test_a_setting_selects_the_token_before_a_text(tmp_path):
    vocabulary = small_gpt2(tmp_path)
    end = vocabulary["<|endoftext|>"]
    assert read_tokenizer(tmp_path).begin("a fox")[0] != end
    put(tmp_path, tokenizer_config={"add_bos_token": True, "tokenizer_class": "GPT2Tokenizer"})
    ours = read_tokenizer(tmp_path)
    assert ours.begin("a fox") == [end, *ours.encode("a fox")]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("t h e\n", "expected two tokens"),
        ("the\n", "expected two tokens"),
        ("日 本\n", "does not match"),
    ],
)
def test_broken_merges_are_refused(lines, message, tmp_path):
    small_gpt2(tmp_path)
    (tmp_path / "merges.txt").write_text(lines)
    with pytest.raises(DataError, match=message):
        read_tokenizer(tmp_path)
    (tmp_path / "merges.txt").write_bytes(b"\xff\xfe x\n")
    with pytest.raises(DataError, match="not UTF-8"):
        read_tokenizer(tmp_path)


def test_two_files_of_another_kind_are_refused(tmp_path):
    vocabulary = small_gpt2(tmp_path)
    for broken, message in [
        ({"a": 0}, "255 of the 256 bytes have no token"),
        ({**vocabulary, "x y": 7}, "each once; one is there twice"),
        ({**vocabulary, "x y": 2**40}, "each once; found 1099511627776"),
        ({**vocabulary, "x y": "1"}, "each once; found '1'"),
        ([], "JSON object of tokens and their ids"),
    ]:
        with pytest.raises(DataError, match=message):
            read_tokenizer(put(tmp_path, vocab=broken))
    put(tmp_path, vocab=vocabulary, config={"model_type": "openai-gpt"})
    with pytest.raises(DataError, match="may split text differently"):
        read_tokenizer(tmp_path)
