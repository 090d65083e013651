"""Embedding models on decoders beside transformers: Qwen3-Embedding, EmbeddingGemma."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from headway import load
from headway.base.errors import DataError, UsageError
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.target import export
from headway.interop.explanation import explain
from headway.tasks.sentence_embedding.model import to_hugging_face
from tests.fixtures.command_line import headway
from tests.fixtures.model_server import running

transformers = pytest.importorskip("transformers")
TEXTS = ["The fox eats the lemon.", "a", "The old baker waves to the children at the fountain."]
SIZE = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "max_position_embeddings": 128,
}
QWEN_PROMPTS = {"query": "Instruct: Find passages\nQuery:", "document": ""}
GEMMA_PROMPTS = {"query": "task: search result | query: ", "document": "title: none | text: "}
WIDTHS = (24, 32, 12)
"""The width of a pooled vector of EmbeddingGemma, and those after its two layers."""


def tokenizer(before, after):
    """A byte-level BPE that adds special tokens before and after a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<bos>", "<eos>", "<pad>"])
    made.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        special_tokens=[(name, made.token_to_id(name)) for name in {*before, *after}],
    )
    return made


def write(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


def write_folder(path, model, made, pooling, prompts, dense=()):
    """Write a folder of sentence-transformers: of the model without a head, as published."""
    model.save_pretrained(path)
    made.save(str(path / "tokenizer.json"))
    write(path / "tokenizer_config.json", {"bos_token": "<bos>", "eos_token": "<eos>"})
    kinds = ["Transformer", "Pooling", *("Dense" for _ in dense), "Normalize"]
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds[1:], start=1))]
    package = "sentence_transformers.models."
    modules = zip(paths, kinds, strict=True)
    write(path / "modules.json", [{"path": p, "type": package + kind} for p, kind in modules])
    write(path / "1_Pooling" / "config.json", {f"pooling_mode_{pooling}": True})
    write(path / "config_sentence_transformers.json", {"prompts": prompts})
    for name, layer in zip(paths[2:], dense, strict=False):
        values = {"in_features": layer.in_features, "out_features": layer.out_features}
        identity = "torch.nn.modules.linear.Identity"
        values |= {"bias": False, "activation_function": identity}
        write(path / name / "config.json", values)
        save_file({"linear.weight": layer.weight.detach()}, path / name / "model.safetensors")


