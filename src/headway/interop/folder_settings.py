"""What a pretrained folder has besides weights and tokenizer: decoding defaults, chat template."""

from dataclasses import dataclass
from pathlib import Path

from headway.base.files import json_bytes, write_file
from headway.interop.chat_templates import ChatTemplate, read_chat_template
from headway.interop.generation_config import (
    FILE,
    GenerationDefaults,
    Kind,
    read_generation_defaults,
)


@dataclass(frozen=True, kw_only=True)
class FolderSettings:
    """The settings of a pretrained folder, which survive fine-tuning, saving and export.

    generation: the defaults of decoding; None if the folder has none. template: the chat templates;
    None if there are none.
    """

    generation: GenerationDefaults | None = None
    template: ChatTemplate | None = None

    def write(self, folder: Path) -> None:
        """Write the files that `read_saved_settings` reads."""
        if self.generation is not None:
            write_file(folder / FILE, json_bytes(dict(self.generation.values)))
        if self.template is not None:
            self.template.write(folder)


NO_SETTINGS = FolderSettings()


def read_folder_settings(folder: Path, kind: Kind) -> FolderSettings:
    """Read the settings of a folder of another library. kind: what its model does."""
    return _read(folder, kind, read_generation_defaults(folder, kind))


def read_saved_settings(folder: Path, kind: Kind) -> FolderSettings:
    """Read the settings that `FolderSettings.write` wrote; those that are missing are None."""
    has_file = (folder / FILE).exists()
    return _read(folder, kind, read_generation_defaults(folder, kind) if has_file else None)


def _read(folder: Path, kind: Kind, generation: GenerationDefaults | None) -> FolderSettings:
    """Return the settings with the chat templates, which only a language model has."""
    template = read_chat_template(folder) if kind == "language model" else None
    return FolderSettings(generation=generation, template=template)
