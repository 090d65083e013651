"""A real model with tensor2tensor's sinusoids, trained elsewhere: Arabic names in Latin letters."""

import json

import torch

from headway.base.tensors import read_tensors
from headway.decoding import Limits
from headway.models import Translator, TranslatorConfig
from headway.models.contracts import set_parameters
from tests.fixtures.searches import beam_search, greedy_search

FOLDER = "weights/aren_transliteration"
SUBLAYERS = {
    "encoder": {"self_attention": "attention", "ffn": "feedforward"},
    "decoder": {"self_attention": "attention", "attention": "cross", "ffn": "feedforward"},
}
PROJECTIONS = {
    "self_attention": (("query", "key", "value"), ("output",)),
    "attention": (("query",), ("key", "value"), ("output",)),
    "ffn": (("expand",), ("contract",)),
}


def model_of(tensors):
    """The translator with these weights, whose queries, keys and values are joined."""
    config = TranslatorConfig(
        model_dim=32,
        num_heads=8,
        ffn_dim=128,
        encoder_layers=6,
        decoder_layers=6,
        sinusoids="endpoint",
        first_position=1,
        share_embeddings=False,
        tie_output=False,
        output_bias=True,
        source_vocabulary=51,
        target_vocabulary=43,
    )
    ours = {
        "source_embedding.tokens.weight": tensors["encoder.embeddings.weight"],
        "target_embedding.tokens.weight": tensors["decoder.embeddings.weight"],
        "output.weight": tensors["decoder.projection.weight"],
        "output.bias": tensors["decoder.projection.bias"],
    }
    for side, sublayers in SUBLAYERS.items():
        for number in range(6):
            theirs, block = f"{side}.layer_{number}", f"{side}.blocks.{number}"
            for sublayer, name in sublayers.items():
                norm = f"{theirs}.{sublayer}.layer_norm"
                ours[f"{block}.around_{name}.norm.gain"] = tensors[f"{norm}.gamma"]
                ours[f"{block}.around_{name}.norm.shift"] = tensors[f"{norm}.beta"]
                for i, joined in enumerate(PROJECTIONS[sublayer]):
                    for kind in ("weight", "bias"):
                        parts = tensors[f"{theirs}.{sublayer}.linear_{i}.{kind}"].chunk(len(joined))
                        for layer, part in zip(joined, parts, strict=True):
                            ours[f"{block}.{name}.{layer}.{kind}"] = part
        ours[f"{side}.norm.gain"] = tensors[f"{side}.layer_norm.gamma"]
        ours[f"{side}.norm.shift"] = tensors[f"{side}.layer_norm.beta"]
    model = Translator(config)
    assert ours.keys() == dict(model.named_parameters()).keys()
    set_parameters(model, {name: value.clone() for name, value in ours.items()})
    return model.eval()


def test_names_are_written_as_recorded(real_data):
    folder = real_data(f"{FOLDER}/model.safetensors").parent
    model = model_of(read_tensors(folder / "model.safetensors"))
    source, target = (
        (folder / f"{side}_vocabulary.txt").read_text(encoding="utf-8").split("\n")
        for side in ("source", "target")
    )
    golden = json.loads((folder / "golden.json").read_text(encoding="utf-8"))["greedy"]
    start, end = target.index("<s>"), target.index("</s>")
    for name, latin in golden.items():
        ids = torch.tensor([[source.index(letter) for letter in name]])
        limits = Limits(start, end, [20])
        (best,) = greedy_search(model, (ids, None), limits)
        assert "".join(target[i] for i in best.tokens) == latin
        ((beam,),) = beam_search(model, (ids, None), limits, beam=5, length_penalty=0.0)
        assert beam.log_probability >= best.log_probability - 1e-4
