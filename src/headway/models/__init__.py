"""The systems: one family a file, each a config, a class and its named sizes."""

from headway.models.contracts import DecodeState, Stepper, parameter_count
from headway.models.gpt import GPT, GPTConfig
from headway.models.translator import Translator, TranslatorConfig
from headway.models.words import NextWord, WordsConfig, WordVectors, words_model

__all__ = [
    "GPT",
    "DecodeState",
    "GPTConfig",
    "NextWord",
    "Stepper",
    "Translator",
    "TranslatorConfig",
    "WordVectors",
    "WordsConfig",
    "parameter_count",
    "words_model",
]
