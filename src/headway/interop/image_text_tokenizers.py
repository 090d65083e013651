"""Read the tokenizer of a folder of CLIP or SigLIP, with the special tokens around a text."""

from dataclasses import replace
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from headway.base.errors import DataError
from headway.base.files import read_bytes
from headway.interop.encoder_tokenizers import SENTENCEPIECE_FILES
from headway.interop.hf_config import HFConfig
from headway.interop.image_text import CLIP
from headway.interop.language_model_tokenizers import (
    MERGES_FILE,
    VOCABULARY_FILE,
    merges_of,
    special_token_id,
    vocabulary_of,
)
from headway.interop.named_tokens import CONFIG_FILE, read_json_object
from headway.interop.tokenizer_engines import finished, read_engine
from headway.interop.tokenizer_keys import check_tokenizer_keys
from headway.models import ImageTextConfig
from headway.text import PretrainedTokenizer, TextFrame
from headway.text.hf_tokenizer import FILE, FILE_LIMIT
from headway.text.sentencepiece import SPACE, engine_json, parse_sentencepiece

START, END = "<|startoftext|>", "<|endoftext|>"
_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
"""The words of CLIP. Radford et al. 2021, released code."""
_PUNCTUATION = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
_FINAL_SIGMA = r"(?<=\p{L})Σ(?!\p{L})"
SIGLIP_CLASS, SIGLIP2_CLASS = "SiglipTokenizer", "Siglip2Tokenizer"
FILLED_LEFT = (SIGLIP2_CLASS, "GemmaTokenizer")
"""Classes that pad texts on the left, if tokenizer_config.json does not name the side."""


def read_paired_texts(
    folder: Path, config: ImageTextConfig, model_type: str
) -> tuple[PretrainedTokenizer, TextFrame]:
    """Return the tokenizer of the texts of a model, and the special tokens around each text.

    Raises DataError for a missing or damaged file.
    """
    tokenizer_config = HFConfig(read_json_object(folder / CONFIG_FILE), str(folder / CONFIG_FILE))
    length = config.text.max_length
    if model_type == CLIP.model_type:
        engine = _engine(folder)
        before, end = _around(engine, folder)
        return PretrainedTokenizer(engine, before[0], end), TextFrame(
            length=length, before=before, end=end
        )
    name = str(tokenizer_config.values.get("tokenizer_class", SIGLIP_CLASS)).removesuffix("Fast")
    if name == SIGLIP_CLASS:
        engine, before, end, fill = _siglip(folder, tokenizer_config)
    else:
        engine = _lower_case(read_engine(folder)) if name == SIGLIP2_CLASS else read_engine(folder)
        before, end = _around(engine, folder)
        fill = special_token_id(folder, engine.get_vocab(), "pad_token")
    left = "left" if name in FILLED_LEFT else "right"
    sides = {"left": True, "right": False}
    frame = TextFrame(
        length=length,
        before=before,
        end=end,
        fill=end if fill is None else fill,
        fills_left=tokenizer_config.choice("padding_side", sides, left),
    )
    return PretrainedTokenizer(engine, before[0] if before else end, end), frame


