"""Models: one family per file, with its configuration, its class and its named sizes."""

from headway.models.bert import Bert
from headway.models.bert_config import BertConfig
from headway.models.bert_heads import (
    BertClassifier,
    BertClassifierConfig,
    BertQuestionAnswering,
    BertQuestionAnsweringConfig,
    BertTagger,
    BertTaggerConfig,
    bert_classifier,
    bert_question_answering,
    bert_tagger,
)
from headway.models.bert_initialisation import start_from
from headway.models.captioner import Captioner, CaptionerConfig, initialise_decoder
from headway.models.classifier import TextClassifier, TextClassifierConfig, text_classifier
from headway.models.contracts import (
    DecodeState,
    Stepper,
    init_weights,
    parameter_count,
    shapes_only,
)
from headway.models.gpt import GPT
from headway.models.gpt_config import GPTConfig
from headway.models.image_text import ImageText, ImageTextConfig, TextTowerConfig
from headway.models.multimodal_gpt import MultimodalGPT, MultimodalGPTConfig, WithImages
from headway.models.self_distilled import SelfDistilled
from headway.models.student_initialisation import (
    backbone_of,
    student_config,
    student_of,
    with_backbone,
)
from headway.models.text_embedder import TextEmbedder, TextEmbedderConfig
from headway.models.transcriber import Transcriber, TranscriberConfig
from headway.models.translator import Translator
from headway.models.translator_config import TranslatorConfig
from headway.models.vit import ViT, ViTConfig, initialise_vit
from headway.models.vit_classifier import ViTClassifier, ViTClassifierConfig, vit_classifier
from headway.models.word_embeddings import NextWord, WordsConfig, WordVectors, words_model

__all__ = [
    "GPT",
    "Bert",
    "BertClassifier",
    "BertClassifierConfig",
    "BertConfig",
    "BertQuestionAnswering",
    "BertQuestionAnsweringConfig",
    "BertTagger",
    "BertTaggerConfig",
    "Captioner",
    "CaptionerConfig",
    "DecodeState",
    "GPTConfig",
    "ImageText",
    "ImageTextConfig",
    "MultimodalGPT",
    "MultimodalGPTConfig",
    "NextWord",
    "SelfDistilled",
    "Stepper",
    "TextClassifier",
    "TextClassifierConfig",
    "TextEmbedder",
    "TextEmbedderConfig",
    "TextTowerConfig",
    "Transcriber",
    "TranscriberConfig",
    "Translator",
    "TranslatorConfig",
    "ViT",
    "ViTClassifier",
    "ViTClassifierConfig",
    "ViTConfig",
    "WithImages",
    "WordVectors",
    "WordsConfig",
    "backbone_of",
    "bert_classifier",
    "bert_question_answering",
    "bert_tagger",
    "init_weights",
    "initialise_decoder",
    "initialise_vit",
    "parameter_count",
    "shapes_only",
    "start_from",
    "student_config",
    "student_of",
    "text_classifier",
    "vit_classifier",
    "with_backbone",
    "words_model",
]
