"""Other people's tokenizers: found, read as transformers reads them, refused where damaged."""

import gzip
import json

import pytest
import tokenizers
import torch
import transformers

import headway
from headway.bundle import TextBundle
from headway.errors import DataError
from headway.interop import read_tokenizer
from headway.text import ForeignTokenizer, load_tokenizer

TEXTS = [
    "The monkey ate the banana because it was hungry.",
    "  two spaces\n\n\ttab, Grüße naïve 日本 🙂 \u200d",
    "it's 'quoted' <|endoftext|> </s>",
    "",
]


def engine(specials=("<s>", "</s>")):
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=list(specials),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS * 5, trainer)
    return made


def folder_with(place, **files):
    engine().save(str(place / "tokenizer.json"))
    for name, content in files.items():
        (place / f"{name}.json").write_text(json.dumps(content))
    return place


@pytest.mark.parametrize(
    ("files", "ends"),
    [
        ({"tokenizer_config": {"bos_token": "<s>", "eos_token": "</s>"}}, (0, 1)),
        ({"special_tokens_map": {"eos_token": {"content": "</s>"}}}, (1, 1)),
        ({"config": {"bos_token_id": 0, "eos_token_id": [1, 7]}}, (0, 1)),
        (
            {"tokenizer_config": {"bos_token": None}, "generation_config": {"eos_token_id": 1}},
            (1, 1),
        ),
        ({"tokenizer_config": {"eos_token": "</s>"}, "config": {"eos_token_id": 5}}, (1, 1)),
    ],
)
def test_the_ends_of_a_text_are_found_wherever_they_are_said(tmp_path, files, ends):
    found = read_tokenizer(folder_with(tmp_path, **files))
    assert (found.bos, found.eos) == ends


def test_ids_are_those_of_transformers(tmp_path):
    folder_with(tmp_path, tokenizer_config={"bos_token": "<s>", "eos_token": "</s>"})
    ours = read_tokenizer(tmp_path)
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )
        assert ours.decode(ours.encode(text)) == text
    assert ours.begin("") == [0]
    assert 1 not in ours.encode("a </s> b"), "text became a special token"


def test_gpt2s_two_files_are_read_as_transformers_reads_them(tmp_path, real_data):
    vocabulary = gzip.decompress(real_data("vocab/gpt2.encoder.json.gz").read_bytes())
    merges = gzip.decompress(real_data("vocab/gpt2.vocab.bpe.gz").read_bytes())
    (tmp_path / "vocab.json").write_bytes(vocabulary)
    (tmp_path / "merges.txt").write_bytes(merges)
    (tmp_path / "config.json").write_text('{"bos_token_id": 50256, "eos_token_id": 50256}')
    ours = read_tokenizer(tmp_path)
    theirs = transformers.GPT2Tokenizer.from_pretrained(tmp_path)
    assert ours.size == 50257
    for text in TEXTS:
        wanted = theirs.encode(text, add_special_tokens=False, split_special_tokens=True)
        assert ours.encode(text) == wanted
        assert ours.decode(wanted) == text
    assert ours.begin("") == [50256]
    assert ours.begin("a") == ours.encode("a")


def test_a_saved_foreign_tokenizer_loads_as_itself(tmp_path):
    folder_with(tmp_path, tokenizer_config={"eos_token": "</s>"})
    ours = read_tokenizer(tmp_path)
    (tmp_path / "saved").mkdir()
    ours.save(tmp_path / "saved")
    again = load_tokenizer(tmp_path / "saved")
    assert isinstance(again, ForeignTokenizer)
    assert again.fingerprint == ours.fingerprint
    assert [again.encode(t) for t in TEXTS] == [ours.encode(t) for t in TEXTS]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("tokenizer.json", "{}", "not a usable tokenizer"),
        ("tokenizer.json", "[1,", "JSON"),
        ("tokenizer_config.json", '{"eos_token": "<end>"}', "no token of the tokenizer"),
        ("tokenizer_config.json", "[]", "names and values"),
        ("tokenizer_config.json", "{}", "which token ends a text"),
        ("config.json", '{"eos_token_id": 99999}', "outside the vocabulary"),
    ],
)
def test_damaged_folders_are_refused(tmp_path, name, content, says):
    folder_with(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=says):
        read_tokenizer(tmp_path)


def test_a_folder_without_a_tokenizer_says_what_would_do(tmp_path):
    with pytest.raises(DataError, match=r"vocab\.json with merges\.txt"):
        read_tokenizer(tmp_path)


def test_a_folder_of_transformers_loads_and_writes_what_transformers_writes(tmp_path):
    folder_with(tmp_path, tokenizer_config={"bos_token": "<s>", "eos_token": "</s>"})
    config = transformers.LlamaConfig(
        vocab_size=300,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        bos_token_id=0,
        eos_token_id=1,
    )
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    bundle = headway.load(tmp_path)
    assert isinstance(bundle, TextBundle)
    found = bundle.generate(["The monkey"], temperature=0, max_tokens=20)[0][0]
    prompt = bundle.tokenizer.begin("The monkey")

    wanted = theirs.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False)[0]
    written = wanted[len(prompt) :].tolist()
    assert list(found.tokens) == [i for i in written if i != 1]
