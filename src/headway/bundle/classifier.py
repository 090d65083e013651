"""A text classifier with its tokenizer and its labels: texts in, what they are out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from headway.bundle.files import check_fingerprint, save_files
from headway.data.labelled import collate_labelled
from headway.errors import DataError, UsageError
from headway.files import read_json, write_file
from headway.models import TextClassifier, TextClassifierConfig
from headway.text import TextTokenizer, load_tokenizer

CLASSES_FILE = "classes.json"
FORMAT = 1
ROWS = 64  # texts classified at once


@dataclass(frozen=True)
class Classified:
    """What a text is. probabilities: of every label, the likeliest first, together 1."""

    label: str
    probabilities: dict[str, float]


@dataclass(frozen=True)
class ClassReader:
    """The strings-to-ids side of a classifier: tokenizer, labels, and how long a text may be.

    labels: in the order of the classes, each once. max_length: tokens that are read of a text, its
    two marks included; what is longer is cut at its end.
    """

    tokenizer: TextTokenizer
    labels: tuple[str, ...]
    max_length: int

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """<bos>, the text, <eos>: the last token has read the whole of it."""
        end, most = self.tokenizer.eos, self.max_length - 1
        return [[*self.tokenizer.begin(text)[:most], end] for text in texts]

    @property
    def fingerprint(self) -> str:
        """sha256 of all that the ids and the names of the classes depend on."""
        return hashlib.sha256(self.tokenizer.fingerprint.encode() + self._json()).hexdigest()

    def _json(self) -> bytes:
        facts = {"format": FORMAT, "labels": self.labels, "max_length": self.max_length}
        return (json.dumps(facts, ensure_ascii=False, indent=1) + "\n").encode()

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and classes.json."""
        self.tokenizer.save(folder)
        write_file(folder / CLASSES_FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> ClassReader:
        """Read what `save` wrote. DataError if it is not that."""
        path = folder / CLASSES_FILE
        facts = read_json(path)
        labels = facts.get("labels") if isinstance(facts, dict) else None
        if (
            not isinstance(facts, dict)
            or facts.get("format") != FORMAT
            or not isinstance(labels, list)
            or not all(isinstance(label, str) for label in labels)
            or len(set(labels)) != len(labels)
            or type(facts.get("max_length")) is not int
            or facts["max_length"] < 2
        ):
            raise DataError(f"not a list of classes (format {FORMAT})", str(path))
        return cls(load_tokenizer(folder), tuple(labels), facts["max_length"])


class ClassifierBundle:
    """A `TextClassifier` with what it reads and the names of its classes."""

    kind: ClassVar[str] = "classifier"

    def __init__(self, model: TextClassifier, reader: ClassReader) -> None:
        if len(reader.labels) != model.config.num_classes:
            raise DataError(
                f"there are {len(reader.labels)} labels, the model has "
                f"{model.config.num_classes} classes",
                hint="the model and the labels are not from the same training",
            )
        self.model = model.eval()
        self.reader = reader

    @classmethod
    def open(cls, model: TextClassifier, folder: Path, facts: dict[str, Any]) -> ClassifierBundle:
        """The model with tokenizer and labels beside it, which must be those of `facts`."""
        reader = ClassReader.load(folder)
        check_fingerprint(facts, reader.fingerprint, folder)
        return cls(model, reader)

    @property
    def config(self) -> TextClassifierConfig:
        return self.model.config

    @property
    def labels(self) -> tuple[str, ...]:
        return self.reader.labels

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @torch.inference_mode()
    def classify(self, texts: Sequence[str]) -> list[Classified]:
        """What each text is, in order. What one gets does not depend on the others."""
        if isinstance(texts, str):
            raise UsageError("texts must be a list of texts, not one string", hint="[text]")
        rows = self.reader.encode(texts)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))  # little padding
        found: dict[int, Classified] = {}
        for start in range(0, len(order), ROWS):
            chosen = order[start : start + ROWS]
            batch = collate_labelled(
                [rows[i] for i in chosen], [0] * len(chosen), self.reader.tokenizer.eos, chosen
            ).to(str(self.device))
            shares = self.model(batch.tokens, batch.keys).float().softmax(-1).tolist()
            found |= {i: self._named(row) for i, row in zip(chosen, shares, strict=True)}
        return [found[i] for i in range(len(rows))]

    def _named(self, shares: list[float]) -> Classified:
        ranked = sorted(zip(self.labels, shares, strict=True), key=lambda pair: -pair[1])
        return Classified(ranked[0][0], dict(ranked))

    def save(self, folder: Path, *, overwrite: bool = False) -> None:
        """Write config.json, model.safetensors, tokenizer.json and classes.json durably:
        `files.save_files`."""
        save_files(folder, self.model, self.reader, overwrite)
