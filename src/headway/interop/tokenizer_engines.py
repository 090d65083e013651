"""Read and write tokenizer.json with the settings in the other files of a Hugging Face folder."""

from collections.abc import Mapping
from pathlib import Path

import tokenizers

from headway.base.files import json_bytes, read_json, write_file
from headway.interop.added_tokens import with_added_tokens
from headway.interop.hf_config import HFConfig
from headway.interop.named_tokens import CONFIG_FILE, read_json_object
from headway.interop.tokenizer_keys import GENERIC_CLASSES, check_tokenizer_keys
from headway.text import PretrainedTokenizer
from headway.text.hf_tokenizer import FILE, FILE_LIMIT


def read_engine(folder: Path) -> tokenizers.Tokenizer:
    """Read tokenizer.json, with the tokens that other files of its folder add.

    As in transformers, the settings of tokenizer_config.json for lower case, accents and a space
    before a text take precedence. A HeadwayWarning names each setting that is ignored. Raises
    DataError for damaged files.
    """
    content = read_json(folder / FILE, FILE_LIMIT)
    normalizer, splitter = (
        content.get(key) if isinstance(content, dict) else None
        for key in ("normalizer", "pre_tokenizer")
    )
    if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        normalizer |= word_settings(folder)
    if isinstance(splitter, dict) and splitter.get("type") == "ByteLevel":
        splitter |= _space_settings(folder)
    engine = PretrainedTokenizer.engine_of(content, str(folder / FILE))
    return finished(engine, folder)


def finished(engine: tokenizers.Tokenizer, folder: Path) -> tokenizers.Tokenizer:
    """Return an engine with the tokens that the files of its folder add; check their keys."""
    engine = with_added_tokens(engine, folder)
    check_tokenizer_keys(folder, engine)
    return engine


def write_engine(
    engine: tokenizers.Tokenizer,
    folder: Path,
    roles: Mapping[str, int],
    max_length: int,
    **settings: object,
) -> None:
    """Write tokenizer.json in Hugging Face's format, and tokenizer_config.json for transformers.

    roles: the ids of the special tokens by their names (`bos_token`). max_length: of the model.
    settings: further keys of tokenizer_config.json.
    """
    write_file(folder / FILE, str(engine.to_str(pretty=True)).encode())
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{name: str(engine.id_to_token(number)) for name, number in roles.items()},
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        **settings,
    }
    write_file(folder / CONFIG_FILE, json_bytes(tokenizer_config))


def word_settings(folder: Path) -> dict[str, bool]:
    """Return BERT's settings of text normalisation in tokenizer_config.json, by the names of the
    tokenizers library."""
    tokenizer_config = _config(folder)
    names = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "handle_chinese_chars",
    }
    return {
        ours: tokenizer_config.flag(theirs, False)
        for theirs, ours in names.items()
        if theirs in tokenizer_config.values
    }


def _space_settings(folder: Path) -> dict[str, bool]:
    """Return whether a space precedes every text, if the class of the tokenizer says so itself."""
    tokenizer_config = _config(folder)
    name = str(tokenizer_config.values.get("tokenizer_class")).removesuffix("Fast")
    if name in GENERIC_CLASSES or "add_prefix_space" not in tokenizer_config.values:
        return {}
    return {"add_prefix_space": tokenizer_config.flag("add_prefix_space", False)}


def _config(folder: Path) -> HFConfig:
    return HFConfig(read_json_object(folder / CONFIG_FILE), str(folder / CONFIG_FILE))
