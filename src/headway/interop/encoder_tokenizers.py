"""Read and write the tokenizer of an encoder's Hugging Face folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from headway.base.errors import DataError, HeadwayError
from headway.base.files import read_bytes, read_json
from headway.interop.language_model_tokenizers import (
    MERGES_FILE,
    VOCABULARY_FILE,
    byte_level,
    special_token_id,
)
from headway.interop.named_tokens import NAMES_FILES, read_json_object
from headway.interop.tokenizer_engines import finished, read_engine, word_settings, write_engine
from headway.text import (
    EncoderTokenizer,
    MissingEncoderTokenizer,
    PretrainedTokenizer,
    SpecialTokens,
)
from headway.text.hf_tokenizer import FILE, FILE_LIMIT

WORDS_FILE = "vocab.txt"
SENTENCEPIECE_FILES = ("spiece.model", "spm.model", "sentencepiece.bpe.model")
TWO_BETWEEN = ("roberta", "mpnet", "camembert")
"""Families with two separators between two texts."""
DEFAULTS = {
    "pad_token": ("[PAD]", "<pad>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}
"""Special tokens by transformers' names, in the order of `SpecialTokens` -> their default texts."""
UNKNOWN = ("[UNK]", "<unk>")


def read_encoder_tokenizer(folder: str | Path, model_type: str | None = None) -> EncoderTokenizer:
    """Read the tokenizer of an encoder; its ids are the same as in transformers.

    It is read from `tokenizer.json`, from BERT's `vocab.txt`, or from RoBERTa's `vocab.json` and
    `merges.txt`; if there are none, the result is an `MissingEncoderTokenizer`. The special tokens
    are named in tokenizer_config.json or special_tokens_map.json, or else have their default texts.
    model_type: the family, if config.json does not name it. Raises DataError for a damaged file and
    for a missing special token.
    """
    folder = Path(folder)
    if (folder / FILE).exists():
        engine = read_engine(folder)
    elif (folder / WORDS_FILE).exists():
        engine = finished(_wordpiece(folder), folder)
    elif (folder / VOCABULARY_FILE).exists() and (folder / MERGES_FILE).exists():
        engine = finished(_byte_pairs(folder), folder)
    else:
        missing = DataError("there is no tokenizer", str(folder), _what_to_do(folder))
        return MissingEncoderTokenizer(missing)
    vocabulary = engine.get_vocab()
    ids = [_special_id(folder, vocabulary, name, defaults) for name, defaults in DEFAULTS.items()]
    return EncoderTokenizer(engine, _framing(engine, ids, folder, model_type))


def _what_to_do(folder: Path) -> str:
    found = next((name for name in SENTENCEPIECE_FILES if (folder / name).exists()), None)
    if found is not None:
        return (
            f"{found} alone is not supported; create {FILE} in the same folder with "
            "transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
        )
    return f"add {FILE}, or {WORDS_FILE}, or {VOCABULARY_FILE} and {MERGES_FILE} to the folder"


def _wordpiece(folder: Path) -> tokenizers.Tokenizer:
    """Read WordPiece from a vocabulary with one token per line. Wu et al. 2016; BERT's released
    code."""
    path = folder / WORDS_FILE
    try:
        text = read_bytes(path, FILE_LIMIT).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error}", str(path)) from error
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    vocabulary = {token: number for number, token in enumerate(lines)}
    unknown = _unknown(folder, vocabulary)
    model = models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=100)
    engine = tokenizers.Tokenizer(model)
    settings: dict[str, Any] = {"lowercase": True, **word_settings(folder)}
    engine.normalizer = normalizers.BertNormalizer(**settings)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix="##")
    engine.add_special_tokens([unknown])
    return engine


def _byte_pairs(folder: Path) -> tokenizers.Tokenizer:
    """Read RoBERTa's byte-level BPE, with its special tokens by their names."""
    engine = byte_level(folder, "RoBERTa", ("RobertaTokenizer", "RobertaTokenizerFast", "roberta"))
    vocabulary = engine.get_vocab()
    start_id, end_id, mask_id = (
        _special_id(folder, vocabulary, name, DEFAULTS[name])
        for name in ("cls_token", "sep_token", "mask_token")
    )
    engine.post_processor = processors.RobertaProcessing(
        (str(engine.id_to_token(end_id)), end_id),
        (str(engine.id_to_token(start_id)), start_id),
        trim_offsets=True,
        add_prefix_space=read_json_object(folder / NAMES_FILES[0]).get("add_prefix_space") is True,
    )
    name = str(engine.id_to_token(mask_id))
    engine.add_special_tokens([tokenizers.AddedToken(name, special=True, lstrip=True)])
    return engine


def _special_id(
    folder: Path, vocabulary: Mapping[str, int], name: str, defaults: Sequence[str]
) -> int:
    token_id = special_token_id(folder, vocabulary, name)
    if token_id is not None:
        return token_id
    for text in defaults:
        if text in vocabulary:
            return vocabulary[text]
    raise DataError(
        f"the tokenizer has no {name}: no file names it, and there is no {' or '.join(defaults)}",
        str(folder),
        f"name the {name} in {NAMES_FILES[0]}; the tokenizer of an encoder needs it",
    )


