"""Folders of sentence-transformers: the pooling and the maximum length of a text."""

import json
import shutil

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from headway import load
from headway.base.errors import DataError, HeadwayWarning, UsageError
from headway.blocks import Dense
from headway.bundle import EncoderBundle
from headway.cli.embed import EmbedFlags, embed
from headway.data.padding import collate_encoder_batch
from headway.interop import read_sentence_folder, write_text_model
from headway.tasks.masked_language_modeling.model import to_hugging_face
from headway.tasks.sentence_embedding.task import text_vectors
from tests.fixtures.command_line import headway
from tests.fixtures.small_encoder import TEXTS, encoder

MODULES = ["Transformer", "Pooling", "Normalize"]


def write(folder, value, name="modules.json"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(value))


def listed(kinds, paths=("", "1_Pooling", "2_Normalize")):
    name = "sentence_transformers.models."
    return [{"type": name + k, "path": p} for k, p in zip(kinds, paths, strict=False)]


@pytest.fixture
def folder(tmp_path):
    """Write a folder of transformers with the two additional files of sentence-transformers."""
    bundle = encoder()
    write_text_model(bundle.model, bundle.tokenizer, tmp_path / "there")
    write(tmp_path / "there", listed(MODULES))
    write(tmp_path / "there" / "1_Pooling", {"pooling_mode_cls_token": True}, "config.json")
    return tmp_path / "there"


def test_the_vector_of_a_text_is_that_of_its_first_token_if_the_folder_sets_so(folder, tmp_path):
    bundle = load(folder)
    assert bundle.pooling == "first" and bundle.length == 19
    reader = bundle.tokenizer
    for text, vector in zip(TEXTS, bundle.embed(TEXTS), strict=True):
        ids, _ = reader.special_tokens.frame(reader.encode(text), room=19)
        hidden = bundle.model.encode(torch.tensor([ids]))
        torch.testing.assert_close(vector, F.normalize(hidden[0, 0], dim=-1), rtol=0, atol=1e-5)
    mean = bundle.embed(TEXTS, pooling="mean")
    (folder / "modules.json").unlink()
    assert torch.equal(load(folder).embed(TEXTS), mean)
    assert (mean - bundle.embed(TEXTS)).abs().max() > 0.1
    # and the saved bundle keeps it
    bundle.save(tmp_path / "ours")
    assert torch.equal(load(tmp_path / "ours").embed(TEXTS), bundle.embed(TEXTS))


def test_a_text_is_truncated_at_the_length_of_the_folder(folder, tmp_path):
    write(folder, {"max_seq_length": 7, "do_lower_case": False}, "sentence_bert_config.json")
    bundle = load(folder)
    assert bundle.length == 7
    ids = bundle.tokenizer.encode(TEXTS[1])
    hidden = bundle.model.encode(
        torch.tensor([bundle.tokenizer.special_tokens.frame(ids, room=7)[0]])
    )
    expected = F.normalize(hidden[0, 0], dim=-1)
    torch.testing.assert_close(bundle.embed(TEXTS)[1], expected, rtol=0, atol=1e-5)
    bundle.save(tmp_path / "ours")
    assert load(tmp_path / "ours").length == 7
    write(folder, {"max_seq_length": 512}, "sentence_bert_config.json")
    assert load(folder).length == 19  # at most the maximum length of the model
    write(folder, {"max_seq_length": None}, "sentence_bert_config.json")
    assert load(folder).length == 19
    write(folder, {"max_seq_length": 2}, "sentence_bert_config.json")
    with pytest.raises(DataError, match="max_seq_length"):
        load(folder)


def test_the_encoder_may_be_in_a_subfolder(folder, tmp_path):
    vectors = load(folder).embed(TEXTS)
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole / "0_Transformer")
    for name in ("modules.json", "1_Pooling"):
        shutil.move(whole / "0_Transformer" / name, whole / name)
    write(whole, listed(MODULES, ("0_Transformer", "1_Pooling", "2_Normalize")))
    assert torch.equal(load(whole).embed(TEXTS), vectors)
    assert torch.equal(load(whole / "0_Transformer").embed(TEXTS), vectors)


TANH, IDENTITY = "torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity"
LAYERS = {
    "LaBSE": [(24, 24, TANH, True)],
    "EmbeddingGemma": [(24, 40, IDENTITY, False), (40, 12, IDENTITY, False)],
}
"""Layers after pooling: width before and after, activation, whether there is a bias."""


