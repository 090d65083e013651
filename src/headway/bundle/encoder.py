"""A text encoder with its tokenizer: masked-word prediction and text embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

import torch
import torch.nn.functional as F

from headway.base.errors import DataError, UsageError
from headway.base.settings import required, setting
from headway.base.shapes import Float, Tensor
from headway.base.sharing import WHOLE, Share
from headway.base.tensors import read_tensors, write_tensors
from headway.blocks import Dense, MaskedTokenHead, Pooling, pool_text
from headway.bundle.arguments import checked
from headway.bundle.contract import InputSpec, ProbeRequest
from headway.bundle.files import CONFIG_FILE, check_vocabulary_size, save_files
from headway.bundle.forward_pass import Attending, ForwardPass, encoder_pass
from headway.bundle.probe import Probe, Readout, Unembedding
from headway.bundle.with_reader import StoredBundle
from headway.data.padding import EncoderBatch, collate_encoder_batch, shortest_first
from headway.interop import AS_THEY_ARE, EmbeddedTexts, dense_of, read_embedded_texts
from headway.models import Bert
from headway.text import EncoderTokenizer

BATCH = 32  # texts per forward pass
DENSE_FILE = "dense.safetensors"
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


@dataclass(frozen=True)
class _DenseFile:
    """The files of a tokenizer, and that of the layers after pooling."""

    tokenizer: EncoderTokenizer
    layers: Sequence[Dense]

    @property
    def fingerprint(self) -> str:
        return self.tokenizer.fingerprint

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)
        named = {
            f"{number}.{layer.activation}.{name}": value.detach().cpu()
            for number, layer in enumerate(self.layers)
            for name, value in layer.project.named_parameters()
        }
        write_tensors(folder / DENSE_FILE, named)

    @staticmethod
    def load(folder: Path) -> list[Dense]:
        """Return the layers that `save` wrote. Raises DataError for a file of another form."""
        path = folder / DENSE_FILE
        tensors, layers = read_tensors(path), []
        prefixes = sorted({name.rpartition(".")[0] for name in tensors})
        for number, prefix in enumerate(prefixes):
            activation = prefix.removeprefix(f"{number}.")
            if activation not in ("tanh", "none"):
                raise DataError(f"{prefix!r} is not the name of layer {number}", str(path))
            layers.append(dense_of(tensors, f"{prefix}.", activation, str(path)))
        return layers


class EncoderBundle(StoredBundle, Attending):
    """A text encoder of the BERT family with its tokenizer.

    pooling: how `embed` reduces the vectors of a text to one. length: maximum number of tokens of a
    text for `embed`, special tokens included; longer texts are truncated. If None, the model's
    maximum. texts: what `embed` does to texts and vectors besides, such as a prompt before a text.
    dense: layers on the vectors after pooling.
    """

    kind: ClassVar[str] = "text encoder"
    inputs: ClassVar[InputSpec] = InputSpec(second=True)
    reader_class = EncoderTokenizer
    model: Bert

    def __init__(
        self,
        model: Bert,
        tokenizer: EncoderTokenizer,
        pooling: Pooling = "mean",
        length: int | None = None,
        texts: EmbeddedTexts = AS_THEY_ARE,
        dense: Sequence[Dense] = (),
    ) -> None:
        check_vocabulary_size(tokenizer.size, model.config.vocabulary)
        super().__init__(model, tokenizer)
        self.tokenizer = tokenizer
        self.pooling: Pooling = pooling
        self.length = min(length or model.config.max_length, model.config.max_length)
        self.texts = texts
        self.dense = tuple(dense)
        width = model.config.model_dim
        for number, layer in enumerate(dense):
            if layer.project.in_features != width:
                raise DataError(
                    f"dense layer {number} takes vectors of width {layer.project.in_features}, but "
                    f"gets vectors of width {width}"
                )
            width = layer.project.out_features
        self.vector_dim = width

    @classmethod
    def open(cls, model: Bert, folder: Path, contents: dict[str, Any]) -> EncoderBundle:
        """Return the bundle of a model and the tokenizer in its folder.

        contents: of config.json. Raises DataError if the tokenizer does not match it.
        """
        tokenizer = cls.checked_reader(model, folder, contents)
        pooling, length = contents.get("pooling", "mean"), contents.get("length")
        whole = length is None or (type(length) is int and length > FRAME)
        if pooling not in get_args(Pooling) or not whole:
            raise DataError(
                f"pooling={pooling!r}, length={length!r}: pooling must be mean or first, length a "
                f"whole number above {FRAME}",
                str(folder / CONFIG_FILE),
            )
        texts = read_embedded_texts(contents.get("texts", {}), str(folder / CONFIG_FILE))
        dense = _DenseFile.load(folder) if (folder / DENSE_FILE).is_file() else ()
        return cls(model, tokenizer, pooling, length, texts, dense)

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

    @checked
    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: Pooling | None = None,
        normalise: bool = True,
        prompt: str | None = None,
    ) -> Float[Tensor, "N D"]:
        """Return one vector for each text: the mean of its token vectors, or the vector of [CLS].

        pooling: "mean" or "first"; if unset, `self.pooling`. prompt: the name of the model's prompt
        that precedes each text; if unset, the model's default, if it has one. normalise: scale
        vectors to length 1, so that a dot product is a cosine similarity. Texts longer than
        `self.length` are truncated. The vector of a text does not depend on the other texts.
        Reimers and Gurevych 2019, section 3.
        """
        prefix = self.texts.prefix(prompt)
        prepared = [self.texts.prepared(text, prefix) for text in texts]
        sequences = [
            self.tokenizer.special_tokens.frame(ids, room=self.length)[0]
            for ids in self.tokenizer.encode_batch(prepared)
        ]
        skipped = 0
        if prefix and not self.texts.pools_prompt:  # [CLS] and the prompt
            skipped = 1 + len(self.tokenizer.encode(self.texts.prepared("", prefix)))
        vectors = self.pooled(sequences, pooling or self.pooling, skipped=skipped)
        vectors = vectors[:, : self.texts.dimensions]
        return F.normalize(vectors, dim=-1) if normalise else vectors

    @torch.inference_mode()
    def pooled(
        self,
        rows: Sequence[Sequence[int]],
        pooling: Pooling,
        share: Share = WHOLE,
        skipped: int = 0,
    ) -> Float[Tensor, "N D"]:
        """Return the vectors of encoded texts (special tokens included), without normalisation:
        pooled, and then changed by the layers in `dense`.

        skipped: number of tokens at the beginning of a text that a mean leaves out. share: of an
        evaluation.
        """

        def compute(chosen: Sequence[int]) -> Float[Tensor, "B D"]:
            batch = self._batch([rows[i] for i in chosen])
            hidden = self.model.encode(batch.tokens, batch.keys, batch.types)
            keys = batch.keys
            if skipped and pooling == "mean":
                positions = torch.arange(hidden.shape[1], device=hidden.device)
                kept = positions >= skipped
                keys = kept.expand(hidden.shape[:2]) if keys is None else keys & kept
            vectors = pool_text(hidden, keys, pooling).float()
            for layer in self.dense:
                vectors = layer.to(vectors.device)(vectors)
            return vectors

        vectors = torch.zeros(len(rows), self.vector_dim, device=self.device)
        batches = list(shortest_first(rows, BATCH))
        for chosen, pooled in zip(batches, share.each(batches, compute, len), strict=True):
            vectors[chosen] = pooled.to(vectors.device)
        return vectors

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts of the model by name, one of which `embed` puts before each text."""
        return self.texts.prompts

    def lengths(self, texts: Sequence[str], prompt: str | None = None) -> list[int]:
        """Return the number of tokens of each text, special tokens included, before truncation.

        prompt: as in `embed`.
        """
        prefix = self.texts.prefix(prompt)
        prepared = [self.texts.prepared(text, prefix) for text in texts]
        return [FRAME + len(ids) for ids in self.tokenizer.encode_batch(prepared)]

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

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write config.json, model.safetensors and tokenizer.json durably: `files.save_files`."""
        settings: dict[str, object] = {"pooling": self.pooling, "length": self.length}
        if self.texts != AS_THEY_ARE:
            settings["texts"] = asdict(self.texts)
        text = _DenseFile(self.tokenizer, self.dense) if self.dense else self.tokenizer
        save_files(Path(folder), self.model, text, overwrite, settings)

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

    def _batch(self, rows: Sequence[Sequence[int]]) -> EncoderBatch:
        return collate_encoder_batch(rows, None, self.tokenizer.special_tokens.pad).to(
            str(self.device)
        )
