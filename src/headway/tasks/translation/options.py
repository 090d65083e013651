"""Inputs, options and outputs of `headway translate`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.settings import MOST, SAMPLES, count, required, setting
from headway.decoding import BeamSettings, Hypothesis


@dataclass(frozen=True, kw_only=True)
class TranslateInput:
    """One input of a translator."""

    text: str = required("the sentence that is translated")


@dataclass(frozen=True, kw_only=True)
class TranslateOptions(BeamSettings):
    """Options of the search, and of the output."""

    to: str | None = setting(
        None,
        "Target language, for a model with several; if unset, the tag at the start of each text "
        "decides, such as <2de>.",
    )
    from_language: str | None = setting(
        None,
        "Source language, for mBART, M2M100 and NLLB; if unset, the language that the files of "
        "the model name.",
    )
    nbest: int = count(
        1, "Number of translations per sentence, best first: line number, score, text.", MOST
    )
    contain: tuple[str, ...] = setting((), "Phrases that every translation must contain.")
    avoid: tuple[str, ...] = setting((), "Phrases that no translation may contain.")
    glossary: Path | None = setting(
        None,
        "Table of source and target terms: the translation of a sentence with a source term must "
        "contain its target term.",
    )
    mbr: int = count(
        0,
        "If set, number of sampled translations, of which the one most like all others by chrF is "
        "chosen: minimum Bayes risk.",
        SAMPLES,
        least=0,
    )
    seed: int = setting(0, "Seed of the samples of mbr.", ge=0)
    ensemble: tuple[Path, ...] = setting(
        (),
        "Further runs with the same tokenizer, whose probabilities are averaged with this one's.",
    )
    scores: bool = setting(False, "Print the score before each translation.")
    align: bool = setting(False, "Show the attention of each translated word to the source words.")


@dataclass(frozen=True)
class Translated:
    """A sentence and its translations, best first; their log-probabilities are in nats.

    line: the number of the input. alignment: source and target words, and the attention weights of
    each target word (`inspection.Alignment.as_dict`); None if it was not requested, if the
    translation is empty, or if the text was split.
    """

    line: int
    source: str
    translations: tuple[Hypothesis, ...]
    alignment: Mapping[str, Any] | None = None