def write_dense(folder, name):
    """Add layers after pooling with random weights; return them as functions of vectors."""
    kinds = ["Transformer", "Pooling", *("Dense" for _ in LAYERS[name]), "Normalize"]
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds[1:], start=1))]
    write(folder, listed(kinds, paths))
    layers = []
    for path, (before, after, activation, has_bias) in zip(paths[2:], LAYERS[name], strict=False):
        linear = torch.nn.Linear(before, after, bias=has_bias)
        values = {"in_features": before, "out_features": after, "bias": has_bias}
        write(folder / path, {**values, "activation_function": activation}, "config.json")
        tensors = {f"linear.{key}": value for key, value in linear.state_dict().items()}
        save_file(tensors, folder / path / "model.safetensors")
        layers += [linear, torch.nn.Tanh()] if activation == TANH else [linear]
    return torch.nn.Sequential(*layers)


@pytest.mark.parametrize("name", LAYERS)
@torch.no_grad()
def test_layers_after_pooling_change_the_vector_of_a_text(name, folder, tmp_path):
    pooled = load(folder).embed(TEXTS, normalise=False)
    (folder / "MANIFEST.json").unlink(missing_ok=True)
    layers = write_dense(folder, name)
    bundle = load(folder)
    expected = F.normalize(layers(pooled), dim=-1)
    assert bundle.vector_dim == LAYERS[name][-1][1]
    torch.testing.assert_close(bundle.embed(TEXTS), expected, rtol=0, atol=1e-5)
    bundle.save(tmp_path / "ours")
    assert torch.equal(load(tmp_path / "ours").embed(TEXTS), bundle.embed(TEXTS))
    exported = tmp_path / "exported"
    to_hugging_face(bundle, exported, None)
    assert torch.equal(load(exported).embed(TEXTS), bundle.embed(TEXTS))


@torch.no_grad()
def test_more_than_ten_layers_after_pooling_keep_their_order(folder, tmp_path):
    layers = [Dense(24, 24, "tanh", bias=True) for _ in range(12)]
    for layer in layers:
        torch.nn.init.normal_(layer.project.weight, std=0.3)
    bundle = load(folder)
    made = EncoderBundle(bundle.model, bundle.tokenizer, "mean", dense=layers)
    made.save(tmp_path / "ours")
    assert torch.equal(load(tmp_path / "ours").embed(TEXTS), made.embed(TEXTS))


def test_layers_after_pooling_that_do_not_fit_are_refused(folder):
    (folder / "MANIFEST.json").unlink(missing_ok=True)
    write_dense(folder, "LaBSE")
    path = folder / "2_Dense"
    config = json.loads((path / "config.json").read_text())
    for change, message in (
        ({"in_features": 17}, "in_features=17"),
        ({"activation_function": "torch.nn.ReLU"}, "activation_function='torch.nn.ReLU'"),
        ({"module_output_name": "scores"}, "module_output_name='scores'"),
    ):
        write(path, {**config, **change}, "config.json")
        with pytest.raises(DataError, match=message):
            load(folder)
    save_file({"linear.weight": torch.zeros(5)}, path / "model.safetensors")
    write(path, config, "config.json")
    with pytest.raises(DataError, match=r"linear\.weight must be a matrix"):
        load(folder)
    write(path, {**config, "in_features": 5, "out_features": 5}, "config.json")
    weights = {"linear.weight": torch.zeros(5, 5), "linear.bias": torch.zeros(5)}
    save_file(weights, path / "model.safetensors")
    with pytest.raises(DataError, match="takes vectors of width 5, but gets vectors of width 24"):
        load(folder)
    (path / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"model.safetensors is missing"):
        load(folder)


@pytest.mark.parametrize(
    "pooling",
    [
        {"pooling_mode": "cls"},
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
    ],
)
def test_both_spellings_of_pooling_are_read(folder, pooling):
    write(folder / "1_Pooling", pooling, "config.json")
    assert read_sentence_folder(folder).pooling == "first"
    pooling_keys = {"pooling_mode": "mean", "pooling_mode_mean_tokens": True}
    for key, value in pooling_keys.items():
        write(folder / "1_Pooling", {key: value}, "config.json")
        assert read_sentence_folder(folder).pooling == "mean"


