"""GGUF files are read: the same predictions and ids, or an error that names what is not known."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

import headway
from headway.base.errors import DataError, HeadwayError
from headway.exporting.llama_cpp import opened_gguf
from headway.interop import (
    ChatTemplate,
    FolderSettings,
    gguf,
    gguf_tokenizer,
    read_gguf,
    write_gguf,
)
from headway.interop.explanation import explain
from headway.interop.gguf_reader import read_gguf_tokenizer
from headway.models import parameter_count
from headway.tasks.opening import template_of
from tests.fixtures.gguf_models import FAMILIES, TEXT, bpe, characters, model, sentencepiece

pytest.importorskip("xllamacpp")
package = pytest.importorskip("gguf")


def written(folder, family="llama", train=characters, dtype="float32", **settings):
    """Return the model, its tokenizer and the path of its file."""
    tokenizer = train()
    made = model(tokenizer, **FAMILIES[family])
    write_gguf(made, tokenizer, folder, dtype, **settings)
    return made, tokenizer, folder / gguf.FILE


def changed(path, edit):
    """Write a copy of a file; `edit` gets its metadata and tensors as dictionaries."""
    reader = package.GGUFReader(path)
    metadata = {
        name: (field.contents(), field.types)
        for name, field in reader.fields.items()
        if not name.startswith("GGUF.")
    }
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    edit(metadata, tensors)
    target = path.with_name("changed.gguf")
    architecture = metadata.pop("general.architecture")[0]
    writer = package.GGUFWriter(target, architecture)
    for name, (value, types) in metadata.items():
        writer.add_key_value(name, value, types[0], types[-1] if len(types) > 1 else None)
    for name, data in tensors.items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


@pytest.mark.parametrize(
    ("family", "train"),
    [
        ("gpt2", bpe),
        ("llama", characters),
        ("qwen3", bpe),
        ("llama", sentencepiece),
        ("qwen2", bpe),
        ("gemma2", bpe),
        ("gemma3", characters),
        ("phi3", characters),
    ],
)
def test_what_was_exported_is_read_again(tmp_path, family, train):
    made, tokenizer, path = written(tmp_path / "out", family, train)
    bundle = headway.load(path, "cpu")
    ids = torch.arange(2, 22)[None]
    assert torch.allclose(bundle.model(ids), made(ids), atol=1e-5)
    for text in (TEXT, "  12 naïve\n", ""):
        assert bundle.tokenizer.encode(text) == tokenizer.encode(text)
        assert bundle.tokenizer.begin(text) == tokenizer.begin(text)
        ids_of_text = tokenizer.encode(text)
        assert bundle.tokenizer.decode(ids_of_text) == tokenizer.decode(ids_of_text)
    assert (bundle.tokenizer.bos, bundle.tokenizer.eos) == (tokenizer.bos, tokenizer.eos)


@pytest.mark.parametrize(("dtype", "most"), [("float16", 2e-3), ("int8", 0.02), ("int4", 0.3)])
def test_quantised_matrices_are_read_as_float32(tmp_path, dtype, most):
    made, _, path = written(tmp_path / "out", dtype=dtype)
    _, tensors, _, _ = read_gguf(path)
    differences = [
        float((tensors[name] - parameter).detach().abs().max() / parameter.detach().abs().max())
        for name, parameter in made.named_parameters()
    ]
    assert 0 < max(differences) < most
    assert all(tensor.dtype == torch.float32 for tensor in tensors.values())


def test_the_chat_template_is_in_the_file(tmp_path):
    template = ChatTemplate(by_name={"default": "{{ messages[0].content }}"})
    settings = FolderSettings(template=template)
    _, _, path = written(tmp_path / "out", train=bpe, settings=settings)
    assert template_of(path).by_name == template.by_name
    assert headway.load(path, "cpu").settings.template.by_name == template.by_name


def test_a_file_that_changed_is_read_anew(tmp_path):
    _, _, path = written(tmp_path / "out")
    _, before, _, _ = read_gguf(path)

    def negative(metadata, tensors):
        tensors["output.weight"] = -tensors["output.weight"]

    changed(path, negative).replace(path)
    _, after, _, _ = read_gguf(path)
    assert torch.equal(after["output.weight"], -before["output.weight"])


def set_key(name, value, kind):
    return lambda metadata, tensors: metadata.update({name: (value, [kind])})


def drop_key(name):
    return lambda metadata, tensors: metadata.pop(name)


UNKNOWN = {
    "another architecture": (
        set_key("general.architecture", "mamba", package.GGUFValueType.STRING),
        "'mamba' is not supported",
    ),
    "scaled positions": (
        set_key("llama.rope.scaling.factor", 4.0, package.GGUFValueType.FLOAT32),
        r"rope.scaling.factor=4.0 is not supported",
    ),
    "experts": (
        set_key("llama.expert_count", 8, package.GGUFValueType.UINT32),
        "expert_count=8 is not supported",
    ),
    "no number of heads": (drop_key("llama.attention.head_count"), "lacks llama.attention"),
    "another width": (
        set_key("llama.embedding_length", 65, package.GGUFValueType.UINT32),
        "model_dim|shape",
    ),
    "a billion layers": (
        set_key("llama.block_count", 2**31, package.GGUFValueType.UINT32),
        "block_count",
    ),
    "a missing tensor": (
        lambda metadata, tensors: tensors.pop("blk.1.ffn_up.weight"),
        "lacks layers.1.mlp.up_proj.weight",
    ),
    "a tensor of another family": (
        lambda metadata, tensors: tensors.update({"blk.0.ssm_a": tensors["output_norm.weight"]}),
        "the tensor blk.0.ssm_a is not supported",
    ),
    "an end that is no token": (
        set_key("tokenizer.ggml.eos_token_id", 99_999, package.GGUFValueType.UINT32),
        "eos_token_id=99999",
    ),
    "another way to split": (
        set_key("tokenizer.ggml.pre", "none", package.GGUFValueType.STRING),
        "'none' is not supported",
    ),
    "a factor for too few pairs": (
        lambda metadata, tensors: tensors.update(
            {"rope_freqs.weight": np.ones(3, dtype=np.float32)}
        ),
        "each of 8 rotated pairs needs a factor",
    ),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return written(tmp_path_factory.mktemp("model") / "out", train=bpe)[2]


ODD = [
    TEXT,
    "  12 naïve\n",
    "x=12345+67; y² ³4\t\t7",
    "I'll WE'RE don't 'S",
    "a\r\n\n b... (c) ~|`^$",
]


@pytest.mark.turns(3)
@pytest.mark.parametrize("split", gguf_tokenizer._SPLITS)
def test_texts_are_split_as_by_llama_cpp(file, split):
    path = changed(file, set_key("tokenizer.ggml.pre", split, package.GGUFValueType.STRING))
    tokenizer = read_gguf_tokenizer(path)
    with opened_gguf(path) as opened:
        for text in ODD:
            assert tokenizer.encode(text) == opened.model.ids(text)


def test_frequencies_that_are_divided_are_those_of_llama_cpp(file):
    factors = np.linspace(1, 8, 8, dtype=np.float32)
    path = changed(file, lambda _, tensors: tensors.update({"rope_freqs.weight": factors}))
    made = headway.load(path, "cpu").model
    assert made.config.rotary_scaling.pair_factors == tuple(factors.tolist())
    plain, tokens = headway.load(file, "cpu").model, torch.arange(2, 26)[None]
    with opened_gguf(path) as opened, torch.inference_mode():
        theirs = opened.model(tokens)
        assert float((made(tokens).log_softmax(-1) - theirs).abs().max()) < 1e-4
        assert float((plain(tokens).log_softmax(-1) - theirs).abs().max()) > 1e-2


def test_a_file_is_explained_without_its_weights(file):
    found = explain(file)
    assert (found.usable, found.family, found.architecture) == (True, "llama", "LlamaForCausalLM")
    assert found.tokenizer == f"{headway.load(file, 'cpu').tokenizer.size:,} tokens"
    assert found.parameters == parameter_count(headway.load(file, "cpu").model)


@pytest.mark.parametrize("fault", UNKNOWN)
def test_what_is_not_known_is_refused_by_name(file, fault):
    edit, message = UNKNOWN[fault]
    with pytest.raises(DataError, match=message):
        read_gguf(changed(file, edit))


def test_a_file_of_a_stranger_gives_an_error_of_headway_or_a_model(file, tmp_path):
    generator, whole = random.Random(0), file.read_bytes()
    end = whole.index(b"output_norm.weight")
    for turn in range(60):
        content = bytearray(whole)
        if turn % 3 == 0:
            content = content[: generator.randrange(len(content))]
        else:
            for _ in range(generator.choice((1, 4))):
                content[generator.randrange(end)] = generator.randrange(256)
        path = tmp_path / f"{turn}.gguf"
        path.write_bytes(content)
        try:
            headway.load(path, "cpu")
        except HeadwayError as error:
            assert str(path) in error.where


def test_a_wrong_order_of_rows_is_noticed_here(file, monkeypatch):
    right = headway.load(file, "cpu").model(torch.arange(2, 12)[None])
    monkeypatch.setitem(
        gguf.FAMILIES, "llama", replace(gguf.FAMILIES["llama"], restored=lambda n, t, c: t)
    )
    wrong = headway.load(file, "cpu").model(torch.arange(2, 12)[None])
    assert not torch.allclose(wrong, right, atol=1e-2)
