"""The inputs, options and predictions of a captioner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from headway.base.settings import BEAMS, PENALTY, SEED, required, setting
from headway.interop import GenerationDefaults


@dataclass(frozen=True, kw_only=True)
class CaptionInput:
    """One input of a captioner."""

    image: Path = required(
        "images (.png .jpg .webp .gif .bmp .tif), or sounds (.wav) for a captioner of sounds"
    )


@dataclass(frozen=True, kw_only=True)
class CaptionOptions:
    """Options of a prediction."""

    language: str | None = setting(
        None,
        "Language of the caption: a column of the training captions, or several, separated by "
        "commas. If unset, the first.",
    )
    beam: int = setting(4, "Beam width; 1 is greedy.", gt=0, le=BEAMS)
    top: int = setting(
        1, "Number of captions per image, best first, with their scores.", gt=0, le=BEAMS
    )
    length_penalty: float = setting(
        1.0,
        "Exponent of ((5 + length) / 6), by which the sum of log-probabilities is divided.",
        ge=0,
        le=PENALTY,
    )
    early_stopping: bool = setting(
        False,
        "End a search when as many captions as beams are finished, and no unfinished one has a "
        "better score at its present length: fewer steps, and rarely another caption. If unset, "
        "the search ends when none can have a better score at any length.",
    )
    layer: int | None = setting(
        None, "Decoder block of the plot, counted from 1; if unset, the last.", gt=0
    )
    sample: int = setting(0, "Number of captions to sample instead of searching.", ge=0, le=BEAMS)
    temperature: float = setting(
        0.8,
        "Sampling temperature; lower values are more deterministic, higher ones more random, 0 is "
        "greedy.",
        ge=0,
    )
    top_k: int | None = setting(None, "Sample from the k most probable tokens.", gt=0)
    top_p: float | None = setting(
        None, "Sample from the most probable tokens of this total probability.", gt=0, le=1
    )
    seed: int = setting(0, "Random seed; sample i has seed + i.", ge=0, le=SEED)

    def __post_init__(self) -> None:
        if self.top > self.beam:
            raise ValueError(f"top={self.top}: must be between 1 and the beam width, {self.beam}")

    @property
    def decodes_without_beams(self) -> bool:
        """Whether captions are decoded greedily, or sampled."""
        return self.sample > 0 or self.beam == 1

    @property
    def languages(self) -> list[str | None]:
        """The requested languages; None is the model's first language."""
        return [None] if self.language is None else [*self.language.split(",")]


BEST = CaptionOptions()


def folder_options(generation: GenerationDefaults | None) -> CaptionOptions:
    """Return the options where a user sets none. generation: the defaults of a pretrained folder;
    None if the model is from none."""
    if generation is None or not generation.is_chosen:
        return BEST
    return replace(BEST, **generation.search)


@dataclass(frozen=True)
class Caption:
    """A generated caption.

    log_probability: in nats. score: the value by which captions are ranked. tokens: the ids.
    finished: False if it was truncated at the maximum length.
    """

    text: str
    score: float
    log_probability: float
    tokens: tuple[int, ...]
    finished: bool


@dataclass(frozen=True, kw_only=True)
class WrittenCaption:
    """One caption. language: None if the model's language has no name. Other fields: `Caption`."""

    language: str | None
    text: str
    score: float
    log_probability: float
    finished: bool


@dataclass(frozen=True, kw_only=True)
class CaptionedFile:
    """An image file and its captions, grouped by language and best first."""

    file: str
    captions: tuple[WrittenCaption, ...]
