"""The tokenizer of an encoder's Hugging Face folder, read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from headway.errors import DataError, HeadwayError
from headway.files import read_bytes, read_json, write_file
from headway.interop.hf_config import Facts
from headway.interop.language_model_tokenizers import (
    MERGES_FILE,
    NAMES_FILES,
    VOCABULARY_FILE,
    byte_level,
    piece_named,
    told,
)
from headway.text import AbsentMarkedTokenizer, ForeignTokenizer, MarkedTokenizer, Marks
from headway.text.hf_tokenizer import FILE, FILE_LIMIT

WORDS_FILE = "vocab.txt"
PIECES_FILE = "spiece.model"
ADDED_FILE = "added_tokens.json"
USUAL = {
    "pad_token": ("[PAD]", "<pad>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}
"""Marks by transformers' names, in the order of `Marks`; what they are called if no file says."""
UNKNOWN = ("[UNK]", "<unk>")


def read_marked(folder: str | Path, model_type: str | None = None) -> MarkedTokenizer:
    """The tokenizer of `tokenizer.json`, of BERT's `vocab.txt`, or of RoBERTa's `vocab.json` and
    `merges.txt`; its ids are transformers'. Without any of them an `AbsentMarkedTokenizer`.

    The marks are named in tokenizer_config.json or special_tokens_map.json, else have their usual
    names. model_type: the family, where config.json does not name it. DataError names the file that
    is damaged, and the mark that is nowhere.
    """
    folder = Path(folder)
    if (folder / FILE).exists():
        engine = _one_file(folder)
    elif (folder / WORDS_FILE).exists():
        engine = _word_pieces(folder)
    elif (folder / VOCABULARY_FILE).exists() and (folder / MERGES_FILE).exists():
        engine = _byte_pairs(folder)
    else:
        missing = DataError("there is no tokenizer", str(folder), _what_to_do(folder))
        return AbsentMarkedTokenizer(missing)
    vocabulary = engine.get_vocab()
    ids = [_mark(folder, vocabulary, name, usual) for name, usual in USUAL.items()]
    return MarkedTokenizer(engine, _framing(engine, ids, folder, model_type))


def _what_to_do(folder: Path) -> str:
    if (folder / PIECES_FILE).exists():
        return (
            f"{PIECES_FILE} alone is not read: "
            "transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) "
            f"writes {FILE} beside it"
        )
    return f"put {FILE} there, or {WORDS_FILE}, or {VOCABULARY_FILE} and {MERGES_FILE}"


def _one_file(folder: Path) -> tokenizers.Tokenizer:
    """tokenizer.json; what tokenizer_config.json says of capitals and accents counts more, as in
    transformers."""
    content = read_json(folder / FILE, FILE_LIMIT)
    normalizer = content.get("normalizer") if isinstance(content, dict) else None
    if isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        normalizer |= _word_settings(folder)
    return ForeignTokenizer.engine_of(content, str(folder / FILE))


def _word_settings(folder: Path) -> dict[str, bool]:
    """What tokenizer_config.json says of how BERT's words are cut, by the engine's names."""
    path = folder / NAMES_FILES[0]
    facts = Facts(told(path), str(path))
    names = {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "handle_chinese_chars",
    }
    return {
        ours: facts.flag(theirs, False) for theirs, ours in names.items() if theirs in facts.values
    }


def _word_pieces(folder: Path) -> tokenizers.Tokenizer:
    """WordPiece from a list of pieces, one a line. Wu et al. 2016; BERT's released code."""
    _refuse_added(folder)
    path = folder / WORDS_FILE
    try:
        text = read_bytes(path, FILE_LIMIT).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error}", str(path)) from error
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    vocabulary = {piece: number for number, piece in enumerate(lines)}
    unknown = _unknown(folder, vocabulary)
    model = models.WordPiece(vocabulary, unk_token=unknown, max_input_chars_per_word=100)
    engine = tokenizers.Tokenizer(model)
    settings: dict[str, Any] = {"lowercase": True, **_word_settings(folder)}
    engine.normalizer = normalizers.BertNormalizer(**settings)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix="##")
    engine.add_special_tokens([unknown])
    return engine


def _byte_pairs(folder: Path) -> tokenizers.Tokenizer:
    """RoBERTa's byte-level BPE, which knows its marks by their names."""
    _refuse_added(folder)
    engine = byte_level(folder, "RoBERTa", ("RobertaTokenizer", "RobertaTokenizerFast", "roberta"))
    vocabulary = engine.get_vocab()
    start, end, mask = (
        _mark(folder, vocabulary, name, USUAL[name])
        for name in ("cls_token", "sep_token", "mask_token")
    )
    engine.post_processor = processors.RobertaProcessing(
        (str(engine.id_to_token(end)), end),
        (str(engine.id_to_token(start)), start),
        trim_offsets=True,
        add_prefix_space=told(folder / NAMES_FILES[0]).get("add_prefix_space") is True,
    )
    name = str(engine.id_to_token(mask))
    engine.add_special_tokens([tokenizers.AddedToken(name, special=True, lstrip=True)])
    return engine


def _refuse_added(folder: Path) -> None:
    if (folder / ADDED_FILE).exists():
        raise DataError(
            f"{ADDED_FILE} adds pieces to those of the other files, which is not read",
            str(folder),
            "transformers.AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes "
            f"{FILE}, which holds all of them",
        )


