"""The Bundle contract: the methods of every saved model, whatever its task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import nn

from headway.base.errors import UsageError
from headway.base.shapes import Float, Tensor
from headway.blocks import Pooling
from headway.bundle.probe import Probe, SearchTrace
from headway.data.dialogues import Turn
from headway.decoding import Continuation, GenerationConfig
from headway.models import parameter_count
from headway.text import TextTokenizer, Vocabulary

WRITTEN = 12
"""Default maximum number of tokens that a language model generates in a probe."""


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """The inputs that `probe` of a bundle accepts.

    second: whether it accepts a second text. target: whether the model generates an output, which
    the caller may set. language: whether the language of the output can be chosen. images: whether
    a text may come with images.
    """

    modality: Literal["text", "image"] = "text"
    second: bool = False
    target: bool = False
    language: bool = False
    images: bool = False


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """The arguments of `Bundle.probe`, checked against the bundle's `InputSpec`."""

    input: Any
    second: str | None
    target: str | Sequence[int] | None
    language: str | None
    written: int
    images: Sequence[object] = ()


class Bundle(ABC):
    """A saved model with everything needed to use it: tokenizer or image reader, class names.

    A subclass sets `kind` and `inputs`, implements the abstract methods and adds the verbs of its
    kind (`translate`, `classify`, ...). Code that works for every model, such as inspection and the
    live page, uses only what is declared here.
    """

    kind: ClassVar[str]
    inputs: ClassVar[InputSpec] = InputSpec()
    model: nn.Module

    @classmethod
    @abstractmethod
    def open(cls, model: Any, folder: Path, contents: dict[str, object]) -> Bundle:
        """Return the bundle of a model and the other files in `folder`.

        contents: of config.json. Raises DataError if the files do not match it.
        """

    @abstractmethod
    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write configuration, weights and all other files to `folder` durably."""

    @property
    @abstractmethod
    def config(self) -> Any:
        """The model's configuration."""

    @property
    def device(self) -> torch.device:
        """The device of the model's parameters."""
        return next(self.model.parameters()).device

    def __repr__(self) -> str:
        """The class, the kind and size of the model, and the device that it runs on."""
        size = f"{parameter_count(self.model):,} parameters"
        return f"<{type(self).__name__}: {self.kind}, {size}, on {self.device}>"

    def probe(
        self,
        input: object,
        second: str | None = None,
        *,
        target: str | Sequence[int] | None = None,
        language: str | None = None,
        written: int = WRITTEN,
        images: Sequence[object] = (),
    ) -> Probe:
        """Prepare one input for inspection: its tokens or patches, the prediction, the meaning of
        the logits.

        input: a text or an image. second: the second text of a model for pairs, or the context of a
        question. target: the output of a translator or a captioner, as text or ids; if unset, the
        model's own best output. language: the language of the output. written: maximum number of
        tokens that a language model generates; they are part of the probe. images: the images that
        a text is about. Raises UsageError for an input that the model does not accept.
        """
        self.check_input(input, second, target=target, language=language, images=images)
        return self._probe(
            ProbeRequest(
                input=input,
                second=second,
                target=target,
                language=language,
                written=written,
                images=images,
            )
        )

    def check_input(
        self,
        input: object,
        second: str | None = None,
        *,
        target: str | Sequence[int] | None = None,
        language: str | None = None,
        images: Sequence[object] = (),
    ) -> None:
        """Raise UsageError for arguments that `probe` does not accept, according to `inputs`."""
        if images and not self.inputs.images:
            raise UsageError(
                f"this {self.kind} reads no images beside a text",
                hint="headway train see trains a model that does",
            )
        if second is not None and not self.inputs.second:
            raise UsageError(f"this {self.kind} takes one input, not two")
        if target is not None and not self.inputs.target:
            raise UsageError(
                f"this {self.kind} generates no output, so it takes no target",
                hint="only translators and captioners take a target",
            )
        if language is not None and not self.inputs.language:
            raise UsageError(
                f"this {self.kind} has no output languages to choose from",
                hint="leave out the language",
            )
        is_text = isinstance(input, str) and bool(input.strip())
        if self.inputs.modality == "text" and not is_text:
            raise UsageError("the input must be a text that is not empty", hint="give some words")

    @abstractmethod
    def _probe(self, request: ProbeRequest) -> Probe:
        """Return the probe of a checked request."""


@runtime_checkable
class Truncating(Protocol):
    """A bundle that truncates long inputs. input_limit: the maximum number of tokens."""

    @property
    def input_limit(self) -> int: ...

    def input_lengths(self, inputs: Sequence[object]) -> list[int]:
        """Return the number of tokens of each input of `predict`, before truncation."""
        ...


