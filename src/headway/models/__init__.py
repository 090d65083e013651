"""Models: one family per file, with its configuration, its class and its named sizes."""

from headway.models.bert import Bert, BertConfig
from headway.models.bert_heads import (
    BertAnswerer,
    BertAnswererConfig,
    BertClassifier,
    BertClassifierConfig,
    BertTagger,
    BertTaggerConfig,
    bert_answerer,
    bert_classifier,
    bert_tagger,
)
from headway.models.bert_initialisation import start_from
from headway.models.captioner import Captioner, CaptionerConfig, start_writing
from headway.models.classifier import TextClassifier, TextClassifierConfig, text_classifier
from headway.models.contracts import (
    DecodeState,
    Stepper,
    init_weights,
    parameter_count,
    shapes_only,
)
from headway.models.gpt import GPT, GPTConfig
from headway.models.self_distilled import SelfDistilled
from headway.models.student_initialisation import body_of, student_config, student_of, with_body
from headway.models.translator import Translator
from headway.models.translator_config import TranslatorConfig
from headway.models.vit import ViT, ViTConfig, start_vit
from headway.models.vit_classifier import ViTClassifier, ViTClassifierConfig, vit_classifier
from headway.models.word_embeddings import NextWord, WordsConfig, WordVectors, words_model

__all__ = [
    "GPT",
    "Bert",
    "BertAnswerer",
    "BertAnswererConfig",
    "BertClassifier",
    "BertClassifierConfig",
    "BertConfig",
    "BertTagger",
    "BertTaggerConfig",
    "Captioner",
    "CaptionerConfig",
    "DecodeState",
    "GPTConfig",
    "NextWord",
    "SelfDistilled",
    "Stepper",
    "TextClassifier",
    "TextClassifierConfig",
    "Translator",
    "TranslatorConfig",
    "ViT",
    "ViTClassifier",
    "ViTClassifierConfig",
    "ViTConfig",
    "WordVectors",
    "WordsConfig",
    "bert_answerer",
    "bert_classifier",
    "bert_tagger",
    "body_of",
    "init_weights",
    "parameter_count",
    "shapes_only",
    "start_from",
    "start_vit",
    "start_writing",
    "student_config",
    "student_of",
    "text_classifier",
    "vit_classifier",
    "with_body",
    "words_model",
]