@pytest.mark.parametrize(
    ("modules", "pooling", "message"),
    [
        (listed(["Transformer", "Dense"]), {}, "'Dense'"),
        (listed(["Pooling", "Transformer"]), {}, "'Transformer'"),
        (listed(["Transformer"], ["../.."]), {}, "'../..'"),
        (listed(["Transformer"], [".."]), {}, "'..'"),
        (listed(["Transformer"], [7]), {}, "path 7"),
        (["Transformer"], {}, "list of modules"),
        ({"0": "Transformer"}, {}, "list of modules"),
        (listed(MODULES), {"pooling_mode_max_tokens": True}, "'max_tokens'"),
        (
            listed(MODULES),
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            "'cls+mean'",
        ),
        (listed(MODULES), {"pooling_mode": "weightedmean"}, "'weightedmean'"),
        (listed(MODULES), [], "JSON object"),
    ],
)
def test_unsupported_and_invalid_modules_are_refused(folder, modules, pooling, message):
    write(folder, modules)
    if pooling != {}:
        write(folder / "1_Pooling", pooling, "config.json")
    with pytest.raises(DataError, match="json") as error:
        load(folder)
    assert message in str(error.value)


def test_an_invalid_folder_of_headway_is_refused(tmp_path):
    encoder().save(tmp_path / "ours")
    path = tmp_path / "ours" / "config.json"
    config = json.loads(path.read_text())
    for key, value in (
        ("pooling", "max"),
        ("pooling", []),
        ("length", "7"),
        ("length", True),
        ("length", 2),
    ):
        path.write_text(json.dumps({**config, key: value}))
        with pytest.raises(DataError, match="pooling"):
            load(tmp_path / "ours", verify=False)
    del config["pooling"], config["length"]  # as in folders of earlier versions
    path.write_text(json.dumps(config))
    assert load(tmp_path / "ours", verify=False).pooling == "mean"
    with pytest.raises(UsageError, match="no model"):
        load(tmp_path)


@pytest.mark.parametrize(("pooling", "length"), [("first", 9), ("mean", 19)])
def test_an_exported_encoder_gives_the_same_vectors(tmp_path, pooling, length):
    plain = encoder()
    bundle = EncoderBundle(plain.model, plain.tokenizer, pooling, length)
    bundle.save(tmp_path / "ours")
    headway("export", "ours", "--to", "hf", "--output", "theirs", cwd=tmp_path)
    reloaded = load(tmp_path / "theirs")
    assert (reloaded.pooling, reloaded.length) == (pooling, length)
    torch.testing.assert_close(reloaded.embed(TEXTS), bundle.embed(TEXTS), rtol=0, atol=1e-5)
    # as sentence-transformers reads it (measured with 6.2.0: vectors equal to 2e-7)
    message = json.loads((tmp_path / "theirs" / "1_Pooling" / "config.json").read_text())
    assert message["pooling_mode_cls_token"] == (pooling == "first")
    assert message["pooling_mode_mean_tokens"] == (pooling == "mean")
    assert message["word_embedding_dimension"] == 24
    modules = json.loads((tmp_path / "theirs" / "modules.json").read_text())
    assert [module["type"].rpartition(".")[2] for module in modules] == MODULES
    length_file = tmp_path / "theirs" / "sentence_bert_config.json"
    assert json.loads(length_file.read_text())["max_seq_length"] == length


def test_training_uses_the_pooling_of_the_model(folder):
    bundle = load(folder)
    assert isinstance(bundle, EncoderBundle)
    reader = bundle.tokenizer
    ids = [reader.special_tokens.frame(reader.encode(text), room=19)[0] for text in TEXTS]
    batch = collate_encoder_batch(ids, None, reader.special_tokens.pad)
    with torch.inference_mode():
        vectors = text_vectors(bundle.model, batch, bundle.pooling)
    torch.testing.assert_close(vectors, bundle.embed(TEXTS), rtol=0, atol=1e-5)


def test_texts_are_lower_case_and_after_the_prompt_that_the_folder_names(folder, tmp_path):
    plain = load(folder)
    write(folder, {"do_lower_case": True, "max_seq_length": 19}, "sentence_bert_config.json")
    prompts = {"query": "The Old Baker: ", "passage": ""}
    config = {"prompts": prompts, "default_prompt_name": "query", "similarity_fn_name": "cosine"}
    write(folder, config, "config_sentence_transformers.json")
    bundle = load(folder)
    lowered = [f"the old baker: {text.lower()}" for text in TEXTS]
    expected = plain.embed(lowered)
    assert torch.equal(bundle.embed(TEXTS), expected)
    assert bundle.lengths(TEXTS) == plain.lengths(lowered)
    without = plain.embed([text.lower() for text in TEXTS])
    assert torch.equal(bundle.embed(TEXTS, prompt="passage"), without)
    with pytest.raises(UsageError, match="no prompt 'title'; its prompts are: query, passage"):
        bundle.embed(TEXTS, prompt="title")
    # saved and exported models keep it
    bundle.save(tmp_path / "ours")
    assert torch.equal(load(tmp_path / "ours").embed(TEXTS), expected)
    headway("export", "ours", "--to", "hf", "-o", "out", cwd=tmp_path)
    assert torch.equal(load(tmp_path / "out").embed(TEXTS), expected)


