"""What a pretrained folder has besides weights and tokenizer: decoding defaults, chat template."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from headway.errors import DataError
from headway.files import read_bytes, read_json, write_file
from headway.interop.generation_config import (
    FILE,
    GenerationDefaults,
    Kind,
    read_generation_defaults,
)

TEMPLATE_FILE = "chat_template.jinja"
TOKENIZER_CONFIG = "tokenizer_config.json"
LARGEST_TEMPLATE = 2**17


@dataclass(frozen=True, kw_only=True)
class FolderSettings:
    """The settings of a pretrained folder, which survive fine-tuning, saving and export.

    generation: the defaults of decoding; None if the folder has none. template: the chat template;
    None if there is none.
    """

    generation: GenerationDefaults | None = None
    template: str | None = None

    def write(self, folder: Path) -> None:
        """Write generation_config.json and chat_template.jinja, as `read_folder_settings` reads
        them."""
        if self.generation is not None:
            text = json.dumps(dict(self.generation.values), indent=2, ensure_ascii=False)
            write_file(folder / FILE, f"{text}\n".encode())
        self.write_template(folder)

    def write_template(self, folder: Path) -> None:
        """Write chat_template.jinja if there is a template."""
        if self.template is not None:
            write_file(folder / TEMPLATE_FILE, self.template.encode())


NO_SETTINGS = FolderSettings()


def read_folder_settings(folder: Path, kind: Kind) -> FolderSettings:
    """Read the settings of a folder of another library. kind: what its model does."""
    generation = read_generation_defaults(folder, kind)
    return FolderSettings(generation=generation, template=read_chat_template(folder))


def read_saved_settings(folder: Path, kind: Kind) -> FolderSettings:
    """Read the settings that `FolderSettings.write` wrote; those that are missing are None."""
    generation = read_generation_defaults(folder, kind) if (folder / FILE).exists() else None
    return FolderSettings(generation=generation, template=read_chat_template(folder))


def read_chat_template(folder: Path) -> str | None:
    """Return the chat template in a model folder; None if there is none.

    It is in chat_template.jinja, or in tokenizer_config.json. Raises DataError if it is damaged.
    """
    path = folder / TEMPLATE_FILE
    if path.is_file():
        return read_bytes(path, LARGEST_TEMPLATE).decode("utf-8", errors="replace")
    path = folder / TOKENIZER_CONFIG
    if not path.is_file():
        return None
    content = read_json(path)
    template = content.get("chat_template") if isinstance(content, dict) else None
    if isinstance(template, list):  # several by name
        named = {t.get("name"): t.get("template") for t in template if isinstance(t, dict)}
        template = named.get("default")
    if template is not None and (not isinstance(template, str) or len(template) > LARGEST_TEMPLATE):
        raise DataError("chat_template must be a text of at most 128 KiB", str(path))
    return template
