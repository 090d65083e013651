"""A tiny bundle of every kind, and an input that it reads: what looking inside is tested on."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from headway.bundle import (
    TextBundle,
)
from headway.models import (
    GPT,
    BertAnswerer,
    BertClassifier,
    BertTagger,
    GPTConfig,
    TextClassifier,
)
from headway.tasks.captioning.bundle import CaptionerBundle
from headway.tasks.classification.bundle import ClassifierBundle
from headway.tasks.classification.reader import ClassReader
from headway.tasks.question_answering.bundle import AnswererBundle, AnswerReader
from headway.tasks.tagging.bundle import TaggerBundle, TagReader
from headway.text import TextPieces
from tests.small_encoder import TEXTS, encoder
from tests.tasks.test_captioner_bundle import PICTURES, bundle_of
from tests.tasks.test_image_bundles import CONFIG, READER, classifier
from tests.test_bundle import make

PIECES = TextPieces.train([*TEXTS, "the fox eats the lemon and the dog eats the bread"] * 3, 300)
GPT_SHAPE: dict[str, Any] = {
    "model_dim": 24,
    "num_heads": 6,
    "ffn_dim": 40,
    "num_layers": 3,
    "max_length": 40,
    "vocabulary": PIECES.size,
}
MODERN: dict[str, Any] = {
    "num_kv_heads": 2,
    "norm_kind": "rms",
    "qk_norm": True,
    "activation": "swiglu",
    "bias": False,
    "positions": "rotary",
}


def sharpened(model: nn.Module) -> Any:
    """Wide weights, so that heads and words differ."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def gpt(**changes: Any) -> TextBundle:
    torch.manual_seed(6)
    return TextBundle(sharpened(GPT(GPTConfig(**{**GPT_SHAPE, **changes}))), PIECES)


def translator(**changes: Any) -> Any:
    bundle = make(**changes)
    sharpened(bundle.model)
    return bundle


def bert_classifier(pairs: bool = False, **changes: Any) -> ClassifierBundle:
    own = encoder(max_length=40, **changes)
    model = sharpened(BertClassifier(own.model, 3, "first"))
    return ClassifierBundle(model, ClassReader(own.tokenizer, ("a", "b", "c"), 40, pairs=pairs))


def gpt_classifier() -> ClassifierBundle:
    model = sharpened(TextClassifier(gpt().model, 2))
    return ClassifierBundle(model, ClassReader(PIECES, ("no", "yes"), 30))


def tagger() -> TaggerBundle:
    own = encoder(max_length=40)
    model = sharpened(BertTagger(own.model, 3))
    return TaggerBundle(model, TagReader(own.tokenizer, ("O", "B-dog", "I-dog"), 40))


def answerer() -> AnswererBundle:
    own = encoder(max_length=40)
    return AnswererBundle(sharpened(BertAnswerer(own.model)), AnswerReader(own.tokenizer, 24, 6))


def image_encoder(**changes: Any) -> Any:
    from headway.bundle import ImageEncoderBundle
    from headway.models import ViT

    torch.manual_seed(6)
    return ImageEncoderBundle(sharpened(ViT(replace(CONFIG, **changes))), READER)


def captioner(**changes: Any) -> CaptionerBundle:
    torch.manual_seed(6)
    bundle = bundle_of(**changes)
    sharpened(bundle.model.vit)
    return bundle


SENTENCE = "The old baker waves to a fox."
BUNDLES: dict[str, tuple[Callable[[], Any], tuple[Any, ...]]] = {
    "translator": (translator, ("two dogs play", "zwei hunde")),
    "translator writes": (translator, ("the fox eats the lemon",)),
    "translator post-norm": (lambda: translator(norm="post"), ("bread", "zwei hunde")),
    "translator rotary": (lambda: translator(positions="rotary"), ("two dogs", "zwei hunde")),
    "rnn": (
        lambda: translator(encoder="rnn", decoder="rnn", attention="additive"),
        ("two dogs play", "zwei hunde"),
    ),
    "rnn feeding": (
        lambda: translator(decoder="rnn", attention="dot", input_feeding=True),
        ("two dogs play", "zwei hunde"),
    ),
    "gpt": (gpt, ("the fox eats the lemon",)),
    "gpt modern": (lambda: gpt(**MODERN), ("the fox eats the lemon",)),
    "gpt alibi post-norm": (
        lambda: gpt(positions="alibi", norm="post"),
        ("the dog eats the bread",),
    ),
    "encoder": (lambda: encoder(max_length=40), ("The old [MASK] waves.", "A fox looks on.")),
    "encoder shared": (
        lambda: encoder(max_length=40, shared_layers=True, num_layers=3, embedding_dim=10),
        ("A [MASK] looks on.",),
    ),
    "encoder without a head": (
        lambda: encoder(max_length=40, masked_words=False),
        (SENTENCE,),
    ),
    "classifier": (bert_classifier, (SENTENCE,)),
    "classifier of pairs": (lambda: bert_classifier(pairs=True), (SENTENCE, "A dog.")),
    "gpt classifier": (gpt_classifier, ("the fox eats",)),
    "tagger": (tagger, (SENTENCE,)),
    "answerer": (answerer, ("Who waves?", " ".join([SENTENCE] * 2))),
    "image encoder": (image_encoder, (PICTURES[1],)),
    "image encoder without [CLS]": (
        lambda: image_encoder(class_token=False, registers=0),
        (PICTURES[0],),
    ),
    "image classifier": (classifier, (PICTURES[2],)),
    "captioner": (captioner, (PICTURES[1], "the red cat")),
    "captioner writes": (captioner, (PICTURES[1],)),
}
"""Name -> how it is made, and what it reads."""
