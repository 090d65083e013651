"""Folders of sentence-transformers: the pooling and the maximum length of a text."""

import json
import shutil

import pytest
import torch
import torch.nn.functional as F

from headway import load
from headway.bundle import EncoderBundle
from headway.data.encoder_batches import collate_encoder_batch
from headway.errors import DataError, UsageError
from headway.interop import export, read_sentence_folder
from headway.training import text_vectors
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
    export(bundle.model, bundle.tokenizer, tmp_path / "there")
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
        (listed(MODULES), {"pooling_mode": "lasttoken"}, "'lasttoken'"),
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
