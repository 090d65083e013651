"""The inputs, options and outputs of a transcription."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.base.settings import BEAMS, count, required, setting
from headway.tasks.transcription.timestamps import Segment


@dataclass(frozen=True, kw_only=True)
class RecordingInput:
    """One input of a transcriber."""

    sound: Path = required("recordings of speech (.wav), of at most two hours")


@dataclass(frozen=True, kw_only=True)
class TranscriptOptions:
    """Options of a transcription."""

    language: str | None = setting(
        None,
        "Language that is spoken, as its code: en, fr, ... If unset, the model detects it in the "
        "first window of the recording.",
    )
    translate: bool = setting(
        False, "Translate into English, if the model can, instead of transcribing."
    )
    timestamps: bool = setting(
        False, "Print the segments of the transcript with their times, one per line."
    )
    format: Literal["text", "srt", "vtt"] = setting(
        "text", "Form of the output: text, or subtitles with times (SubRip, WebVTT)."
    )
    beam: int = count(1, "Beam width; 1 is greedy.", BEAMS)

    @property
    def has_times(self) -> bool:
        """Whether the output has times."""
        return self.timestamps or self.format != "text"


DEFAULTS = TranscriptOptions()


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """The transcript of a recording.

    language: None for a model of one language. language_probability: of the language among all of
    the model, if the model detected it. segments: the parts of the text, in order; one for a
    recording of one window that is transcribed without times.
    """

    file: str
    language: str | None
    language_probability: float | None
    text: str
    segments: tuple[Segment, ...]
