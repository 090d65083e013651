"""The systems: one family a file, each a config, a class and its named sizes."""

from headway.models.contracts import DecodeState, Stepper, parameter_count
from headway.models.translator import Translator, TranslatorConfig

__all__ = ["DecodeState", "Stepper", "Translator", "TranslatorConfig", "parameter_count"]
