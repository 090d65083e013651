"""What bundles share whose files are those of a model and of what makes its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import nn

from headway.bundle.contract import Bundle
from headway.bundle.files import check_fingerprint, check_pieces, save_files


class Reader(Protocol):
    """What turns inputs into numbers, and outputs into names: a tokenizer, an image reader, labels.

    fingerprint: sha256 of all that these numbers and names depend on.
    """

    @property
    def fingerprint(self) -> str: ...

    def save(self, folder: Path) -> None: ...

    @classmethod
    def load(cls, folder: Path) -> Any: ...


class StoredBundle(Bundle):
    """A bundle whose files are those of its model and of its reader, whatever the reader is called
    in the bundle."""

    reader_class: ClassVar[type[Reader]]

    def __init__(self, model: nn.Module, reader: Any) -> None:
        self.model = model.eval()
        self._stored = reader

    @classmethod
    def load_reader(cls, model: Any, folder: Path) -> Any:
        """The reader in the model's folder."""
        return cls.reader_class.load(folder)

    @classmethod
    def checked_reader(cls, model: Any, folder: Path, facts: dict[str, Any]) -> Any:
        """The reader in the model's folder. DataError unless it is that of `facts`."""
        reader = cls.load_reader(model, folder)
        check_fingerprint(facts, reader.fingerprint, folder)
        return reader

    @classmethod
    def open(cls, model: Any, folder: Path, facts: dict[str, Any]) -> Bundle:
        """The model with the reader that stands beside it, which must be that of `facts`."""
        return cls(model, cls.checked_reader(model, folder, facts))

    def save(self, folder: Path, *, overwrite: bool = False) -> None:
        """Write config.json, model.safetensors and the reader's files durably: `save_files`."""
        save_files(folder, self.model, self._stored, overwrite)

    @property
    def config(self) -> Any:
        config: Any = self.model.config
        return config


class BundleWithReader(StoredBundle):
    """A bundle of a model that is made from an encoder, and of a reader: a tokenizer, or what has
    one."""

    reader: Any

    def __init__(self, model: nn.Module, reader: Any) -> None:
        """DataError if the tokenizer has more pieces than the model."""
        super().__init__(model, reader)
        self.reader = reader
        config = self.config
        check_pieces(self.tokenizer.size, getattr(config, "bert", config).vocabulary)

    @property
    def tokenizer(self) -> Any:
        """Of the reader, or the reader itself."""
        return getattr(self.reader, "tokenizer", self.reader)
