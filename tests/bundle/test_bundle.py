"""A bundle on disk is loaded as it was saved; damaged bundles are refused."""

import json

import pytest
import torch

import headway
from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.tensors import read_tensors, write_tensors
from headway.text import TokenizerPair
from headway.transforms import lora, merge_lora
from tests.fixtures.manifests import flip_one_bit
from tests.fixtures.translators import SENTENCES, make

TEXTS = ["two dogs", "", "the lemon eats the old red fox in the garden", "bread", "   "]


@pytest.mark.parametrize("joint", [True, False])
def test_a_bundle_is_loaded_as_saved(tmp_path, joint):
    bundle = make(joint)
    bundle.save(tmp_path / "m")
    reloaded = headway.load(tmp_path / "m")
    assert reloaded.config == bundle.config
    assert reloaded.translate(TEXTS) == bundle.translate(TEXTS)
    for a, b in zip(bundle.model.parameters(), reloaded.model.parameters(), strict=True):
        assert torch.equal(a, b)
    if joint:
        assert reloaded.model.output.weight is reloaded.model.source_embedding.tokens.weight
        assert "output.weight" not in read_tensors(tmp_path / "m" / "model.safetensors")


def test_a_bundle_shows_its_kind_its_size_and_its_device():
    bundle = make()
    count = sum(p.numel() for p in bundle.model.parameters())
    assert repr(bundle) == f"<TranslatorBundle: translator, {count:,} parameters, on cpu>"


def test_saving_twice_writes_the_same_bytes(tmp_path):
    bundle = make()
    bundle.save(tmp_path / "a")
    headway.load(tmp_path / "a").save(tmp_path / "b")
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_loading_then_saving_over_the_same_folder_keeps_the_weights(tmp_path):
    make().save(tmp_path / "m")
    before = (tmp_path / "m" / "model.safetensors").read_bytes()
    loaded = headway.load(tmp_path / "m")
    loaded.save(tmp_path / "m", overwrite=True)
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == before


def test_a_folder_that_is_not_empty_is_not_changed(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        make().save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_model_with_adapters_is_saved_only_merged(tmp_path):
    bundle = make()
    lora(bundle.model, 2)
    with pytest.raises(UsageError, match="has LoRA adapters") as caught:
        bundle.save(tmp_path / "m")
    assert "merge_lora" in caught.value.hint and not (tmp_path / "m").exists()
    bundle.model = merge_lora(bundle.model)
    bundle.save(tmp_path / "m")
    assert headway.load(tmp_path / "m").translate(TEXTS) == bundle.translate(TEXTS)


def test_order_is_kept_and_empty_texts_stay_empty():
    bundle = make()
    outputs = bundle.search(TEXTS, beam=3, num_best=2)
    assert [best[0].text for best in outputs] == bundle.translate(TEXTS, beam=3)
    assert [bool(best[0].tokens) or t.strip() == "" for best, t in zip(outputs, TEXTS, strict=True)]
    assert outputs[1][0].text == "" and outputs[4][0].text == ""
    for text, best in zip(TEXTS, outputs, strict=True):
        assert [t.tokens for t in bundle.search([text], beam=3, num_best=2)[0]] == [
            t.tokens for t in best
        ]
    assert bundle.translate([]) == []


def test_one_string_instead_of_a_list_is_refused():
    with pytest.raises(UsageError, match="list of texts"):
        make().translate("bread")


def test_texts_as_long_as_the_learned_positions_do_not_overrun_them():
    bundle = make(positions="learned", max_length=12)
    assert bundle.translate(["bread"])  # the output ends at the end of the table
    long = "the lemon eats the old red fox in the garden " * 3
    with pytest.raises(UsageError, match=r"text 2 has \d+ tokens.* positions for at most 11"):
        bundle.translate(["bread", long])
    for source, target in ((long, "brot"), ("bread", long)):
        with pytest.raises(UsageError, match="learned positions for at most 11"):
            bundle.attention(source, target)


def test_attention_names_both_axes_and_sums_to_one():
    bundle = make()
    attention = bundle.attention("two dogs play", "zwei hunde")
    assert set(attention.maps) == {
        "encoder.blocks.0.attention",
        "decoder.blocks.0.attention",
        "decoder.blocks.0.cross",
        "decoder.blocks.1.attention",
        "decoder.blocks.1.cross",
    }
    cross = attention.maps["decoder.blocks.1.cross"]
    assert cross.shape == (3, len(attention.target), len(attention.source))
    torch.testing.assert_close(cross.sum(-1), torch.ones(cross.shape[:2]))
    generated = bundle.attention("two dogs play")
    assert generated.target[:-1] == bundle.tokenizer.target.token_strings(
        bundle.search(["two dogs play"])[0][0].tokens
    )
    only = bundle.attention("two dogs play", "zwei", layers=["decoder.blocks.1.cross"])
    assert set(only.maps) == {"decoder.blocks.1.cross"}


def test_a_layer_that_is_called_once_a_step_gives_the_same_map(monkeypatch):
    bundle = make()
    cross = "decoder.blocks.1.cross"
    whole = bundle.attention("two dogs play", "zwei hunde", layers=[cross])

    def step_by_step(tokens, read, keys):
        state = bundle.model.start(tokens, keys)
        for position in range(read.shape[1]):
            _, state = bundle.model.step(read[:, position : position + 1], state)

    monkeypatch.setattr(bundle.model, "forward", step_by_step)
    stepped = bundle.attention("two dogs play", "zwei hunde", layers=[cross])
    assert stepped.target == whole.target and len(whole.target) > 2
    torch.testing.assert_close(stepped.maps[cross], whole.maps[cross])


def damage_bundle(folder, damage: str) -> None:
    """Damage a saved bundle in one way."""
    config = json.loads((folder / "config.json").read_text())
    weights = folder / "model.safetensors"
    tensors = read_tensors(weights)
    if damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "lacks a tensor":
        tensors.pop("encoder.norm.gain")
    elif damage == "one tensor more":
        tensors["extra"] = torch.zeros(2)
    elif damage == "another shape":
        tensors["encoder.norm.gain"] = torch.zeros(5)
    elif damage == "another tokenizer":
        TokenizerPair.train(lambda: iter(SENTENCES[:1]), 280, joint=True).save(folder)
    elif damage == "a vocabulary that does not fit":
        config["model"]["source_vocabulary"] = config["model"]["target_vocabulary"] = 400
    elif damage == "an unknown setting":
        config["model"]["num_headz"] = 3
    elif damage == "a wrong type":
        config["model"]["num_heads"] = "three"
    elif damage == "another family":
        config["family"] = "oracle"
    elif damage == "a list":
        config = [1, 2]
    if damage in {"lacks a tensor", "one tensor more", "another shape"}:
        write_tensors(weights, tensors)
    (folder / "config.json").write_text(json.dumps(config))
    if damage == "not json":
        (folder / "config.json").write_text("{")
    if damage == "runs code":
        weights.write_bytes(b"\x80\x04cos\nsystem\n(S'true'\ntR.")


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "changes",
    [
        {"encoder": "rnn", "decoder": "rnn", "attention": "none", "cell": "lstm"},
        {"encoder": "rnn", "decoder": "rnn", "attention": "additive", "input_feeding": True},
        {"encoder": "feed-forward", "attention": "bilinear", "positions": "relative"},
        {"attention": "linear-elu", "positions": "rotary"},
        {"attention": "window", "window": 2, "positions": "alibi"},
    ],
    ids=lambda changes: " ".join(map(str, changes.values())),
)
def test_every_kind_of_model_is_saved_and_loaded_whole(tmp_path, changes):
    bundle = make(**changes)
    with torch.no_grad():
        for parameter in bundle.model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    bundle.save(tmp_path / "m")
    reloaded = headway.load(tmp_path / "m")
    parameters = dict(bundle.model.named_parameters())
    for name, parameter in reloaded.model.named_parameters():
        assert torch.equal(parameter, parameters[name])
    assert reloaded.translate(TEXTS) == bundle.translate(TEXTS)


