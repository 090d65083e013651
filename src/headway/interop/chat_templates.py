"""The chat templates of a model folder, and the special tokens that they get."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.base.files import json_bytes, read_bytes, read_json, write_file
from headway.interop.named_tokens import CONFIG_FILE, NAMES, read_json_object, template_tokens

LARGEST_TEMPLATE = 2**17
TEMPLATE_FILE, FURTHER_TEMPLATES = "chat_template.jinja", "additional_chat_templates"
DEFAULT, WITH_TOOLS = "default", "tool_use"
_FILE_NAME = re.compile(r"\w[\w .-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class ChatTemplate:
    """The chat templates of a model.

    by_name: the templates by their names, of which `DEFAULT` and `WITH_TOOLS` are selected without
    being named. special_tokens: the texts of the special tokens that the template gets as
    variables, by their names (bos_token); None for those of the tokenizer.
    """

    by_name: Mapping[str, str]
    special_tokens: Mapping[str, str] | None = None

    @property
    def default(self) -> str | None:
        """The template for a conversation without tools."""
        return self.by_name.get(DEFAULT)

    def selected(self, name: str | None, *, has_tools: bool) -> str:
        """Return the template of a name; without one that for tools, or the default.

        Raises UsageError if there is no such template.
        """
        if name is None:
            name = WITH_TOOLS if has_tools and WITH_TOOLS in self.by_name else DEFAULT
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name))
            raise UsageError(f"there is no chat template {name!r}; templates: {known}")
        return self.by_name[name]

    def write(self, folder: Path) -> None:
        """Write the templates as `read_chat_template` reads them.

        If a tokenizer_config.json exists in the folder, its special tokens are replaced by those of
        the templates.
        """
        for name, template in self.by_name.items():
            path = folder / FURTHER_TEMPLATES / f"{name}.jinja"
            if name == DEFAULT:
                path = folder / TEMPLATE_FILE
            path.parent.mkdir(exist_ok=True)
            write_file(path, template.encode())
        if self.special_tokens is not None:
            path = folder / CONFIG_FILE
            others = {k: v for k, v in read_json_object(path).items() if k not in NAMES}
            write_file(path, json_bytes({**others, **self.special_tokens}))


def read_chat_template(*folders: Path) -> ChatTemplate | None:
    """Return the chat templates in the first of these folders that has any; None if none has.

    They are in chat_template.jinja and in `FURTHER_TEMPLATES`, or else in tokenizer_config.json, as
    a text or as a list of named ones. Raises DataError for damaged files.
    """
    for place in folders:
        by_name = _template_files(place) or _configured_templates(place / CONFIG_FILE)
        if by_name:
            return ChatTemplate(by_name=by_name, special_tokens=template_tokens(place))
    return None


def _template_files(folder: Path) -> dict[str, str]:
    paths = {path.stem: path for path in sorted((folder / FURTHER_TEMPLATES).glob("*.jinja"))}
    if (folder / TEMPLATE_FILE).is_file():
        paths.setdefault(DEFAULT, folder / TEMPLATE_FILE)
    return {name: _read_text(path) for name, path in paths.items()}


def _read_text(path: Path) -> str:
    try:
        return read_bytes(path, LARGEST_TEMPLATE).decode()
    except UnicodeDecodeError as error:
        hint = "save the chat template as UTF-8"
        raise DataError(f"not UTF-8: {error}", str(path), hint) from error


def _configured_templates(path: Path) -> dict[str, str]:
    """Return the chat templates in tokenizer_config.json, by name."""
    content = read_json(path) if path.is_file() else None
    value = content.get("chat_template") if isinstance(content, dict) else None
    if value is None:
        return {}
    by_name = {DEFAULT: value}
    if isinstance(value, dict):
        by_name = value
    elif isinstance(value, list):
        by_name = {_named(n, item, path): item.get("template") for n, item in enumerate(value)}
    for name, template in by_name.items():
        if not isinstance(template, str) or len(template) > LARGEST_TEMPLATE:
            raise DataError(f"chat_template {name!r} must be a text of at most 128 KiB", str(path))
        if not _FILE_NAME.fullmatch(name):  # it becomes one when the model is saved
            why = f"chat_template: {name[:80]!r} must be a name of letters, digits and . - _"
            raise DataError(why, str(path))
    return by_name


def _named(number: int, item: object, path: Path) -> str:
    """Return the name of an item of a list of templates."""
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str):
        found = f"{item!r:.80}"
        why = f"chat_template[{number}] must be an object with name and template, found {found}"
        raise DataError(why, str(path))
    return name
