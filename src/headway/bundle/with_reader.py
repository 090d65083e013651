"""What bundles share that hold a model and a reader: a tokenizer, and labels if there are any."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import nn

from headway.bundle.contract import Bundle
from headway.bundle.files import check_fingerprint, check_pieces, save_files


class Reader(Protocol):
    """The strings-to-ids side of a bundle."""

    @property
    def fingerprint(self) -> str: ...

    def save(self, folder: Path) -> None: ...

    @classmethod
    def load(cls, folder: Path) -> Any: ...


class BundleWithReader(Bundle):
    """A bundle whose files are those of its model and of its reader."""

    reader_class: ClassVar[type[Reader]]
    reader: Any

    def __init__(self, model: nn.Module, reader: Any) -> None:
        """DataError if the tokenizer has more pieces than the model."""
        tokenizer = getattr(reader, "tokenizer", reader)
        config: Any = model.config
        check_pieces(tokenizer.size, getattr(config, "bert", config).vocabulary)
        self.model = model.eval()
        self.reader = reader

    @classmethod
    def open(cls, model: nn.Module, folder: Path, facts: dict[str, Any]) -> Bundle:
        """The model with the reader that stands beside it, which must be that of `facts`."""
        reader = cls.reader_class.load(folder)
        check_fingerprint(facts, reader.fingerprint, folder)
        return cls(model, reader)

    def save(self, folder: Path, *, overwrite: bool = False) -> None:
        """Write config.json, model.safetensors and the reader's files durably: `save_files`."""
        save_files(folder, self.model, self.reader, overwrite)

    @property
    def config(self) -> Any:
        config: Any = self.model.config
        return config

    @property
    def tokenizer(self) -> Any:
        """Of the reader, or the reader itself."""
        return getattr(self.reader, "tokenizer", self.reader)
