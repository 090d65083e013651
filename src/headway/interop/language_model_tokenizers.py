"""Read the tokenizer of a language model's Hugging Face folder: tokenizer.json, or GPT-2's two
files."""

import warnings
from collections.abc import Collection, Mapping
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from headway.base.errors import DataError, HeadwayWarning
from headway.base.files import read_bytes, read_json
from headway.interop.named_tokens import NAMES_FILES, named_values, read_json_object, text_of
from headway.interop.tokenizer_engines import finished, read_engine
from headway.text import MissingTokenizer, PretrainedTokenizer
from headway.text.hf_tokenizer import FILE, FILE_LIMIT, LARGEST_ID

VOCABULARY_FILE, MERGES_FILE = "vocab.json", "merges.txt"
IDS_FILES = ("generation_config.json", "config.json")
END = "<|endoftext|>"


def read_tokenizer(folder: str | Path) -> PretrainedTokenizer | MissingTokenizer:
    """Read the tokenizer of a language model from `tokenizer.json`, or from GPT-2's `vocab.json`
    and `merges.txt`. If there are neither, the result is an `MissingTokenizer`.

    The tokens that other files add to it have their ids (`added_tokens`). The tokens that
    begin and end a text (bos, eos) are named in tokenizer_config.json or special_tokens_map.json,
    or have their ids in generation_config.json or config.json; if only one of them is specified,
    the other is the same. All ids of `eos_token_id` end an output, too: it may be a list, and that
    of generation_config.json replaces that of config.json, as in transformers. An id that the
    tokenizer does not have is ignored, with a HeadwayWarning. Raises DataError for a file that is
    damaged or too large.
    """
    folder = Path(folder)
    if (folder / FILE).exists():
        engine = read_engine(folder)
        return PretrainedTokenizer(engine, *_ends(folder, engine.get_vocab()))
    if (folder / VOCABULARY_FILE).exists() and (folder / MERGES_FILE).exists():
        return _two_files(folder)
    needed = f"add {FILE}, or GPT-2's {VOCABULARY_FILE} and {MERGES_FILE} to the folder"
    return MissingTokenizer(DataError("there is no tokenizer", str(folder), needed))


def _two_files(folder: Path) -> PretrainedTokenizer:
    """Read GPT-2's two files, with the bos token that its settings may add before a text."""
    engine = byte_level(folder, "GPT-2", ("GPT2Tokenizer", "GPT2TokenizerFast", "gpt2"))
    engine = finished(engine, folder)
    vocabulary = engine.get_vocab()
    bos, eos, ends = _ends(folder, vocabulary, vocabulary.get(END))
    if read_json_object(folder / NAMES_FILES[0]).get("add_bos_token") is True:
        name = str(engine.id_to_token(bos))
        engine.post_processor = processors.TemplateProcessing(
            single=[name, "$A"], special_tokens=[(name, bos)]
        )
    return PretrainedTokenizer(engine, bos, eos, ends)


def byte_level(folder: Path, maker: str, names: Collection[str]) -> tokenizers.Tokenizer:
    """Read the byte-level BPE of `vocab.json` and `merges.txt`, with the pre-tokenizer of `maker`.

    maker: name of the model family, for errors. names: its tokenizer classes and model types.
    Raises DataError for the files of other families.
    """
    tokenizer_config = read_json_object(folder / NAMES_FILES[0])
    kind = tokenizer_config.get("tokenizer_class") or read_json_object(folder / "config.json").get(
        "model_type"
    )
    if kind is not None and kind not in list(names):
        raise DataError(
            f"{VOCABULARY_FILE} and {MERGES_FILE} are of {str(kind)[:80]!r}, which may split text "
            f"differently than {maker}",
            str(folder),
            f"add the {FILE} of the model to the folder",
        )
    vocabulary = vocabulary_of(folder / VOCABULARY_FILE)
    merges = merges_of(folder / MERGES_FILE)
    try:
        engine = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    except Exception as error:  # the engine raises bare Exception for a merge that is not a token
        why = f"does not match {VOCABULARY_FILE}: {error}"
        raise DataError(why, str(folder / MERGES_FILE)) from error
    space = tokenizer_config.get("add_prefix_space") is True
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    engine.decoder = decoders.ByteLevel()
    return engine


