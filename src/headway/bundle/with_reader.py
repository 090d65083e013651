"""Base classes of bundles, a model with a reader (tokenizer, image reader, labels), and of readers
with settings."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import nn

from headway.base.errors import DataError
from headway.base.files import json_bytes, read_json, write_file
from headway.bundle.contract import Bundle
from headway.bundle.files import check_fingerprint, check_vocabulary_size, save_files
from headway.data.image_reader import ImageReader
from headway.interop import NO_SETTINGS, FolderSettings, Kind, read_saved_settings

SETTINGS_FORMAT = 1
"""Format of the JSON file of a reader's settings."""


class Preprocessing(Protocol):
    """A tokenizer or an image reader.

    fingerprint: sha256 of everything that preprocessing and names depend on.
    """

    @property
    def fingerprint(self) -> str: ...

    def save(self, folder: Path) -> None: ...


class Reader(Preprocessing, Protocol):
    """Preprocesses inputs and names outputs: a tokenizer, an image reader, labels."""

    @classmethod
    def load(cls, folder: Path) -> Any: ...


class StoredReader(ABC):
    """A tokenizer or an image reader, with settings such as labels in a JSON file beside its files.

    A subclass sets `FILE`, the name of that file, implements `contents`, and adds `load`, which
    loads the files that `save` wrote and raises DataError if they are invalid.
    """

    FILE: ClassVar[str]

    @abstractmethod
    def contents(self) -> tuple[Preprocessing, dict[str, object]]:
        """Return the tokenizer or the image reader, and the settings."""

    @property
    def fingerprint(self) -> str:
        """The sha256 of everything that preprocessing and names depend on."""
        reader, settings = self.contents()
        return hashlib.sha256(reader.fingerprint.encode() + _settings_json(settings)).hexdigest()

    def save(self, folder: Path) -> None:
        """Write the files of the tokenizer or the image reader, and that of the settings."""
        reader, settings = self.contents()
        reader.save(folder)
        write_file(folder / self.FILE, _settings_json(settings))

    @classmethod
    def load_settings(
        cls, folder: Path, are_valid: Callable[[dict[str, object]], bool], expected: str
    ) -> dict[str, Any]:
        """Load the settings that `save` wrote.

        expected: what the file must hold, in words. Raises DataError if it has another format, or
        if the settings are not valid.
        """
        path = folder / cls.FILE
        settings = read_json(path)
        is_known = isinstance(settings, dict) and settings.get("format") == SETTINGS_FORMAT
        if not is_known or not are_valid(settings):
            raise DataError(f"expected {expected} (format {SETTINGS_FORMAT})", str(path))
        return dict(settings)


class StoredImageReader(StoredReader):
    """A tokenizer with its settings, and an image reader beside it.

    images: the image reader.
    """

    images: ImageReader

    @property
    def fingerprint(self) -> str:
        """The sha256 of everything that pixels and tokens depend on."""
        parts = f"{self.images.fingerprint} {super().fingerprint}"
        return hashlib.sha256(parts.encode()).hexdigest()

    def save(self, folder: Path) -> None:
        """Write images.json, the files of the tokenizer, and that of the settings."""
        self.images.save(folder)
        super().save(folder)


def _settings_json(settings: dict[str, object]) -> bytes:
    return json_bytes({"format": SETTINGS_FORMAT, **settings})


@dataclass(frozen=True)
class _Files:
    """The files of a bundle besides its configuration and weights."""

    reader: Any
    settings: FolderSettings

    @property
    def fingerprint(self) -> str:
        return str(self.reader.fingerprint)

    def save(self, folder: Path) -> None:
        self.reader.save(folder)
        self.settings.write(folder)


class StoredBundle(Bundle):
    """A bundle that saves a model and a reader. Subclasses may give the reader any attribute
    name.

    settings: decoding defaults and chat template of the pretrained folder that the model is from.
    """

    reader_class: ClassVar[type[Reader]]
    settings_kind: ClassVar[Kind | None] = None
    """What the model does, if it may have such settings."""

    def __init__(
        self, model: nn.Module, reader: object, settings: FolderSettings = NO_SETTINGS
    ) -> None:
        self.model = model.eval()
        self._stored, self.settings = reader, settings

    @classmethod
    def load_reader(cls, model: Any, folder: Path) -> Any:
        """Load the reader from the model's folder."""
        return cls.reader_class.load(folder)

    @classmethod
    def checked_reader(cls, model: Any, folder: Path, contents: dict[str, object]) -> Any:
        """Load the reader from the model's folder.

        contents: of config.json. Raises DataError if the reader does not match it.
        """
        reader = cls.load_reader(model, folder)
        check_fingerprint(contents, reader.fingerprint, folder)
        return reader

    @classmethod
    def open(cls, model: Any, folder: Path, contents: dict[str, object]) -> Bundle:
        """Return the bundle of a model and the reader in its folder.

        contents: of config.json. Raises DataError if the reader does not match it.
        """
        bundle = cls(model, cls.checked_reader(model, folder, contents))
        if cls.settings_kind is not None:
            bundle.settings = read_saved_settings(folder, cls.settings_kind)
        return bundle

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write config.json, model.safetensors, the reader's files and the settings durably, see
        `save_files`."""
        save_files(Path(folder), self.model, _Files(self._stored, self.settings), overwrite)

    @property
    def config(self) -> Any:
        config: Any = self.model.config
        return config


class BundleWithReader(StoredBundle):
    """A bundle of a model built on an encoder, and a reader: a tokenizer, or an object that has
    one."""

    reader: Any

    def __init__(self, model: nn.Module, reader: object) -> None:
        """Raise DataError if the tokenizer has more tokens than the model's vocabulary."""
        super().__init__(model, reader)
        self.reader = reader
        config = self.config
        check_vocabulary_size(self.tokenizer.size, getattr(config, "bert", config).vocabulary)

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the reader, or the reader itself."""
        return getattr(self.reader, "tokenizer", self.reader)
