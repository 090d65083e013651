"""A saved model and what it can do: config.json, model.safetensors, and its text side.

`headway.load(folder)` is the only way in; what it returns has the verbs of its kind.
"""

from headway.bundle.families import FAMILIES, Bundle, Family, load, load_as
from headway.bundle.text import TextBundle
from headway.bundle.translator import Attention, Translation, TranslatorBundle
from headway.bundle.words import Neighbour, WordsBundle

__all__ = [
    "FAMILIES",
    "Attention",
    "Bundle",
    "Family",
    "Neighbour",
    "TextBundle",
    "Translation",
    "TranslatorBundle",
    "WordsBundle",
    "load",
    "load_as",
]
