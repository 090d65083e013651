"""Every key of every file of a Hugging Face folder is used, named in a warning, or refused."""

import json
import warnings

import pytest
import torch

import headway
from headway.base.errors import DataError, HeadwayWarning
from headway.interop import ignored_keys, preprocessor_config, wrappers
from headway.interop.decoders import FAMILIES as DECODERS
from headway.interop.hf_config import HFConfig, Ignored
from headway.interop.hf_folders import FAMILIES
from headway.models import GPT
from tests.fixtures.encoder_families import FAMILIES as ENCODERS
from tests.fixtures.hf_gpt import Bytes
from tests.fixtures.language_model_tokenizers import put

transformers = pytest.importorskip("transformers")

IMAGE_PROCESSORS = (
    "ViTImageProcessor",
    "BitImageProcessor",
    "CLIPImageProcessor",
    "SiglipImageProcessor",
)


CHANGES = {
    "deberta-v2": ENCODERS["deberta-v3"][2],
    "beit": {"use_relative_position_bias": True},
    "dinov3_vit": {"num_register_tokens": 4},
}
"""The keys of released models that differ from the defaults of their class, which are not read."""


def defaults_of(family):
    """Return the configuration of the class of a family."""
    changes = CHANGES.get(family, {})
    return json.loads(json.dumps(transformers.CONFIG_MAPPING[family](**changes).to_dict()))


def used_and_left(family):
    """Return the keys of the class of a family that Headway reads, and all others."""
    defaults = defaults_of(family)
    read, left = set(), set(defaults)
    for architecture in FAMILIES[family].architectures:
        config = HFConfig(defaults, "config.json")
        config.values.get("model_type"), config.values.get("architectures")
        architecture.config(config, ())
        read |= config.values.read
    return read & left, left - read


@pytest.mark.parametrize("family", [name for name in FAMILIES if "vision" not in name])
def test_every_key_of_a_family_is_used_or_has_a_reason(family):
    used, left = used_and_left(family)
    assert used
    for key in sorted(left):
        rule = ignored_keys.CONFIG.get(key)
        assert rule is not None and rule.reason, f"{key} of {family} is neither used nor listed"


@pytest.mark.parametrize("family", [name for name in FAMILIES if "vision" not in name])
def test_a_configuration_is_read_as_it_was_written(family):
    values = defaults_of(family)
    for architecture in FAMILIES[family].architectures:
        config = architecture.config(HFConfig(values, "theirs"), ())
        written = {**FAMILIES[family].to_hf_config(config), "model_type": family}
        assert architecture.config(HFConfig(written, "ours"), ()) == config


def test_every_key_of_generation_config_is_used_or_has_a_reason():
    keys = set(transformers.GenerationConfig().to_dict())
    assert keys <= {*ignored_keys.GENERATION, *ignored_keys.READ_GENERATION, *ignored_keys.ROLES}
    for key, rule in ignored_keys.GENERATION.items():
        assert rule.reason, key


@pytest.mark.parametrize("name", IMAGE_PROCESSORS)
def test_every_key_of_an_image_processor_is_used_or_has_a_reason(name, tmp_path):
    values = getattr(transformers, name)().to_dict()
    put(tmp_path, preprocessor_config=values)
    vit = headway.interop.hf_folders.ViTConfig(image_size=224)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        preprocessor_config.read_image_reader(tmp_path, vit, "vit")


@pytest.mark.parametrize(
    ("value", "neutral", "covered"),
    [
        (False, (False,), True),
        (0, (False,), False),
        ([], ([],), True),
        (3, None, True),
        (3, (), False),
    ],
)
def test_a_neutral_value_has_the_type_of_the_table(value, neutral, covered):
    assert Ignored("reason", neutral).covers(value) == covered


@pytest.fixture
def folder(tmp_path):
    tokenizer = Bytes()
    shape = {"hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(
        **shape,
        num_attention_heads=2,
        max_position_embeddings=48,
        vocab_size=tokenizer.size,
        bos_token_id=0,
        eos_token_id=1,
        attention_bias=True,
    )
    torch.manual_seed(2)
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    put(tmp_path, tokenizer_config={"bos_token": "<s>", "eos_token": "</s>"})
    return model, tmp_path


def changed(folder, **values):
    contents = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**contents, **values}))


def test_a_llama_with_biases_of_attention_alone_has_the_logits_of_transformers(folder):
    model, path = folder
    ids = torch.arange(2, 30)[None]
    ours = headway.load(path, fast=False).model(ids)
    torch.testing.assert_close(ours, model(ids).logits, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    "values", [{"auto_map": {"AutoModel": "code.Model"}}, {"rope_scale": 2.0}, {"headway": {}}]
)
def test_an_unknown_key_is_named_with_its_value(values, folder):
    changed(folder[1], **values)
    ((key, value),) = values.items()
    with pytest.warns(HeadwayWarning) as caught:
        headway.load(folder[1])
    assert [f"{key}={value!r} is ignored" in str(warning.message) for warning in caught] == [True]


