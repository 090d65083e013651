"""The named special tokens of a Hugging Face folder: bos_token, eos_token, pad_token and so on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.base.errors import DataError
from headway.base.files import read_json

CONFIG_FILE, MAP_FILE = NAMES_FILES = ("tokenizer_config.json", "special_tokens_map.json")
NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
"""The names that a chat template knows special tokens by."""
DECLARED = "added_tokens_decoder"
CLASSES = {
    "gpt2": "GPT2Tokenizer",
    "llama": "LlamaTokenizer",
    "openai-gpt": "OpenAIGPTTokenizer",
    "qwen2": "Qwen2Tokenizer",
    "qwen3": "Qwen2Tokenizer",
}
"""`model_type` in config.json -> the class of its tokenizer if no file names one."""
_END = "<|endoftext|>"
CLASS_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "GPT2Tokenizer": {"bos_token": _END, "eos_token": _END, "unk_token": _END},
    "LlamaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    "OpenAIGPTTokenizer": {"unk_token": "<unk>"},
    "Qwen2Tokenizer": {"eos_token": _END, "unk_token": _END, "pad_token": _END},
}
"""Class of a tokenizer -> its special tokens that no file needs to name."""


def read_json_object(path: Path) -> dict[str, object]:
    """Read a JSON object; return an empty one if there is no file."""
    if not path.exists():
        return {}
    values = read_json(path)
    if not isinstance(values, dict):
        raise DataError("must be a JSON object (names and values)", str(path))
    return values


def named_values(folder: Path) -> dict[str, tuple[object, Path]]:
    """Return the keys of tokenizer_config.json and special_tokens_map.json: (value, file).

    As in transformers, special_tokens_map.json has precedence, unless tokenizer_config.json
    declares all added tokens. A null in the one file does not hide a value in the other.
    """
    contents = [(folder / file, read_json_object(folder / file)) for file in NAMES_FILES]
    if DECLARED in contents[0][1]:
        contents.reverse()
    merged: dict[str, tuple[object, Path]] = {}
    for path, values in contents:
        for name, value in values.items():
            if value is not None or name not in merged:
                merged[name] = (value, path)
    return merged


def text_of(value: object) -> Any:
    """Return the text of a token, which a file has by itself or in an object with its flags."""
    return value.get("content") if isinstance(value, dict) else value


def template_tokens(folder: Path) -> dict[str, str] | None:
    """Return the texts of the special tokens that the files of a folder name, by `NAMES`, with the
    defaults of the class of the tokenizer; None if there is neither file.

    Raises DataError for a token that is no text.
    """
    if not any((folder / file).exists() for file in NAMES_FILES):
        return None
    values = named_values(folder)
    model_type = read_json_object(folder / "config.json").get("model_type")
    kind = values.get("tokenizer_class", (None, folder))[0] or CLASSES.get(str(model_type))
    texts = dict(CLASS_DEFAULTS.get(str(kind).removesuffix("Fast"), {}))
    for name in NAMES:
        if name not in values:
            continue
        value, path = values[name]
        text = text_of(value)
        if text is None:
            texts.pop(name, None)
        elif isinstance(text, str):
            texts[name] = text
        else:
            raise DataError(f"{name}={str(value)[:80]}: must be the text of a token", str(path))
    return texts
