"""Registry of model families by name, which is `family` in the config.json of a saved model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from headway.base.extensions import Extended
from headway.models.bert import Bert
from headway.models.bert_config import BertConfig
from headway.models.bert_heads import (
    BertClassifierConfig,
    BertQuestionAnsweringConfig,
    BertTaggerConfig,
    bert_classifier,
    bert_question_answering,
    bert_tagger,
)
from headway.models.captioner import Captioner, CaptionerConfig
from headway.models.classifier import TextClassifierConfig, text_classifier
from headway.models.gpt import GPT
from headway.models.gpt_config import GPTConfig
from headway.models.image_text import ImageText, ImageTextConfig
from headway.models.multimodal_gpt import MultimodalGPT, MultimodalGPTConfig
from headway.models.text_embedder import TextEmbedder, TextEmbedderConfig
from headway.models.transcriber import Transcriber, TranscriberConfig
from headway.models.translator import Translator
from headway.models.translator_config import TranslatorConfig
from headway.models.vit import ViT, ViTConfig
from headway.models.vit_classifier import ViTClassifierConfig, vit_classifier
from headway.models.word_embeddings import WordsConfig, words_model


@dataclass(frozen=True)
class ModelSpec:
    """A family: the class of its configuration, and the function that makes a model from it."""

    config: type[Any]
    make: Callable[[Any], nn.Module]


MODELS: Extended[ModelSpec] = Extended(
    {
        "translator": ModelSpec(TranslatorConfig, Translator),
        "gpt": ModelSpec(GPTConfig, GPT),
        "multimodal-gpt": ModelSpec(MultimodalGPTConfig, MultimodalGPT),
        "gpt-classifier": ModelSpec(TextClassifierConfig, text_classifier),
        "gpt-embedder": ModelSpec(TextEmbedderConfig, TextEmbedder),
        "bert": ModelSpec(BertConfig, Bert),
        "bert-classifier": ModelSpec(BertClassifierConfig, bert_classifier),
        "bert-tagger": ModelSpec(BertTaggerConfig, bert_tagger),
        "bert-answerer": ModelSpec(BertQuestionAnsweringConfig, bert_question_answering),
        "vit": ModelSpec(ViTConfig, ViT),
        "vit-classifier": ModelSpec(ViTClassifierConfig, vit_classifier),
        "captioner": ModelSpec(CaptionerConfig, Captioner),
        "transcriber": ModelSpec(TranscriberConfig, Transcriber),
        "image-text": ModelSpec(ImageTextConfig, ImageText),
        "words": ModelSpec(WordsConfig, words_model),
    },
    "headway.models",
    ModelSpec,
)
"""Name of a family -> its specification: families of Headway and of installed packages."""
