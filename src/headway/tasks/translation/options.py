"""Inputs and options of `headway translate`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from headway.base.settings import BEAMS, MOST, PENALTY, SAMPLES, required, setting
from headway.decoding.search import NORMALISATION_HELP, Normalisation
from headway.interop import GenerationDefaults


@dataclass(frozen=True, kw_only=True)
class TranslateInput:
    """One input of a translator."""

    text: str = required("the sentence that is translated")


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """Options of the search, and of the output."""

    beam: int = setting(4, "Beam width; 1 is greedy.", gt=0, le=BEAMS)
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
    nbest: int = setting(
        1,
        "Number of translations per sentence, best first: line number, score, text.",
        gt=0,
        le=MOST,
    )
    length_penalty: float = setting(
        1.0,
        "Exponent of ((5 + length) / 6), by which the sum of log-probabilities is divided.",
        ge=0,
        le=PENALTY,
    )
    normalisation: Normalisation = setting("gnmt", NORMALISATION_HELP)
    early_stopping: bool = setting(
        False,
        "End a search when as many translations as beams are finished, and no unfinished one has a "
        "better score at its present length: fewer steps, and rarely another translation. If "
        "unset, the search ends when none can have a better score at any length.",
    )
    coverage: float = setting(
        0.0,
        "Coverage penalty: weight of the sum of log(min(attention, 1)) over the source tokens, "
        "which is added to the score; it lowers translations that leave something out. Values of "
        "0.1 to 0.5 are usual.",
        ge=0,
        le=PENALTY,
    )
    contain: tuple[str, ...] = setting((), "Phrases that every translation must contain.")
    avoid: tuple[str, ...] = setting((), "Phrases that no translation may contain.")
    glossary: Path | None = setting(
        None,
        "Table of source and target terms: the translation of a sentence with a source term must "
        "contain its target term.",
    )
    mbr: int = setting(
        0,
        "If set, number of sampled translations, of which the one most like all others by chrF is "
        "chosen: minimum Bayes risk.",
        ge=0,
        le=SAMPLES,
    )
    seed: int = setting(0, "Seed of the samples of mbr.", ge=0)
    ensemble: tuple[Path, ...] = setting(
        (),
        "Further runs with the same tokenizer, whose probabilities are averaged with this one's.",
    )
    scores: bool = setting(False, "Print the score before each translation.")
    align: bool = setting(False, "Show the attention of each translated word to the source words.")

    @property
    def decodes_without_beams(self) -> bool:
        """Whether translations are decoded greedily, or sampled."""
        return self.mbr > 0 or (self.beam == 1 and not self.contain and self.glossary is None)


FOUR_BEAMS = TranslateOptions()


def folder_options(generation: GenerationDefaults | None) -> TranslateOptions:
    """Return the options where a user sets none. generation: the defaults of a pretrained folder;
    None if the model is from none."""
    if generation is None:
        return FOUR_BEAMS
    ranked = replace(FOUR_BEAMS, normalisation="transformers")
    if not generation.is_chosen:
        return ranked
    return replace(ranked, **generation.search)
