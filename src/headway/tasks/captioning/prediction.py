"""The inputs, options and predictions of a captioner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from headway.base.settings import BEAMS, SEED, required, setting
from headway.decoding import BeamSettings, Hypothesis
from headway.interop import GenerationDefaults


@dataclass(frozen=True, kw_only=True)
class CaptionInput:
    """One input of a captioner."""

    image: Path = required(
        "images (.png .jpg .webp .gif .bmp .tif), or sounds (.wav) for a captioner of sounds"
    )


@dataclass(frozen=True, kw_only=True)
class CaptionOptions(BeamSettings):
    """Options of a prediction."""

    language: str | None = setting(
        None,
        "Language of the caption: a column of the training captions, or several, separated by "
        "commas. If unset, the first.",
    )
    top: int = setting(
        1, "Number of captions per image, best first, with their scores.", gt=0, le=BEAMS
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
    def languages(self) -> list[str | None]:
        """The requested languages; None is the model's first language."""
        return [None] if self.language is None else [*self.language.split(",")]


BEST = CaptionOptions()


def folder_options(generation: GenerationDefaults | None) -> CaptionOptions:
    """Return the options where a user sets none. generation: the defaults of a pretrained folder;
    None if the model is from none."""
    if generation is None:
        return BEST
    chosen = generation.search if generation.is_chosen else {}
    return replace(BEST, normalisation="transformers", **chosen)


@dataclass(frozen=True)
class Caption(Hypothesis):
    """A generated caption. language: None if the model's language has no name."""

    language: str | None = None


@dataclass(frozen=True, kw_only=True)
class CaptionedFile:
    """An image file and its captions, grouped by language and best first."""

    file: str
    captions: tuple[Caption, ...]