def _unknown(folder: Path, vocabulary: Mapping[str, int]) -> str:
    number = _special_id(folder, vocabulary, "unk_token", UNKNOWN)
    return next(token for token, i in vocabulary.items() if i == number)


def _framing(
    engine: tokenizers.Tokenizer, ids: Sequence[int], folder: Path, model_type: str | None
) -> SpecialTokens:
    """Return the special tokens as the tokenizer adds them; if it adds none, as its class does."""
    pad, start, end, mask = ids
    kinds = [SpecialTokens(pad, start, end, mask, number) for number in (1, 2)]
    for special in kinds:
        if frames(engine, special):
            return special
    if engine.encode("a", "b").ids != _inside(engine, "a") + _inside(engine, "b"):
        raise DataError(
            "unsupported template of special tokens: the tokenizer encodes the pair 'a', 'b' as "
            f"{engine.encode('a', 'b').tokens}",
            str(folder),
            "the supported templates are those of BERT and RoBERTa",
        )
    class_name = read_json_object(folder / NAMES_FILES[0]).get("tokenizer_class")
    kind = str(
        class_name or read_json_object(folder / "config.json").get("model_type") or model_type
    ).lower()
    return kinds[any(family in kind for family in TWO_BETWEEN)]


def frames(engine: tokenizers.Tokenizer, special: SpecialTokens) -> bool:
    """Return whether the engine adds these special tokens to one text and to a pair of texts."""
    first, second = _inside(engine, "a"), _inside(engine, "b")
    alone, both = engine.encode("a").ids, engine.encode("a", "b").ids
    return alone == special.frame(first)[0] and both == special.frame(first, second)[0]


def _inside(engine: tokenizers.Tokenizer, text: str) -> list[int]:
    return list(engine.encode(text, add_special_tokens=False).ids)


def write_encoder_tokenizer(
    tokenizer: EncoderTokenizer, folder: Path, max_length: int, token_types: int
) -> None:
    """Write tokenizer.json in Hugging Face's format, and tokenizer_config.json for transformers.

    max_length: of the model. token_types: number of token types of the model; if it is 0 or 1, the
    tokenizer is written without token types.
    """
    engine, special = _written_engine(tokenizer, str(folder), token_types), tokenizer.special_tokens
    ids = (special.pad, special.start, special.end, special.mask)
    known = [token for token in UNKNOWN if engine.token_to_id(token) is not None]
    unknown = tokenizer.engine_json["model"].get("unk_token") or next(iter(known), None)
    types = ["token_type_ids"] if token_types > 1 else []
    write_engine(
        engine,
        folder,
        dict(zip(DEFAULTS, ids, strict=True)),
        max_length,
        model_input_names=["input_ids", *types, "attention_mask"],
        **({"unk_token": unknown} if unknown else {}),
    )


def _written_engine(
    tokenizer: EncoderTokenizer, where: str, token_types: int
) -> tokenizers.Tokenizer:
    content, special = tokenizer.engine_json, tokenizer.special_tokens
    if content["model"].get("type") != "WordPiece":
        for token in content["added_tokens"]:
            if token["id"] == special.mask:
                token["lstrip"] = True  # the token of a word includes the space before it
    engine = PretrainedTokenizer.engine_of(content, where)
    types = engine.encode("a", "b").type_ids
    has_types = max(types, default=0) > 0
    if frames(engine, special) and has_types == (token_types > 1):
        return engine
    second = int(token_types > 1)
    start, end = (str(engine.id_to_token(i)) for i in (special.start, special.end))
    engine.post_processor = processors.TemplateProcessing(
        single=[f"{start}:0", "$A:0", f"{end}:0"],
        pair=[
            f"{start}:0",
            "$A:0",
            *[f"{end}:0"] * special.between,
            f"$B:{second}",
            f"{end}:{second}",
        ],
        special_tokens=[(start, special.start), (end, special.end)],
    )
    return engine


def check_encoder_tokenizer(
    tokenizer: EncoderTokenizer, folder: Path, texts: Sequence[str], where: str
) -> int:
    """Return the number of texts for which the files in `folder` give the ids of `tokenizer`, with
    special tokens, alone and in pairs.

    A text that contains the text of a special token is skipped: in transformers it becomes the
    special token, here it is plain text. Raises HeadwayError for a text with other ids.
    """
    content = read_json(folder / FILE, FILE_LIMIT)
    engine = PretrainedTokenizer.engine_of(content, str(folder / FILE))
    names = [str(token["content"]) for token in content["added_tokens"]]
    plain = [text for text in texts if not any(name in text for name in names)]
    special, encode = tokenizer.special_tokens, tokenizer.encode
    for text in plain:
        for second in (None, plain[0]):
            second_ids = None if second is None else encode(second)
            ours, types = special.frame(encode(text), second_ids)
            theirs = engine.encode(text, second)
            if theirs.ids != ours or (any(theirs.type_ids) and theirs.type_ids != types):
                raise HeadwayError(
                    f"the written tokenizer encodes {text!r} as {theirs.ids[:8]}, not as "
                    f"{ours[:8]}; the folder was removed",
                    where,
                )
    return len(plain)
