"""A text encoder with its tokenizer: masked-word prediction and text embeddings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from headway.base.errors import UsageError
from headway.base.settings import required, setting
from headway.blocks import MaskedTokenHead
from headway.bundle.arguments import checked
from headway.bundle.contract import InputSpec, ProbeRequest
from headway.bundle.embedding import EmbeddingBundle
from headway.bundle.forward_pass import ForwardPass, encoder_pass
from headway.bundle.probe import Probe, Readout, Unembedding
from headway.data.padding import shortest_first
from headway.models import Bert
from headway.text import EncoderTokenizer

BATCH = 32  # texts per forward pass
FRAME = 2  # special tokens around a text: [CLS] and [SEP]


@dataclass(frozen=True)
class WordPrediction:
    """A predicted word for a masked position, and its probability.

    word: text of the token; "##" marks the continuation of a word. token: its id.
    """

    word: str
    probability: float
    token: int


@dataclass(frozen=True, kw_only=True)
class FillInput:
    """One input whose masked words are predicted."""

    text: str = required("Text in which each [MASK] is to be predicted.")


@dataclass(frozen=True, kw_only=True)
class FillOptions:
    """Options of masked-word prediction."""

    top: int = setting(5, "Number of predictions per [MASK], the most probable first.", gt=0)


DEFAULT_OPTIONS = FillOptions()


@dataclass(frozen=True)
class FilledText:
    """A text, and the most probable words for each [MASK] in it, the best first."""

    text: str
    predictions: tuple[tuple[WordPrediction, ...], ...]


class EncoderBundle(EmbeddingBundle):
    """A text encoder of the BERT family with its tokenizer. The arguments are those of
    `EmbeddingBundle`."""

    kind: ClassVar[str] = "text encoder"
    inputs: ClassVar[InputSpec] = InputSpec(second=True)
    reader_class = EncoderTokenizer
    model: Bert
    tokenizer: EncoderTokenizer

    @checked
    @torch.inference_mode()
    def fill(
        self, texts: Sequence[str], top: int = 5, first: int = 1
    ) -> list[list[list[WordPrediction]]]:
        """Return the `top` most probable words for each [MASK] of each text, the best first.

        first: the number of the first text in error messages. Raises UsageError for a text without
        [MASK], for one that is too long, and for a model without a masked-language-modelling head.
        """
        if self.model.masked_lm_head is None:
            raise UsageError(
                "this model has no head for masked language modelling, so it cannot predict "
                "masked words",
                hint="use a model that was pretrained with masked language modelling",
            )
        sequences = [
            self._framed_with_masks(text, number) for number, text in enumerate(texts, start=first)
        ]
        predictions: list[list[list[WordPrediction]]] = [[] for _ in sequences]
        for chosen in shortest_first(sequences, BATCH):
            batch = self._batch([sequences[i] for i in chosen])
            hidden = self.model.encode(batch.tokens, batch.keys, batch.types)
            masked = batch.tokens == self.tokenizer.special_tokens.mask
            logits = self.model.words(hidden[masked])  # B T D -> M D -> M V
            # a vocabulary may be padded to a round number; no token belongs to these columns
            probabilities = logits[:, : self.tokenizer.size].float().softmax(-1)
            values, ids = probabilities.topk(min(top, self.tokenizer.size), dim=-1)
            owners = [chosen[row] for row in masked.nonzero()[:, 0].tolist()]
            for owner, best_ids, best_values in zip(
                owners, ids.tolist(), values.tolist(), strict=True
            ):
                best = zip(self.tokenizer.words(best_ids), best_values, best_ids, strict=True)
                predictions[owner].append([WordPrediction(*word) for word in best])
        return predictions

    def predict(
        self, inputs: Sequence[FillInput], options: FillOptions = DEFAULT_OPTIONS, *, first: int = 1
    ) -> list[FilledText]:
        """Return the predictions of `fill` for each input."""
        texts = [item.text for item in inputs]
        return [
            FilledText(text, tuple(map(tuple, words)))
            for text, words in zip(texts, self.fill(texts, options.top, first), strict=True)
        ]

    def filled(self, text: str, number: int, word: WordPrediction) -> str:
        """Return a text with a predicted word in place of its [MASK] of that number, from 0."""
        (mask,) = self.tokenizer.token_strings([self.tokenizer.special_tokens.mask])
        parts = text.split(mask)
        before, after = mask.join(parts[: number + 1]), mask.join(parts[number + 1 :])
        if word.word.startswith("##"):
            return before.rstrip() + word.word[2:] + after
        return before + word.word.strip() + after

    def reading(self, text: str, second: str | None = None) -> ForwardPass:
        """Return the forward pass over one or two texts, in which [MASK] is a masked position.

        The output is the logits of the word at each position, or the vectors if the model has no
        masked-language-modelling head. Raises UsageError if the texts are too long.
        """
        encode, special = self._encode_with_masks, self.tokenizer.special_tokens
        ids, types = special.frame(encode(text), None if second is None else encode(second))
        self._check_room(ids)
        run = self.model.encode if self.model.masked_lm_head is None else self.model
        return encoder_pass(self.model, self.tokenizer, ids, types, run=run)

    def _probe(self, request: ProbeRequest) -> Probe:
        reading = self.reading(request.input, request.second)
        readout, answer = None, ""
        if self.model.masked_lm_head is not None:
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
        """Return the readout of the logits at the masked positions."""
        size, mask = self.tokenizer.size, self.tokenizer.special_tokens.mask
        model, stack = self.model, self.model.encoder
        positions = [i for i, token in enumerate(ids) if token == mask]
        return Readout(
            side="text",
            positions=positions,
            # a vocabulary may be padded to a round number; no token belongs to these columns
            logits=lambda output: output[0, positions, :size],
            names=self.tokenizer.words,
            equation="z = norm(f(x W + b)) Eᵀ + c",
            function=MaskedTokenHead.forward,
            unembedding=Unembedding(
                stack=stack, logits=lambda hidden: model.words(stack.norm(hidden))
            ),
        )

    def _framed_with_masks(self, text: str, number: int = 1) -> list[int]:
        """Return the ids of a text with special tokens around it.

        number: of the text, for errors. Raises UsageError if it has no [MASK] or is too long.
        """
        special = self.tokenizer.special_tokens
        ids = self._encode_with_masks(text)
        if special.mask not in ids:
            (name,) = self.tokenizer.token_strings([special.mask])
            raise UsageError(
                f"the text {text[:60]!r} has no {name}",
                f"text {number}",
                f"write {name} for each word to predict",
            )
        framed, _ = special.frame(ids)
        self._check_room(framed, number)
        return framed

    def _encode_with_masks(self, text: str) -> list[int]:
        """Return the ids of a text without special tokens around it; [MASK] in it is encoded."""
        (name,) = self.tokenizer.token_strings([self.tokenizer.special_tokens.mask])
        parts = text.split(name)
        # [MASK] includes the space before it in tokenizers whose tokens include spaces
        encoded = self.tokenizer.encode_batch([*map(str.rstrip, parts[:-1]), parts[-1]])
        ids = encoded[0]
        for part in encoded[1:]:
            ids += [self.tokenizer.special_tokens.mask, *part]
        return ids

    def _check_room(self, ids: Sequence[int], number: int = 1) -> None:
        room = self.config.max_length
        if len(ids) > room:
            raise UsageError(
                f"the text has {len(ids):,} tokens, but this model accepts at most {room:,}",
                f"text {number}",
                "shorten or split the text",
            )

    @property
    def pad(self) -> int:
        return self.tokenizer.special_tokens.pad
