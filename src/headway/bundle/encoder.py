"""An encoder with its tokenizer: hidden words guessed, texts as vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

import torch
import torch.nn.functional as F

from headway.blocks import MaskedWordHead, Pooling, text_pooled
from headway.bundle.contract import InputSpec, ProbeRequest
from headway.bundle.files import CONFIG_FILE, check_pieces, save_files
from headway.bundle.forward_pass import Attention, Reading, attention_of, framed_reading
from headway.bundle.probe import Probe, Readout, Unembedding
from headway.bundle.with_reader import StoredBundle
from headway.data.encoder_batches import FramedBatch, collate_framed, shortest_first
from headway.errors import DataError, UsageError
from headway.models import Bert
from headway.settings import required, setting
from headway.shapes import Float, Tensor
from headway.text import MarkedTokenizer

ROWS = 32  # texts read at once
MARKS = 2  # around a text


@dataclass(frozen=True)
class Guess:
    """A word for a hidden place, and how probable it is there.

    word: ## begins one that goes on with the word before it.
    """

    word: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class FillInput:
    """One input whose masked words are predicted."""

    text: str = required("text with [MASK] where a word is predicted, once or several times")


@dataclass(frozen=True, kw_only=True)
class FillOptions:
    top: int = setting(5, "Number of words for each [MASK], the most probable first.", gt=0)


FIVE_WORDS = FillOptions()


@dataclass(frozen=True)
class Filled:
    """A text, and for each [MASK] in it the most probable words, the best first."""

    text: str
    guesses: tuple[tuple[Guess, ...], ...]


class EncoderBundle(StoredBundle):
    """A BERT of any kind with its tokenizer.

    pooling: how `embed` makes a text's vector. length: tokens of a text that it reads, marks
    included; None for all that the model can.
    """

    kind: ClassVar[str] = "text encoder"
    inputs: ClassVar[InputSpec] = InputSpec(second=True)
    reader_class = MarkedTokenizer
    model: Bert

    def __init__(
        self,
        model: Bert,
        tokenizer: MarkedTokenizer,
        pooling: Pooling = "mean",
        length: int | None = None,
    ) -> None:
        check_pieces(tokenizer.size, model.config.vocabulary)
        super().__init__(model, tokenizer)
        self.tokenizer = tokenizer
        self.pooling: Pooling = pooling
        self.length = min(length or model.config.max_length, model.config.max_length)

    @classmethod
    def open(cls, model: Bert, folder: Path, facts: dict[str, Any]) -> EncoderBundle:
        """The model with the tokenizer that stands beside it, which must be that of `facts`."""
        tokenizer = cls.checked_reader(model, folder, facts)
        pooling, length = facts.get("pooling", "mean"), facts.get("length")
        whole = length is None or (type(length) is int and length > MARKS)
        if pooling not in get_args(Pooling) or not whole:
            raise DataError(
                f"pooling {pooling!r}, length {length!r}: mean or first, and more than {MARKS}",
                str(folder / CONFIG_FILE),
            )
        return cls(model, tokenizer, pooling, length)

    @torch.inference_mode()
    def fill(self, texts: Sequence[str], top: int = 5, first: int = 1) -> list[list[list[Guess]]]:
        """For each text and each [MASK] in it, the `top` likeliest words, the best first.

        first: the number of the first text, in errors. UsageError for a text without a [MASK], one
        too long, or a model without that head.
        """
        _check_list(texts)
        if self.model.masked_words is None:
            raise UsageError("this model has no head for hidden words, and cannot guess them")
        rows = [self._with_masks(text, number) for number, text in enumerate(texts, start=first)]
        found: list[list[list[Guess]]] = [[] for _ in rows]
        for chosen in shortest_first(rows, ROWS):
            batch = self._batch([rows[i] for i in chosen])
            hidden = self.model.encode(batch.tokens, batch.keys, batch.types)
            places = batch.tokens == self.tokenizer.marks.mask
            logits = self.model.words(hidden[places])  # B T D -> M D -> M V
            # a vocabulary may be padded to a round number: what is no piece is no guess
            shares = logits[:, : self.tokenizer.size].float().softmax(-1)
            values, ids = shares.topk(min(top, self.tokenizer.size), dim=-1)
            owners = [chosen[row] for row in places.nonzero()[:, 0].tolist()]
            for owner, best, own in zip(owners, ids.tolist(), values.tolist(), strict=True):
                pairs = zip(self.tokenizer.words(best), own, strict=True)
                found[owner].append([Guess(word, value) for word, value in pairs])
        return found

    def predict(
        self, inputs: Sequence[FillInput], options: FillOptions = FIVE_WORDS, *, first: int = 1
    ) -> list[Filled]:
        """`fill` of each input."""
        texts = [each.text for each in inputs]
        return [
            Filled(text, tuple(map(tuple, guesses)))
            for text, guesses in zip(texts, self.fill(texts, options.top, first), strict=True)
        ]

    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: Pooling | None = None,
        normalise: bool = True,
    ) -> Float[Tensor, "N D"]:
        """One vector for each text: the mean of its tokens' vectors, or that of [CLS].

        pooling: None for `self.pooling`. normalise: to length 1, so that a dot product is a cosine.
        What is longer than `self.length` is cut at its end. What a text gets does not depend on
        the others. Reimers and Gurevych 2019, section 3.
        """
        _check_list(texts)
        rows = [
            self.tokenizer.marks.frame(ids, room=self.length)[0]
            for ids in self.tokenizer.encode_batch(texts)
        ]
        vectors = self.pooled(rows, pooling or self.pooling)
        return F.normalize(vectors, dim=-1) if normalise else vectors

    @torch.inference_mode()
    def pooled(
        self,
        rows: Sequence[Sequence[int]],
        pooling: Pooling,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Float[Tensor, "N D"]:
        """The vectors of encoded texts, special tokens included, of any length.

        progress: called before each batch with the number of texts processed so far.
        """
        vectors = torch.zeros(len(rows), self.config.model_dim, device=self.device)
        done = 0
        for chosen in shortest_first(rows, ROWS):
            progress(done)
            batch = self._batch([rows[i] for i in chosen])
            hidden = self.model.encode(batch.tokens, batch.keys, batch.types)
            vectors[chosen] = text_pooled(hidden, batch.keys, pooling).float()
            done += len(chosen)
        return vectors

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each text, special tokens included, before `embed` cuts any."""
        return [MARKS + len(ids) for ids in self.tokenizer.encode_batch(texts)]

    def reading(self, text: str, second: str | None = None) -> Reading:
        """What is read of one text, or two; where the mark's name stands, a word is hidden. The
        answer is the logits of the word at each place, or the vectors of a model without that head.
        UsageError if they are too long."""
        encode, marks = self._with_marks, self.tokenizer.marks
        ids, types = marks.frame(encode(text), None if second is None else encode(second))
        self._check_room(ids)
        run = self.model.encode if self.model.masked_words is None else self.model
        return framed_reading(self.model, self.tokenizer, ids, types, run=run)

    def attention(
        self,
        text: str,
        second: str | None = None,
        layers: Sequence[str] = (),
        heads: Sequence[int] = (),
    ) -> Attention:
        """Attention weights while one text, or two, are read. layers, heads: those to keep; none:
        all. UsageError if they are too long."""
        return attention_of(self.reading(text, second), layers, heads)

    def _probe(self, request: ProbeRequest) -> Probe:
        reading = self.reading(request.input, request.second)
        readout, answer = None, ""
        if self.model.masked_words is not None:
            readout = self._masked_readout(reading.ids["text"])
            with torch.inference_mode():
                best = readout.logits(reading.run()).argmax(-1).tolist()
            answer = ", ".join(self.tokenizer.words(best))
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=answer,
            readout=readout,
            tokenizers={"text": self.tokenizer},
        )

    def _masked_readout(self, ids: Sequence[int]) -> Readout:
        """The logits at the masked positions."""
        size, mask = self.tokenizer.size, self.tokenizer.marks.mask
        model, stack = self.model, self.model.encoder
        positions = [i for i, token in enumerate(ids) if token == mask]
        return Readout(
            side="text",
            positions=positions,
            # a vocabulary may be padded to a round number; no token belongs to these columns
            logits=lambda output: output[0, positions, :size],
            names=self.tokenizer.words,
            equation="z = norm(f(x W + b)) Eᵀ + c",
            function=MaskedWordHead.forward,
            unembedding=Unembedding(
                stack=stack, logits=lambda hidden: model.words(stack.norm(hidden))
            ),
        )

    def save(self, folder: Path, *, overwrite: bool = False) -> None:
        """Write config.json, model.safetensors and tokenizer.json durably: `files.save_files`."""
        how = {"pooling": self.pooling, "length": self.length}
        save_files(folder, self.model, self.tokenizer, overwrite, how)

    def _with_masks(self, text: str, number: int = 1) -> list[int]:
        """Ids of a text in which the mark's name stands where a word is hidden."""
        marks = self.tokenizer.marks
        ids = self._with_marks(text)
        if marks.mask not in ids:
            (name,) = self.tokenizer.pieces([marks.mask])
            raise UsageError(
                f"no {name} in {text[:60]!r}",
                f"text {number}",
                f"put {name} where a word is hidden",
            )
        framed, _ = marks.frame(ids)
        self._check_room(framed, number)
        return framed

    def _with_marks(self, text: str) -> list[int]:
        """Ids of a text; the mark stands where its name does."""
        (name,) = self.tokenizer.pieces([self.tokenizer.marks.mask])
        parts = text.split(name)
        # the mark has the space before it in itself, where spaces are part of pieces
        rows = self.tokenizer.encode_batch([*map(str.rstrip, parts[:-1]), parts[-1]])
        ids = rows[0]
        for row in rows[1:]:
            ids += [self.tokenizer.marks.mask, *row]
        return ids

    def _check_room(self, ids: Sequence[int], number: int = 1) -> None:
        room = self.config.max_length
        if len(ids) > room:
            raise UsageError(
                f"the text has {len(ids):,} tokens, and this model reads at most {room:,}",
                f"text {number}",
                "shorten it, or split it",
            )

    def _batch(self, rows: Sequence[Sequence[int]]) -> FramedBatch:
        return collate_framed(rows, None, self.tokenizer.marks.pad).to(str(self.device))


def _check_list(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise UsageError("texts must be a list of texts, not one string", hint="[text]")