def random_model(kind, config):
    torch.manual_seed(4)
    model = kind(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    """The folder of a random Qwen3-Embedding, and its vectors by transformers and plain torch."""
    path = tmp_path_factory.mktemp("qwen")
    made = tokenizer([], ["<eos>"])
    config = transformers.Qwen3Config(
        **SIZE, num_hidden_layers=3, vocab_size=made.get_vocab_size(), tie_word_embeddings=False
    )
    model = random_model(transformers.Qwen3Model, config)
    write_folder(path, model, made, "lasttoken", QWEN_PROMPTS)

    def vectors(texts):
        ids = [torch.tensor([made.encode(text).ids]) for text in texts]
        last = [model(one).last_hidden_state[0, -1] for one in ids]
        return F.normalize(torch.stack(last), dim=-1)

    return path, vectors


@pytest.fixture(scope="module")
def gemma(tmp_path_factory):
    """The same for a random EmbeddingGemma, whose windows have 4 tokens to each side."""
    path = tmp_path_factory.mktemp("gemma")
    made = tokenizer(["<bos>"], ["<eos>"])
    config = transformers.Gemma3TextConfig(
        **SIZE,
        num_hidden_layers=6,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
        sliding_window=8,
        query_pre_attn_scalar=16,
        vocab_size=made.get_vocab_size(),
        use_bidirectional_attention=True,
    )
    model = random_model(transformers.Gemma3TextModel, config)
    dense = [torch.nn.Linear(*widths, bias=False) for widths in pairwise(WIDTHS)]
    write_folder(path, model, made, "mean_tokens", GEMMA_PROMPTS, dense)

    def vectors(texts):
        ids = [torch.tensor([made.encode(text).ids]) for text in texts]
        means = torch.stack([model(one).last_hidden_state[0].mean(0) for one in ids])
        return F.normalize(dense[1](dense[0](means)), dim=-1)

    return path, vectors


@pytest.fixture(params=["qwen", "gemma"])
def embedder(request):
    return request.getfixturevalue(request.param)


@torch.no_grad()
@pytest.mark.parametrize("fast", [True, False])
def test_vectors_and_prompts_equal_those_of_transformers(embedder, fast, tmp_path):
    path, expected = embedder
    bundle = load(path, fast=fast)
    torch.testing.assert_close(bundle.embed(TEXTS), expected(TEXTS), rtol=0, atol=1e-5)
    prompt = bundle.prompts["query"]
    asked = expected([prompt + text for text in TEXTS])
    torch.testing.assert_close(bundle.embed(TEXTS, prompt="query"), asked, rtol=0, atol=1e-5)
    bundle.save(tmp_path / "saved")
    again = load(tmp_path / "saved", fast=fast)
    assert torch.equal(again.embed(TEXTS, prompt="query"), bundle.embed(TEXTS, prompt="query"))


@torch.no_grad()
def test_a_written_folder_is_read_by_both(embedder, tmp_path):
    path, _ = embedder
    bundle = load(path)
    to_hugging_face(bundle, tmp_path / "written", None)
    again = load(tmp_path / "written")
    assert torch.equal(again.embed(TEXTS), bundle.embed(TEXTS))
    original = transformers.AutoModel.from_pretrained(path)
    written, report = transformers.AutoModel.from_pretrained(
        tmp_path / "written", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    ids = torch.arange(30)[None]
    assert torch.equal(written(ids).last_hidden_state, original(ids).last_hidden_state)


@pytest.mark.slow
def test_an_export_is_computed_by_transformers_before_it_is_kept(embedder, tmp_path):
    exported = export(load(embedder[0]), tmp_path / "exported", HUGGING_FACE)
    assert exported.difference[f"transformers {transformers.__version__}"] < 1e-5


def test_int8_is_near_float32(embedder):
    path, _ = embedder
    cosines = (load(path).embed(TEXTS) * load(path, dtype="int8").embed(TEXTS)).sum(-1)
    assert cosines.min() > 0.99


def test_a_long_text_is_truncated_before_its_last_special_token(qwen):
    path, expected = qwen
    bundle = load(path)
    long = TEXTS[2] * 3
    room = bundle.length - 1
    torch.testing.assert_close(
        bundle.embed([long]), expected([long[:room]]).detach(), rtol=0, atol=1e-5
    )
    assert bundle.lengths([long]) == [len(long) + 1]
    with pytest.raises(UsageError, match="at most 128"):
        bundle.reading(long)


@torch.no_grad()
def test_the_commands_and_the_server_take_it(embedder, tmp_path):
    path, expected = embedder
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS))
    output = tmp_path / "vectors.npz"
    headway("embed", str(path), str(texts), "--output", str(output), cwd=tmp_path)
    vectors = torch.from_numpy(np.load(output)["vectors"])
    torch.testing.assert_close(vectors, expected(TEXTS), rtol=0, atol=1e-5)
    words = ("similar", str(path), "the fox", str(texts), "--prompt", "query", "--json")
    best = headway(*words, cwd=tmp_path).stdout
    prompt = load(path).prompts["query"]
    cosines = (expected([f"{prompt}the fox"]) @ expected(TEXTS).T)[0]
    rows = [json.loads(line) for line in best.splitlines()]
    assert rows[0]["text"] == TEXTS[int(cosines.argmax())], rows
    headway("inspect", str(path), "the fox", "--html", "page.html", cwd=tmp_path)
    assert (tmp_path / "page.html").is_file()
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("first\tsecond\n" + "".join(f"{text}\t{text} Yes.\n" for text in TEXTS))
    assert "reciprocal_rank" in headway("eval", str(path), str(pairs), cwd=tmp_path).stdout
    headway("train", "embed", str(pairs), "--from", str(path), cwd=tmp_path, check=2)
    with running({"model": load(path)}) as client:
        reply = client.post("/v1/embeddings", {"input": TEXTS, "prompt_name": "query"})
        (routes,) = [model["routes"] for model in client.get("/v1/models").json["data"]]
    served = torch.tensor([item["embedding"] for item in reply.json["data"]])
    asked = expected([prompt + text for text in TEXTS])
    torch.testing.assert_close(served, asked, rtol=0, atol=1e-5)
    assert routes == ["/v1/embeddings", "/embed"]


def test_doctor_describes_the_folder(gemma):
    path, _ = gemma
    found = explain(path)
    assert found.family == "gemma3_text" and found.usable and not found.problems
    assert "attention in both directions" in found.settings


def test_without_a_tokenizer_the_folder_is_refused(qwen, tmp_path):
    for name in ("config.json", "model.safetensors", "modules.json"):
        (tmp_path / name).write_bytes((qwen[0] / name).read_bytes())
    write(tmp_path / "1_Pooling" / "config.json", {"pooling_mode_lasttoken": True})
    with pytest.raises(DataError, match="there is no tokenizer"):
        load(tmp_path)
