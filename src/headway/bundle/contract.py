"""The Bundle contract: what every saved model can do, whatever its task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import nn

from headway.blocks import Pooling
from headway.bundle.probe import Probe, SearchTrace
from headway.data.image_reader import ImageReader
from headway.decoding import Continuation
from headway.errors import UsageError
from headway.models import ViT
from headway.shapes import Float, Tensor
from headway.text import TextTokenizer, Vocabulary

WRITTEN = 12
"""Maximum number of tokens that a language model writes in a probe, if not set."""


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """What a bundle reads in one `probe`.

    second: whether a second text may be given. target: whether the model writes an output, which
    may be given instead. language: whether the language of the output can be chosen.
    """

    modality: Literal["text", "image"] = "text"
    second: bool = False
    target: bool = False
    language: bool = False


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """The arguments of `Bundle.probe`, after they were compared with the bundle's `InputSpec`."""

    input: Any
    second: str | None
    target: str | Sequence[int] | None
    language: str | None
    written: int


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
    def open(cls, model: Any, folder: Path, facts: dict[str, Any]) -> Bundle:
        """The model with the files beside it in `folder`. DataError unless they are those of
        `facts`, the contents of config.json."""

    @abstractmethod
    def save(self, folder: Path, *, overwrite: bool = False) -> None:
        """Write configuration, weights and everything else to `folder` durably."""

    @property
    @abstractmethod
    def config(self) -> Any:
        """The model's configuration."""

    @property
    def device(self) -> torch.device:
        """The device that the model runs on."""
        return next(self.model.parameters()).device

    def probe(
        self,
        input: Any,
        second: str | None = None,
        *,
        target: str | Sequence[int] | None = None,
        language: str | None = None,
        written: int = WRITTEN,
    ) -> Probe:
        """Open one input for inspection: its tokens or patches, the answer, the logits' meaning.

        input: a text or an image. second: the other text of a model of pairs, the context of a
        question. target: the output of a translator or a captioner, as text or ids; if unset, the
        model's own best output. language: of the output. written: maximum number of tokens that a
        language model writes; they are part of the probe. UsageError for an input that the model
        does not read.
        """
        self.check_input(input, second, target=target, language=language)
        return self._probe(
            ProbeRequest(
                input=input, second=second, target=target, language=language, written=written
            )
        )

    def check_input(
        self,
        input: Any,
        second: str | None = None,
        *,
        target: str | Sequence[int] | None = None,
        language: str | None = None,
    ) -> None:
        """UsageError for what `probe` does not read, by `inputs`."""
        if second is not None and not self.inputs.second:
            raise UsageError(f"a {self.kind} reads one input, and there is a second one")
        if target is not None and not self.inputs.target:
            raise UsageError(
                f"a {self.kind} writes nothing that could be given as the target",
                hint="a translator or a captioner does",
            )
        if language is not None and not self.inputs.language:
            raise UsageError(f"a {self.kind} is asked for no language")
        is_text = isinstance(input, str) and bool(input.strip())
        if self.inputs.modality == "text" and not is_text:
            raise UsageError("there is nothing to look at in an empty text", hint="give some words")

    @abstractmethod
    def _probe(self, request: ProbeRequest) -> Probe:
        """`probe` of a request that agrees with `inputs`."""


@runtime_checkable
class Truncating(Protocol):
    """A bundle that reads only the first tokens of a long input. input_limit: how many."""

    @property
    def input_limit(self) -> int: ...

    def input_lengths(self, inputs: Sequence[Any]) -> list[int]:
        """The number of tokens of each input of `predict`, before any are cut."""
        ...


@runtime_checkable
class BeamSearching(Protocol):
    """A bundle that writes by beam search and can record everything that the search scored."""

    def trace_search(
        self, input: Any, *, language: str | None = None, beam: int = 4
    ) -> SearchTrace:
        """The search for the best output of one input; at least two beams."""
        ...


@runtime_checkable
class TextGenerating(Protocol):
    """A bundle that continues texts."""

    tokenizer: TextTokenizer

    @property
    def config(self) -> Any: ...

    def generate(
        self, prompts: Sequence[str], *, draft: Any = None, **settings: Any
    ) -> list[list[Continuation]]:
        """Continuations of each prompt, in order; settings as in `GenerationConfig`.

        draft: a smaller bundle with the same tokenizer, which proposes tokens.
        """
        ...

    def stream(self, prompt: str, *, draft: Any = None, **settings: Any) -> Iterator[str]:
        """The continuation of one prompt, token by token, no character ever split."""
        ...


@dataclass(frozen=True)
class Neighbour:
    """A word, and the cosine between its vector and the vector that was searched for."""

    word: str
    cosine: float


@runtime_checkable
class WordEmbedding(Protocol):
    """A bundle with a vector for each word of a vocabulary. UsageError for an unknown word."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    def vector(self, word: str) -> Float[Tensor, " D"]:
        """The vector of one word."""
        ...

    def nearest(self, word: str, count: int = 10) -> list[Neighbour]:
        """The `count` words of greatest cosine with `word`, nearest first, without itself."""
        ...

    def analogy(self, a: str, b: str, c: str, count: int = 10) -> list[Neighbour]:
        """a is to b as c is to what? The words nearest to b - a + c, without the three."""
        ...


@runtime_checkable
class TextEmbedding(Protocol):
    """A bundle that gives texts vectors. pooling: how, if not set; length: the number of tokens
    that it reads of a text, special tokens included."""

    pooling: Pooling
    length: int

    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: Pooling | None = None,
        normalise: bool = True,
    ) -> Float[Tensor, "N D"]:
        """One vector for each text."""
        ...

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, before any are cut."""
        ...


@runtime_checkable
class ImageEncoding(Protocol):
    """A bundle with an image encoder that is used alone. vit: the encoder; reader: how it reads
    images."""

    @property
    def device(self) -> torch.device: ...

    @property
    def vit(self) -> ViT: ...

    @property
    def reader(self) -> ImageReader: ...

    def embed(
        self,
        pictures: Sequence[Any],
        *,
        pooling: Literal["first", "mean"] | None = None,
        normalise: bool = True,
    ) -> Float[Tensor, "N D"]:
        """One vector for each image."""
        ...