def test_a_mean_may_leave_out_the_prompt(folder):
    write(
        folder / "1_Pooling",
        {"pooling_mode_mean_tokens": True, "include_prompt": False},
        "config.json",
    )
    prompts = {"prompts": {"query": "the old baker"}, "default_prompt_name": "query"}
    write(folder, prompts, "config_sentence_transformers.json")
    bundle = load(folder)
    text = " paints"
    reader = bundle.tokenizer
    ids, _ = reader.special_tokens.frame(reader.encode(f"the old baker{text}"), room=19)
    skipped = 1 + len(reader.encode("the old baker"))
    hidden = bundle.model.encode(torch.tensor([ids]))[0, skipped:]
    expected = F.normalize(hidden.mean(0), dim=-1)
    torch.testing.assert_close(bundle.embed([text])[0], expected, rtol=0, atol=1e-5)


def test_vectors_are_cut_to_the_dimension_of_the_folder(folder):
    whole = load(folder).embed(TEXTS, normalise=False)
    write(folder, {"truncate_dim": 5}, "config_sentence_transformers.json")
    assert torch.equal(load(folder).embed(TEXTS), F.normalize(whole[:, :5], dim=-1))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("config_sentence_transformers.json", {"similarity_fn_name": "dot"}, "similarity_fn_name"),
        ("config_sentence_transformers.json", {"unheard_of": 1}, "unheard_of=1 is ignored"),
        ("sentence_bert_config.json", {"unheard_of": 1}, "unheard_of=1 is ignored"),
    ],
)
def test_keys_of_sentence_transformers_that_have_no_effect_are_named(name, values, message, folder):
    write(folder, values, name)
    with pytest.warns(HeadwayWarning, match=message):
        load(folder)


@pytest.mark.parametrize(
    "values",
    [
        {"prompts": ["query: "]},
        {"prompts": {"query": 3}},
        {"prompts": {}, "default_prompt_name": "query"},
        {"truncate_dim": 0},
        {"model_type": "SparseEncoder"},
    ],
)
def test_prompts_that_cannot_be_are_refused(values, folder):
    write(folder, values, "config_sentence_transformers.json")
    with pytest.raises(DataError, match=next(reversed(values))):
        load(folder)


@pytest.fixture
def prompted(folder):
    prompts = {"prompts": {"query": "The old baker: ", "passage": ""}}
    write(folder, prompts, "config_sentence_transformers.json")
    return folder


def vectors(lines):
    return torch.tensor([[float(x) for x in line.split("\t")[1:]] for line in lines[1:]])


def test_embed_puts_the_named_prompt_before_the_texts(prompted, tmp_path):
    bundle = load(prompted)
    for name in ("query", "passage"):
        printed = headway("embed", "there", *TEXTS[:2], "--prompt", name, cwd=tmp_path)
        expected = bundle.embed(TEXTS[:2], prompt=name)
        torch.testing.assert_close(
            vectors(printed.stdout.splitlines()), expected, rtol=0, atol=1e-6
        )


def test_embed_names_the_prompts_if_the_model_lacks_one(prompted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"--prompt title: .* its prompts are: query, passage"):
        embed("there", *TEXTS[:2], flags=EmbedFlags(prompt="title"))


def test_similar_searches_vectors_of_one_prompt_by_a_query_with_another(prompted, tmp_path):
    headway("embed", "there", *TEXTS, "--prompt", "query", "-o", "v.npz", cwd=tmp_path)
    bundle = load(prompted)
    cosines = bundle.embed(TEXTS, prompt="query") @ bundle.embed([TEXTS[0]], prompt="passage")[0]
    printed = headway("similar", "there", TEXTS[0], "v.npz", "--prompt", "passage", cwd=tmp_path)
    assert float(printed.stdout.split("\t")[0]) == pytest.approx(float(cosines.max()), abs=6e-4)