def vocabulary_of(path: Path) -> dict[str, int]:
    """Read the vocabulary of a byte-level BPE: tokens -> ids."""
    vocabulary = read_json(path, FILE_LIMIT)
    if not isinstance(vocabulary, dict) or not vocabulary:
        raise DataError("must be a JSON object of tokens and their ids", str(path))
    ids = list(vocabulary.values())
    wrong = [i for i in ids if type(i) is not int or not 0 <= i <= LARGEST_ID]
    if wrong or len(set(ids)) < len(ids):
        found = f"found {wrong[0]!r:.80}" if wrong else "one is there twice"
        raise DataError(f"the ids must be from 0 to {LARGEST_ID:,}, each once; {found}", str(path))
    absent = [letter for letter in pre_tokenizers.ByteLevel.alphabet() if letter not in vocabulary]
    if absent:
        why = f"{len(absent)} of the 256 bytes have no token: not GPT-2's byte-level BPE"
        raise DataError(why, str(path), f"add the {FILE} of the model to the folder")
    return vocabulary


def merges_of(path: Path) -> list[tuple[str, str]]:
    """Read merges: two tokens per line, after a line with the version."""
    try:
        lines = read_bytes(path, FILE_LIMIT).decode().split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error}", str(path)) from error
    merges = []
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix("\r")
        if not text or (number == 1 and text.startswith("#version")):
            continue
        left, space, right = text.partition(" ")
        if not (left and space and right) or " " in right:
            raise DataError(
                f"expected two tokens and a space between them, found {text[:80]!r}",
                f"{path}:{number}",
            )
        merges.append((left, right))
    return merges


def _ends(
    folder: Path, vocabulary: Mapping[str, int], default: int | None = None
) -> tuple[int, int, list[int]]:
    """Return the ids of bos and eos, `default` if no file specifies them, and all that end an
    output."""
    begins, ends = (_known_ids(folder, vocabulary, f"{name}_token_id") for name in ("bos", "eos"))
    bos, eos = (special_token_id(folder, vocabulary, f"{name}_token") for name in ("bos", "eos"))
    bos = bos if bos is not None else next(iter(begins), None)
    eos = eos if eos is not None else next(iter(ends), None)
    bos, eos = bos if bos is not None else eos, eos if eos is not None else bos
    bos, eos = bos if bos is not None else default, eos if eos is not None else default
    if bos is None or eos is None:
        raise DataError(
            "no file specifies the token that begins or ends a text (bos, eos)",
            str(folder),
            f"add bos_token or eos_token to {NAMES_FILES[0]}",
        )
    return bos, eos, ends


def special_token_id(folder: Path, vocabulary: Mapping[str, int], name: str) -> int | None:
    """Return the id of the special token of this name (`eos_token`); None if no file names it."""
    value, path = named_values(folder).get(name, (None, folder))
    if value is None:
        return None
    text = text_of(value)
    if not isinstance(text, str) or text not in vocabulary:
        why = f"{name}={str(value)[:80]}: must be a token of the tokenizer"
        raise DataError(why, str(path))
    return vocabulary[text]


def _known_ids(folder: Path, vocabulary: Mapping[str, int], key: str) -> list[int]:
    """Return the ids that the files have for a role and the tokenizer has, too.

    Each other one is ignored, with a HeadwayWarning.
    """
    known = set(vocabulary.values())
    for file in IDS_FILES:
        numbers = role_ids(folder / file, key)
        for number in numbers:
            if number not in known:
                text = f"{key}={number} is ignored: the tokenizer has no token with this id"
                warnings.warn(f"{folder / file}: {text}", HeadwayWarning, stacklevel=2)
        if not known.isdisjoint(numbers):
            return [number for number in numbers if number in known]
    return []


def role_ids(path: Path, key: str) -> list[int]:
    """Return the ids that a file has for a role, such as `eos_token_id`: one, a list, or none.

    Raises DataError for another value.
    """
    value = read_json_object(path).get(key)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if any(type(number) is not int for number in ids):
        why = f"{key}={str(value)[:80]}: must be an id of a token, or a list of ids"
        raise DataError(why, str(path))
    return list(dict.fromkeys(ids))