def _engine(folder: Path) -> tokenizers.Tokenizer:
    """Read the tokenizer of CLIP from `tokenizer.json`, or from `vocab.json` and `merges.txt`."""
    if (folder / FILE).exists():
        return read_engine(folder)
    if not ((folder / VOCABULARY_FILE).exists() and (folder / MERGES_FILE).exists()):
        raise DataError(
            "there is no tokenizer",
            str(folder),
            f"add {FILE}, or {VOCABULARY_FILE} and {MERGES_FILE}, to the folder",
        )
    vocabulary = vocabulary_of(folder / VOCABULARY_FILE)
    merges = merges_of(folder / MERGES_FILE)
    start, end, unknown = (
        special_token_id(folder, vocabulary, f"{role}_token") for role in ("bos", "eos", "unk")
    )
    start = vocabulary.get(START) if start is None else start
    end = vocabulary.get(END) if end is None else end
    if start is None or end is None:
        raise DataError(
            f"the vocabulary lacks {START} or {END}, and no file names others",
            str(folder / VOCABULARY_FILE),
            f"name bos_token and eos_token in {CONFIG_FILE}",
        )
    names = {i: name for name, i in vocabulary.items()}
    try:
        model = models.BPE(
            vocabulary,
            merges,
            end_of_word_suffix="</w>",
            unk_token=names[end if unknown is None else unknown],
        )
    except Exception as error:  # the engine raises bare Exception for a merge that is not a token
        why = f"does not match {VOCABULARY_FILE}: {error}"
        raise DataError(why, str(folder / MERGES_FILE)) from error
    engine = tokenizers.Tokenizer(model)
    engine.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Lowercase(),
        ]
    )
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    engine.decoder = decoders.ByteLevel()
    engine.post_processor = processors.RobertaProcessing(
        (names[end], end), (names[start], start), trim_offsets=False, add_prefix_space=False
    )
    engine.add_special_tokens([names[start], names[end]])
    return finished(engine, folder)


def _around(engine: tokenizers.Tokenizer, folder: Path) -> tuple[tuple[int, ...], int]:
    """Return the special tokens before a text, and the one after it, as tokenizer.json adds them.

    Raises DataError for another template.
    """
    whole = engine.encode("a").ids
    inner = engine.encode("a", add_special_tokens=False).ids
    before = next((i for i in range(len(whole)) if whole[i : i + len(inner)] == inner), 0)
    after = whole[before + len(inner) :]
    if len(after) != 1:
        raise DataError(
            f"the tokenizer encodes 'a' as {engine.encode('a').tokens}: one special token must "
            "follow a text",
            str(folder / FILE),
        )
    return tuple(whole[:before]), after[0]


def _siglip(
    folder: Path, tokenizer_config: HFConfig
) -> tuple[tokenizers.Tokenizer, tuple[int, ...], int, int | None]:
    """Read the tokenizer of SigLIP, which removes punctuation. Zhai et al. 2023, released code."""
    path = next((p for name in SENTENCEPIECE_FILES if (p := folder / name).exists()), None)
    if path is None and not (folder / FILE).exists():
        raise DataError(
            "there is no tokenizer", str(folder), f"add {SENTENCEPIECE_FILES[0]} to the folder"
        )
    steps: list[normalizers.Normalizer] = []
    if path is None:
        engine = read_engine(folder)
        before, end = _around(engine, folder)
        vocabulary = engine.get_vocab()
    else:
        parsed = parse_sentencepiece(read_bytes(path, FILE_LIMIT), str(path))
        # a space precedes the text before its punctuation is removed
        contents = engine_json(replace(parsed, leading_space=False))
        engine = PretrainedTokenizer.engine_of(contents, str(path))
        steps += [normalizers.Replace(SPACE, " "), normalizers.Prepend(SPACE)]
        vocabulary = {piece: i for i, piece in enumerate(parsed.pieces)}
        named = special_token_id(folder, vocabulary, "eos_token")
        number = vocabulary.get("</s>") if named is None else named
        if number is None:
            raise DataError("the model has no </s>, the token after a text", str(path))
        before, end = (), number
    fill = special_token_id(folder, vocabulary, "pad_token")
    steps += [
        normalizers.Replace(Regex(_PUNCTUATION), ""),
        normalizers.Replace(Regex(r"\s+"), " "),
        normalizers.Strip(),
    ]
    engine.normalizer = normalizers.Sequence([*steps, engine.normalizer])
    if tokenizer_config.flag("do_lower_case", True):
        engine = _lower_case(engine)
    if path is not None:
        check_tokenizer_keys(folder, engine)
    return engine, before, end, fill


def _lower_case(engine: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """Convert texts to lower case before all else."""
    sigma = normalizers.Replace(Regex(_FINAL_SIGMA), "ς")
    rest = [] if engine.normalizer is None else [engine.normalizer]
    engine.normalizer = normalizers.Sequence([sigma, normalizers.Lowercase(), *rest])
    return engine