@runtime_checkable
class BeamSearching(Protocol):
    """A bundle that generates by beam search and can record every scored continuation."""

    def trace_search(
        self, input: object, *, language: str | None = None, beam: int = 4
    ) -> SearchTrace:
        """Return the beam search for the best output of one input. beam: the width, 2 or more."""
        ...


@runtime_checkable
class Translating(Protocol):
    """A bundle that translates between languages."""

    def into(self, language: str | None, source: str | None = None) -> Bundle:
        """Return the bundle for a target and a source language; None changes nothing."""
        ...


@runtime_checkable
class TextGenerating(Protocol):
    """A bundle that continues texts."""

    tokenizer: TextTokenizer

    @property
    def config(self) -> Any: ...

    def with_defaults(
        self, settings: Mapping[str, object], where: str = ..., usual: GenerationConfig = ...
    ) -> GenerationConfig:
        """Return the settings of a user, completed by the model's defaults and by `usual`."""
        ...

    def generate(
        self, prompts: Sequence[str], *, draft: object = None, **settings: object
    ) -> list[list[Continuation]]:
        """Return the continuations of each prompt, in order; settings as in `GenerationConfig`.

        draft: a smaller bundle with the same tokenizer, for speculative decoding.
        """
        ...

    def stream(
        self, prompt: str | Sequence[int], *, draft: object = None, **settings: object
    ) -> Iterator[str]:
        """Yield the continuation of one prompt while it is generated, in whole characters."""
        ...


@runtime_checkable
class ImageReading(Protocol):
    """A bundle of a model that reads images in its prompts. patches: the number of places of an
    image in a prompt."""

    @property
    def patches(self) -> int: ...

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """Return the tokens of a conversation, with places for its images, after which the model
        answers."""
        ...

    def places(self, ids: Sequence[int]) -> list[int]:
        """Return the positions of tokens at which patches stand."""
        ...

    def pixels(self, images: Sequence[object]) -> Float[Tensor, "I C Y X"]:
        """Return images as the input of the model. Raises DataError for one that cannot be read."""
        ...

    def with_images(self, images: Sequence[object]) -> Any:
        """Return the bundle with the images of the prompts that it continues, in their order."""
        ...


@dataclass(frozen=True)
class Neighbour:
    """A word, and the cosine similarity between its vector and the query vector."""

    word: str
    cosine: float


@runtime_checkable
class WordEmbedding(Protocol):
    """A bundle with a vector for each word of a vocabulary. Unknown words raise UsageError."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    def vector(self, word: str) -> Float[Tensor, " D"]:
        """Return the vector of one word."""
        ...

    def nearest(self, word: str, count: int = 10) -> list[Neighbour]:
        """Return the `count` other words of highest cosine similarity with `word`, best first."""
        ...

    def analogy(self, a: str, b: str, c: str, count: int = 10) -> list[Neighbour]:
        """Solve the analogy a : b = c : ? by the words nearest to b - a + c, without a, b and c."""
        ...


@runtime_checkable
class Transcribing(Protocol):
    """A bundle that writes the words of recordings. window: the number of frames that the model
    reads at once. translates: whether it also writes them in English."""

    window: int
    translates: bool

    def check_language(self, language: str | None, *, translate: bool = False) -> None:
        """Raise UsageError if the model cannot transcribe this language, or not translate it."""
        ...

    def transcribe(
        self,
        recordings: Sequence[Any],
        *,
        language: str | None = None,
        translate: bool = False,
        timestamps: bool = False,
        beam: int = 1,
    ) -> Sequence[object]:
        """Return one transcript for each recording, a path or samples at 16,000 Hz."""
        ...


@runtime_checkable
class TextEmbedding(Protocol):
    """A bundle that encodes texts as vectors. pooling: the default pooling. length: maximum number
    of tokens of a text, special tokens included; longer texts are truncated."""

    pooling: Pooling
    length: int

    @property
    def prompts(self) -> Mapping[str, str]:
        """The texts that can precede each text, by name."""
        ...

    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: Pooling | None = None,
        normalise: bool = True,
        prompt: str | None = None,
    ) -> Float[Tensor, "N D"]:
        """Return one vector for each text, after the prompt of a name."""
        ...

    def lengths(self, texts: Sequence[str], prompt: str | None = None) -> list[int]:
        """Return the number of tokens of each text and the prompt, before truncation."""
        ...
