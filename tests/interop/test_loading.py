"""`headway.load` of Hugging Face language models, and their outputs."""

import json

import pytest
import torch
import transformers

import headway
from headway.base.errors import DataError, UsageError
from headway.bundle import TextBundle
from tests.fixtures.tokenizer_folders import folder_with


def test_a_folder_of_transformers_is_loaded_and_generates_the_same_text(tmp_path):
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
    reference = transformers.LlamaForCausalLM(config).eval()
    reference.save_pretrained(tmp_path)
    bundle = headway.load(tmp_path)
    assert isinstance(bundle, TextBundle)
    continuation = bundle.generate(["The monkey"], temperature=0, max_tokens=20)[0][0]
    prompt = bundle.tokenizer.begin("The monkey")

    expected = reference.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False)[0]
    written = expected[len(prompt) :].tolist()
    assert list(continuation.tokens) == [i for i in written if i != 1]


def test_the_real_model_is_loaded_from_a_file_and_generates_its_recorded_story(real_data, tmp_path):
    folder = "weights/stories260K"
    for name in ("stories260K.bin", "tok512.bin"):
        (tmp_path / name).write_bytes(real_data(f"{folder}/{name}").read_bytes())
    ids = json.loads(real_data(f"{folder}/golden.json").read_text())["greedy_ids_from_bos"]
    bundle = headway.load(tmp_path / "stories260K.bin")
    exported = bundle.generate([""], temperature=0, max_tokens=len(ids) - 1)[0][0]
    assert [1, *exported.tokens] == ids
    assert exported.text == bundle.tokenizer.decode(ids)
    assert bundle.tokenizer.begin(exported.text) == ids, "a text is read as it was written"
    odd = "naïve 日 \n🙂"
    assert bundle.tokenizer.decode(bundle.tokenizer.encode(odd)) == odd
    (tmp_path / "tok2.bin").write_bytes(b"")
    with pytest.raises(UsageError, match=r"exactly one tokenizer.* there are 2"):
        headway.load(tmp_path / "stories260K.bin")


def test_a_file_of_another_kind_is_no_model(tmp_path):
    (tmp_path / "run.yaml").write_text("recipe: gpt")
    with pytest.raises(UsageError, match=r"run.yaml holds no model: files of models end in .gguf"):
        headway.load(tmp_path / "run.yaml")


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["BertModel"], "hidden_size": 24, "num_hidden_layers": 2},
        {"vocab_size": 30, "n_embd": 12, "model_type": None},
    ],
)
def test_a_folder_without_model_type_is_refused_with_the_line_to_add(tmp_path, config):
    folder_with(tmp_path, config=config)
    with pytest.raises(DataError, match="looks like a Hugging Face folder") as caught:
        headway.load(tmp_path)
    assert "model_type is missing" in caught.value.what
    assert '"model_type": "bert"' in caught.value.hint and "dinov2" in caught.value.hint
    assert caught.value.where == str(tmp_path / "config.json")


@pytest.mark.parametrize("config", [{}, [], {"format": 99, "vocab_size": 3}, {"name": "x"}])
def test_other_folders_are_refused(tmp_path, config):
    folder_with(tmp_path, config=config)
    with pytest.raises(DataError, match="not a Headway model"):
        headway.load(tmp_path)