def _mark(folder: Path, vocabulary: Mapping[str, int], name: str, usual: Sequence[str]) -> int:
    found = piece_named(folder, vocabulary, name)
    if found is not None:
        return found
    for piece in usual:
        if piece in vocabulary:
            return vocabulary[piece]
    raise DataError(
        f"no file says which token is the {name}, and there is no {' or '.join(usual)}",
        str(folder),
        f"name it in {NAMES_FILES[0]}: an encoder's tokenizer has one",
    )


def _unknown(folder: Path, vocabulary: Mapping[str, int]) -> str:
    number = _mark(folder, vocabulary, "unk_token", UNKNOWN)
    return next(piece for piece, i in vocabulary.items() if i == number)


def _framing(
    engine: tokenizers.Tokenizer, ids: Sequence[int], folder: Path, model_type: str | None
) -> Marks:
    """The marks as the tokenizer sets them; as its class does where the file leaves that open."""
    pad, start, end, mask = ids
    kinds = [Marks(pad, start, end, mask, number) for number in (1, 2)]
    for marks in kinds:
        if frames(engine, marks):
            return marks
    if engine.encode("a", "b").ids != _inside(engine, "a") + _inside(engine, "b"):
        raise DataError(
            "the tokenizer puts marks around texts in a way that Headway has no form for: "
            f"{engine.encode('a', 'b').tokens}",
            str(folder),
        )
    named = told(folder / NAMES_FILES[0]).get("tokenizer_class")
    maker = str(named or told(folder / "config.json").get("model_type") or model_type).lower()
    return kinds["roberta" in maker]


def frames(engine: tokenizers.Tokenizer, marks: Marks) -> bool:
    """Whether the engine sets these marks around a text and around two."""
    first, second = _inside(engine, "a"), _inside(engine, "b")
    alone, both = engine.encode("a").ids, engine.encode("a", "b").ids
    return alone == marks.frame(first)[0] and both == marks.frame(first, second)[0]


def _inside(engine: tokenizers.Tokenizer, text: str) -> list[int]:
    return list(engine.encode(text, add_special_tokens=False).ids)


def write_marked(
    tokenizer: MarkedTokenizer, folder: Path, max_length: int, token_types: int
) -> None:
    """tokenizer.json in Hugging Face's form, and what transformers wants beside it.

    token_types: kinds of texts that the model tells apart; with one or none no tokenizer is to
    speak of them.
    """
    engine, marks = _written_engine(tokenizer, str(folder), token_types), tokenizer.marks
    write_file(folder / FILE, str(engine.to_str(pretty=True)).encode())
    ids = (marks.pad, marks.start, marks.end, marks.mask)
    names = {name: str(engine.id_to_token(i)) for name, i in zip(USUAL, ids, strict=True)}
    usual = [piece for piece in UNKNOWN if engine.token_to_id(piece) is not None]
    unknown = tokenizer.engine_json["model"].get("unk_token") or next(iter(usual), None)
    facts = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **names,
        **({"unk_token": unknown} if unknown else {}),
        "model_max_length": max_length,
        "model_input_names": [
            "input_ids",
            *(["token_type_ids"] if token_types > 1 else []),
            "attention_mask",
        ],
        "clean_up_tokenization_spaces": False,
    }
    text = json.dumps(facts, ensure_ascii=False, indent=2)
    write_file(folder / NAMES_FILES[0], f"{text}\n".encode())


def _written_engine(
    tokenizer: MarkedTokenizer, where: str, token_types: int
) -> tokenizers.Tokenizer:
    content, marks = tokenizer.engine_json, tokenizer.marks
    if content["model"].get("type") != "WordPiece":
        for token in content["added_tokens"]:
            if token["id"] == marks.mask:
                token["lstrip"] = True  # the space before a word belongs to it
    engine = ForeignTokenizer.engine_of(content, where)
    types = engine.encode("a", "b").type_ids
    told_apart = max(types, default=0) > 0
    if frames(engine, marks) and told_apart == (token_types > 1):
        return engine
    second = int(token_types > 1)
    start, end = (str(engine.id_to_token(i)) for i in (marks.start, marks.end))
    engine.post_processor = processors.TemplateProcessing(
        single=[f"{start}:0", "$A:0", f"{end}:0"],
        pair=[
            f"{start}:0",
            "$A:0",
            *[f"{end}:0"] * marks.between,
            f"$B:{second}",
            f"{end}:{second}",
        ],
        special_tokens=[(start, marks.start), (end, marks.end)],
    )
    return engine


def same_marked_ids(
    tokenizer: MarkedTokenizer, folder: Path, texts: Sequence[str], where: str
) -> int:
    """For how many texts the files in `folder` give the ids of `tokenizer`, marks and pairs too.

    A text that spells a mark is left out: there it is the mark, here it is a text. HeadwayError
    for one with other ids.
    """
    content = read_json(folder / FILE, FILE_LIMIT)
    engine = ForeignTokenizer.engine_of(content, str(folder / FILE))
    names = [str(token["content"]) for token in content["added_tokens"]]
    plain = [text for text in texts if not any(name in text for name in names)]
    marks, encode = tokenizer.marks, tokenizer.encode
    for text in plain:
        for second in (None, plain[0]):
            after = None if second is None else encode(second)
            ours, types = marks.frame(encode(text), after)
            theirs = engine.encode(text, second)
            if theirs.ids != ours or (any(theirs.type_ids) and theirs.type_ids != types):
                raise HeadwayError(
                    f"the written tokenizer reads {text!r} as {theirs.ids[:8]}, not as "
                    f"{ours[:8]}: the folder was removed",
                    where,
                )
    return len(plain)
