"""Captioners against transformers' VisionEncoderDecoderModel, read and written."""

import json

import numpy as np
import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import headway
from headway.base.errors import DataError, UsageError
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.target import export
from headway.interop import build, read, write, write_captioner
from headway.interop.explanation import explain
from headway.models import Captioner
from headway.tasks.captioning.model import CaptionerBundle
from headway.transforms.fast.table import prepare_for_inference
from tests.fixtures.captioners import SQUARE_IMAGE_READER, TOKENIZER, exportable
from tests.fixtures.images import pixels_of

transformers = pytest.importorskip("transformers")


def theirs(encoder="vit", **changes):
    shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
    shape |= {"image_size": 8, "patch_size": 4}
    if encoder == "vit":
        sees = transformers.ViTConfig(**shape, intermediate_size=40)
    else:
        sees = transformers.Dinov2Config(**shape, mlp_ratio=2)
    writes = transformers.GPT2Config(
        **{"n_embd": 24, "n_layer": 2, "n_head": 4, "vocab_size": 17, "n_positions": 12, **changes},
        add_cross_attention=True,
        is_decoder=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(sees, writes)
    config.decoder_start_token_id, config.pad_token_id = 1, 2
    model = transformers.VisionEncoderDecoderModel(config=config)
    for (
        name,
        parameter,
    ) in model.named_parameters():  # no parameter is 0 or 1, which would hide errors
        torch.nn.init.normal_(parameter, std=0.2, mean=0.5 if "norm" in name else 0.0)
    return model.eval()


@pytest.mark.parametrize("encoder", ["vit", "dinov2"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_captioner_saved_by_transformers_has_the_same_logits(encoder, tied, tmp_path):
    model = theirs(encoder, tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    ours = build(*read(tmp_path))
    assert isinstance(ours, Captioner) and ours.config.gpt.tie_output is tied
    pixels, ids = torch.randn(3, 3, 8, 8), torch.randint(0, 17, (3, 5))
    with torch.no_grad():
        expected = model(pixel_values=pixels, decoder_input_ids=ids).logits
        assert_close(ours(pixels, ids), expected, rtol=0, atol=1e-4)
        stepped, _ = ours.step(ids, ours.start(pixels))
        assert_close(stepped, expected, rtol=0, atol=1e-4)


def trocr(encoder="vit", width=24, **changes):
    """A random TrOCR, whose decoder may be wider than its encoder."""
    shape = {"num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 8, "patch_size": 4}
    shape |= {"hidden_size": 24, "intermediate_size": 40}
    sees = {
        "vit": lambda: transformers.ViTConfig(**shape, qkv_bias=False),
        "deit": lambda: transformers.DeiTConfig(**shape),
        "beit": lambda: transformers.BeitConfig(**shape, use_relative_position_bias=True),
    }[encoder]()
    narrow = {} if width == 24 else {"cross_attention_hidden_size": 24}
    size = {"d_model": width, "decoder_layers": 2, "decoder_attention_heads": 4}
    size |= {"decoder_ffn_dim": 40, "vocab_size": 17, "max_position_embeddings": 12}
    writes = transformers.TrOCRConfig(**{**size, **narrow, **changes})
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(sees, writes)
    config.decoder_start_token_id, config.pad_token_id = 2, 1
    torch.manual_seed(5)
    model = transformers.VisionEncoderDecoderModel(config=config)
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.2, mean=0.5 if "norm" in name else 0.0)
    return model.eval()


TROCR = {
    "vit, like the base model": ("vit", 32, {"scale_embedding": False}),
    "deit, like the small one": ("deit", 24, {"scale_embedding": True}),
    "beit, sines, like the large one": (
        "beit",
        32,
        {"use_learned_position_embeddings": False, "activation_function": "relu"},
    ),
    "without the norm of embeddings, head of its own": (
        "vit",
        24,
        {"layernorm_embedding": False, "tie_word_embeddings": False},
    ),
}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("name", TROCR)
@torch.no_grad()
def test_a_trocr_has_the_logits_of_transformers_and_is_written_for_it(name, fast, tmp_path):
    encoder, width, changes = TROCR[name]
    model = trocr(encoder, width, **changes)
    model.save_pretrained(tmp_path / "theirs")
    assert explain(tmp_path / "theirs").usable
    ours = build(*read(tmp_path / "theirs"))
    if fast:
        prepare_for_inference(ours)
    pixels, ids = torch.randn(3, 3, 8, 8), torch.randint(2, 17, (3, 9))
    expected = model(pixel_values=pixels, decoder_input_ids=ids).logits
    assert_close(ours(pixels, ids), expected, rtol=0, atol=1e-5)
    state = ours.start(pixels)
    stepped = torch.cat([ours.step(column, state)[0] for column in ids.split(1, dim=1)], dim=1)
    assert_close(stepped, expected, rtol=0, atol=1e-5)
    write(ours, tmp_path / "ours")
    again, report = transformers.VisionEncoderDecoderModel.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    lost = {key for key in report["missing_keys"] if "pooler" not in key}
    assert not report["unexpected_keys"] and not lost
    written = again.eval()(pixel_values=pixels, decoder_input_ids=ids).logits
    assert_close(written, expected, rtol=0, atol=1e-5)


def test_an_exported_captioner_has_the_same_logits_in_transformers_from_pixels(tmp_path):
    bundle, folder = exportable(), tmp_path / "hf"
    exported = export(bundle, folder, HUGGING_FACE)
    assert exported.architecture == "VisionEncoderDecoderModel" and exported.tokens == 16
    exported_model, loaded = transformers.VisionEncoderDecoderModel.from_pretrained(
        folder, output_loading_info=True
    )
    lost = {name for name in loaded["missing_keys"] if "pooler" not in name}
    assert not loaded["unexpected_keys"] and not lost
    images = [pixels_of(8, 8, seed=1), pixels_of(20, 11, seed=2)]
    processor = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False)
    pixels = processor(images, return_tensors="pt").pixel_values
    assert_close(pixels, SQUARE_IMAGE_READER.batch(images), rtol=0, atol=1e-5)
    ids = torch.randint(0, 282, (2, 7))
    with torch.no_grad():
        logits = exported_model.eval()(pixel_values=pixels, decoder_input_ids=ids).logits
        assert_close(bundle.model(pixels, ids), logits, rtol=0, atol=1e-4)
    config = json.loads((folder / "config.json").read_text())
    assert config["decoder_start_token_id"] == TOKENIZER.size
    engine = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert engine.token_to_id("<|de|>") == TOKENIZER.size + 1
    assert engine.encode(" the red cat", add_special_tokens=False).ids == TOKENIZER.encode(
        " the red cat"
    )


def test_an_exported_captioner_is_loaded_with_its_first_language(tmp_path):
    bundle, folder = exportable(), tmp_path / "hf"
    write_captioner(bundle.model, SQUARE_IMAGE_READER, TOKENIZER, folder, ("en", "de"))
    loaded = headway.load(folder)
    assert isinstance(loaded, CaptionerBundle) and loaded.languages == ()
    assert loaded.reader.first(None) == TOKENIZER.size
    pixels, ids = SQUARE_IMAGE_READER.batch([pixels_of(8, 8)]), torch.tensor([[280, 5, 6]])
    assert_close(loaded.model(pixels, ids), bundle.model(pixels, ids), rtol=0, atol=1e-5)
    assert len(loaded.caption([np.zeros((8, 8, 3), np.uint8)])) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_dim": 12}, "vit.model_dim=12 (must be gpt.model_dim, 24)"),
        ({"positions": "sinusoidal"}, "vit.positions=sinusoidal"),
    ],
)
def test_captioners_that_transformers_cannot_represent_are_refused_and_leave_no_folder(
    changes, message, tmp_path
):
    bundle = exportable(**changes)
    with pytest.raises(UsageError) as error:
        write_captioner(bundle.model, SQUARE_IMAGE_READER, TOKENIZER, tmp_path / "hf", ("en", "de"))
    assert message in error.value.what and not (tmp_path / "hf").exists()


def test_folders_of_unsupported_captioners_are_refused(tmp_path):
    model = theirs()
    model.save_pretrained(tmp_path)
    path, good = tmp_path / "config.json", json.loads((tmp_path / "config.json").read_text())
    for half, change, message in (
        ("encoder", {"model_type": "swin"}, "encoder.model_type='swin'"),
        ("decoder", {"model_type": "bert"}, "model_type='bert'"),
        ("decoder", {"add_cross_attention": False}, "add_cross_attention=False"),
        (
            "encoder",
            {"hidden_size": 12, "pooler_output_size": 12},
            "encoder.hidden_size=12, decoder.n_embd=24",
        ),
    ):
        path.write_text(json.dumps({**good, half: {**good[half], **change}}))
        with pytest.raises(DataError) as error:
            read(tmp_path)
        assert message in error.value.what
    path.write_text(json.dumps({**good, "decoder": 3}))
    with pytest.raises(DataError, match="decoder=3"):
        read(tmp_path)
    path.write_text(json.dumps(good))
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["decoder.transformer.h.1.crossattention.q_attn.weight"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        DataError, match=r"lacks decoder\.transformer\.h\.1\.crossattention\.q_attn"
    ):
        read(tmp_path)