@pytest.mark.parametrize(
    "damage",
    [
        "truncated",
        "lacks a tensor",
        "one tensor more",
        "another shape",
        "another tokenizer",
        "a vocabulary that does not fit",
        "an unknown setting",
        "a wrong type",
        "another family",
        "a list",
        "not json",
        "runs code",
    ],
)
def test_a_damaged_bundle_is_refused_with_its_path(tmp_path, damage):
    make().save(tmp_path / "m")
    damage_bundle(tmp_path / "m", damage)
    with pytest.raises(HeadwayError) as caught:
        headway.load(tmp_path / "m", verify=False)
    assert isinstance(caught.value, DataError), damage
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_one_flipped_bit_in_any_file_is_refused_and_the_file_named(tmp_path, name):
    make().save(tmp_path / "m")
    flip_one_bit(tmp_path / "m" / name)
    with pytest.raises(DataError, match="differs from the manifest") as error:
        headway.load(tmp_path / "m")
    assert error.value.where == str(tmp_path / "m" / name)


def test_a_flipped_bit_of_a_weight_is_read_without_verification(tmp_path):
    make().save(tmp_path / "m")
    flip_one_bit(tmp_path / "m" / "model.safetensors")
    headway.load(tmp_path / "m", verify=False)
    (tmp_path / "m" / "MANIFEST.json").unlink()
    headway.load(tmp_path / "m")  # as is a model without hashes


def test_a_damaged_manifest_is_refused_too(tmp_path):
    make().save(tmp_path / "m")
    (tmp_path / "m" / "MANIFEST.json").write_bytes(b"{")
    with pytest.raises(DataError, match="not valid JSON"):
        headway.load(tmp_path / "m")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_not_finite_is_refused_and_named(tmp_path, number):
    bundle = make()
    with torch.no_grad():
        bundle.model.decoder.norm.gain[5] = number
    bundle.save(tmp_path / "m")
    with pytest.raises(DataError, match=r"1 of 24 values of decoder\.norm\.gain") as error:
        headway.load(tmp_path / "m")
    assert f"{number} at [5]" in error.value.what and error.value.where == str(tmp_path / "m")


def test_large_finite_weights_whose_sum_is_not_finite_are_loaded(tmp_path):
    bundle = make()
    with torch.no_grad():
        bundle.model.decoder.norm.gain.fill_(3e38)
    bundle.save(tmp_path / "m")
    headway.load(tmp_path / "m")


def test_a_folder_without_a_model_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"no config\.json"):
        headway.load(tmp_path)
