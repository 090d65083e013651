"""Text embeddings: what all bundles do whose model makes vectors of the tokens of a text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import torch
import torch.nn.functional as F

from headway.base.errors import DataError
from headway.base.shapes import Float, Tensor
from headway.base.sharing import WHOLE, Share
from headway.base.tensors import read_tensors, write_tensors
from headway.blocks import Dense, Pooling, pool_text
from headway.bundle.arguments import checked
from headway.bundle.files import CONFIG_FILE, check_vocabulary_size, save_files
from headway.bundle.forward_pass import Attending
from headway.bundle.with_reader import StoredBundle
from headway.data.padding import EncoderBatch, collate_encoder_batch, shortest_first
from headway.interop import AS_THEY_ARE, EmbeddedTexts, dense_of, read_embedded_texts
from headway.text import EncoderTokenizer, PretrainedTokenizer

BATCH = 32  # texts per forward pass
DENSE_FILE = "dense.safetensors"


@dataclass(frozen=True)
class _DenseFile:
    """The files of a tokenizer, and that of the layers after pooling."""

    tokenizer: Any
    layers: Sequence[Dense]

    @property
    def fingerprint(self) -> str:
        return str(self.tokenizer.fingerprint)

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
        names = {name.rpartition(".")[0] for name in tensors}
        # by length first: layer 10 comes after layer 9
        prefixes = sorted(names, key=lambda name: (len(name.partition(".")[0]), name))
        for number, prefix in enumerate(prefixes):
            activation = prefix.removeprefix(f"{number}.")
            if activation not in ("tanh", "none"):
                raise DataError(f"{prefix!r} is not the name of layer {number}", str(path))
            layers.append(dense_of(tensors, f"{prefix}.", activation, str(path)))
        return layers


class EmbeddingBundle(StoredBundle, Attending):
    """A model that makes vectors of tokens, with its tokenizer.

    pooling: how `embed` reduces the vectors of a text to one. length: maximum number of tokens of a
    text for `embed`, special tokens included; longer texts are truncated. If None, the model's
    maximum. texts: what `embed` does to texts and vectors besides, such as a prompt before a text.
    dense: layers on the vectors after pooling.
    """

    model: Any
    tokenizer: Any

    def __init__(
        self,
        model: Any,
        tokenizer: EncoderTokenizer | PretrainedTokenizer,
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

    @property
    @abstractmethod
    def pad(self) -> int:
        """The id at the padding of a batch."""

    @classmethod
    def open(cls, model: Any, folder: Path, contents: dict[str, Any]) -> EmbeddingBundle:
        """Return the bundle of a model and the tokenizer in its folder.

        contents: of config.json. Raises DataError if the tokenizer does not match it.
        """
        tokenizer = cls.checked_reader(model, folder, contents)
        pooling, length = contents.get("pooling", "mean"), contents.get("length")
        whole = length is None or (type(length) is int and length > 2)
        if pooling not in get_args(Pooling) or not whole:
            raise DataError(
                f"pooling={pooling!r}, length={length!r}: pooling must be "
                f"{' or '.join(get_args(Pooling))}, length a whole number above 2",
                str(folder / CONFIG_FILE),
            )
        texts = read_embedded_texts(contents.get("texts", {}), str(folder / CONFIG_FILE))
        dense = _DenseFile.load(folder) if (folder / DENSE_FILE).is_file() else ()
        return cls(model, tokenizer, pooling, length, texts, dense)

    @checked
    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: Pooling | None = None,
        normalise: bool = True,
        prompt: str | None = None,
    ) -> Float[Tensor, "N D"]:
        """Return one vector for each text: the mean of its token vectors, or one of them.

        pooling: "mean", "first" or "last"; if unset, `self.pooling`. prompt: the name of the
        model's prompt that precedes each text; if unset, the model's default, if it has one.
        normalise: scale vectors to length 1, so that a dot product is a cosine similarity. Texts
        longer than `self.length` are truncated. The vector of a text does not depend on the other
        texts. Reimers and Gurevych 2019, section 3.
        """
        prefix = self.texts.prefix(prompt)
        prepared = [self.texts.prepared(text, prefix) for text in texts]
        before, after = self.tokenizer.frame
        room = max(0, self.length - len(before) - len(after))
        sequences = [
            [*before, *ids[:room], *after] for ids in self.tokenizer.encode_batch(prepared)
        ]
        skipped = 0
        if prefix and not self.texts.pools_prompt:  # [CLS] and the prompt
            prompt_ids = self.tokenizer.encode(self.texts.prepared("", prefix))
            skipped = len(before) + len(prompt_ids)
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
        special = sum(map(len, self.tokenizer.frame))
        return [special + len(ids) for ids in self.tokenizer.encode_batch(prepared)]

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write config.json, model.safetensors and tokenizer.json durably: `files.save_files`."""
        settings: dict[str, object] = {"pooling": self.pooling, "length": self.length}
        if self.texts != AS_THEY_ARE:
            settings["texts"] = asdict(self.texts)
        text = _DenseFile(self.tokenizer, self.dense) if self.dense else self.tokenizer
        save_files(Path(folder), self.model, text, overwrite, settings)

    def _batch(self, rows: Sequence[Sequence[int]]) -> EncoderBatch:
        return collate_encoder_batch(rows, None, self.pad).to(str(self.device))