@pytest.mark.parametrize(
    "values",
    [
        {"quantization_config": {"bits": 4}},
        {"final_logit_softcapping": 30.0},
        {"logits_scaling": 8.0},
        {"layer_types": ["full_attention", "sliding_attention"]},
    ],
)
def test_a_key_that_makes_another_model_is_refused(values, folder):
    changed(folder[1], **values)
    with pytest.raises(DataError, match=next(iter(values))):
        headway.load(folder[1])


@pytest.mark.parametrize("values", [{"logits_scaling": 1.0}, {"use_cache": False}, {"prefix": "x"}])
def test_a_value_that_changes_nothing_is_read_in_silence(values, folder):
    changed(folder[1], **values)
    headway.load(folder[1])


@pytest.mark.parametrize("family", [family.model_type for family in DECODERS])
def test_a_missing_key_of_a_decoder_means_what_it_means_in_transformers(family):
    ours = FAMILIES[family].architectures[0]
    theirs = json.loads(json.dumps(transformers.CONFIG_MAPPING[family]().to_dict()))
    short = ours.config(HFConfig({"model_type": family}, "short"), ())
    assert short == ours.config(HFConfig(theirs, "theirs"), ())


WRAPPED = {
    "model_type": "gemma3",
    "vision_config": {"hidden_size": 8},
    "tie_word_embeddings": True,
    "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 3},
}


def test_the_text_half_of_a_model_of_images_is_read_and_what_is_left_out_is_named():
    file = HFConfig(WRAPPED, "config.json")
    half = wrappers.text_half(file, FAMILIES)
    assert half.values["num_hidden_layers"] == 3 and half.where == "config.json (text_config)"
    names = ("language_model.model.norm.weight", "vision_tower.patch.weight")
    old = {name: torch.ones(2) for name in (*names, "language_model.lm_head.weight")}
    with pytest.warns(HeadwayWarning, match="'gemma3' reads more than text.*without vision_tower"):
        assert {*wrappers.text_tensors(file, old)} == {"model.norm.weight", "lm_head.weight"}
    new = {"model.language_model.norm.weight": torch.ones(2), "lm_head.weight": torch.ones(2)}
    with pytest.warns(HeadwayWarning, match="without the other parts"):
        assert {*wrappers.text_tensors(file, new)} == {"norm.weight", "lm_head.weight"}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"model_type": "qwen3_next"}, "a state instead of attention"),
        ({"model_type": "deepseek_v3"}, "latent attention"),
        ({"model_type": "longformer"}, "parts of long texts"),
        ({"model_type": "wav2vec2"}, "waves of sounds"),
        ({"model_type": "granitemoe"}, "mixture of experts"),
        ({"model_type": "gemma4", "text_config": {"model_type": "gemma4_text"}}, "share keys"),
        ({"model_type": "new", "text_config": {"model_type": "newer"}}, "its language model"),
    ],
)
def test_a_model_that_cannot_be_read_is_refused_with_the_reason(values, reason):
    with pytest.raises(DataError, match=reason):
        wrappers.text_half(HFConfig(values, "config.json"), FAMILIES)


ROTARY = {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0}


@pytest.mark.parametrize(
    "old",
    [
        {"rope_theta": 50.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_theta": 50.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"rope_parameters": {"full_attention": ROTARY, "sliding_attention": {}}},
    ],
)
def test_rotary_positions_of_old_files_are_those_of_new_ones(old):
    read = FAMILIES["llama"].architectures[0].config
    expected = read(HFConfig({"rope_parameters": ROTARY}, "new"), ())
    assert read(HFConfig(old, "old"), ()) == expected
    assert expected.rotary_scaling.factor == 2.0 and expected.rotary_base == 50.0


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, "rope_type='dynamic'"),
        ({"rope_type": "longrope", "short_factor": [1.0]}, "rotated pairs needs a factor"),
        ({"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4.0}, "below"),
        ({"rope_type": "linear", "factor": "2"}, "factor='2'"),
    ],
)
def test_rotary_positions_that_cannot_be_computed_are_refused(rope, message):
    file = HFConfig({"rope_parameters": rope}, "config.json")
    with pytest.raises((DataError, ValueError), match=message), torch.device("meta"):
        GPT(FAMILIES["llama"].architectures[0].config(file, ()))


def test_an_unknown_key_of_rotary_positions_is_named():
    file = HFConfig({"rope_parameters": {**ROTARY, "twist": 3}}, "config.json")
    with pytest.warns(HeadwayWarning, match="twist=3 is ignored"):
        FAMILIES["llama"].architectures[0].config(file, ())
