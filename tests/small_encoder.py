"""A tiny BERT with a tokenizer of its own, for tests of whatever stands on one."""

from typing import Any

import torch

from headway.bundle import EncoderBundle
from headway.models import Bert, BertConfig
from headway.text import MarkedTokenizer

TEXTS = [
    "The old baker waves to the children.",
    "Two dogs play in the garden, and a fox looks on.",
    "A café by the lake sells warm bread.",
    "She writes a letter to her mother every Sunday.",
]


def tokenizer(size: int = 150) -> MarkedTokenizer:
    return MarkedTokenizer.train(TEXTS * 3, size)


def encoder(seed: int = 0, **changes: Any) -> EncoderBundle:
    """Two layers of width 24; wide weights, so that no two texts are alike."""
    reader = tokenizer()
    shape: dict[str, Any] = {
        "model_dim": 24,
        "num_heads": 3,
        "ffn_dim": 40,
        "num_layers": 2,
        "max_length": 19,
        "vocabulary": reader.size,
    }
    torch.manual_seed(seed)
    model = Bert(BertConfig(**{**shape, **changes}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return EncoderBundle(model, reader)
