"""Read the tokenizers of an encoder-decoder's Hugging Face folder, one for each side."""

from collections.abc import Mapping
from pathlib import Path

import tokenizers

from headway.base.errors import DataError
from headway.base.files import read_bytes, read_json
from headway.interop.added_tokens import with_declared_names
from headway.interop.hf_config import HFConfig
from headway.interop.language_model_tokenizers import (
    IDS_FILES,
    VOCABULARY_FILE,
    role_ids,
    special_token_id,
)
from headway.interop.named_tokens import CONFIG_FILE, read_json_object
from headway.interop.tokenizer_engines import read_engine
from headway.interop.tokenizer_keys import check_tokenizer_keys
from headway.interop.translator_languages import (
    MODEL_TYPES,
    FolderLanguages,
    code_of,
    language_names,
    read_languages,
)
from headway.text import PretrainedSentenceTokenizer, Roles, TokenizerPair
from headway.text.hf_tokenizer import FILE, FILE_LIMIT, LARGEST_ID
from headway.text.sentencepiece import parse_sentencepiece

SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
T5_MODEL = "spiece.model"
FAIRSEQ_MODEL = "sentencepiece.bpe.model"
FAIRSEQ_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
"""Tokens with the ids 0 to 3 of a vocabulary of fairseq."""
SENTINELS = 100
"""Number of tokens <extra_id_99> ... <extra_id_0> that follow those of T5's SentencePiece model, if
no file has another one."""
UNKNOWN = "<unk>"


def read_translator_tokenizers(folder: str | Path, vocabulary: int) -> TokenizerPair:
    """Read the tokenizers of an encoder-decoder: `tokenizer.json`, or MarianMT's `source.spm`,
    `target.spm` and `vocab.json`, or T5's `spiece.model`, or `sentencepiece.bpe.model` of M2M100
    (with `vocab.json`) and mBART. Those of a multilingual model have the languages that its files
    name; `TokenizerPair.between` chooses others.

    vocabulary: size of the model's vocabulary. generation_config.json or config.json has the ids of
    the special tokens. Raises DataError for missing and damaged files.
    """
    folder = Path(folder)
    if (folder / FILE).exists():
        return _one_file(folder, vocabulary)
    check_tokenizer_keys(folder, None)
    if (folder / SOURCE_MODEL).exists() and (folder / VOCABULARY_FILE).exists():
        return _two_models(folder, vocabulary)
    model_type = read_json_object(folder / IDS_FILES[1]).get("model_type")
    if (folder / FAIRSEQ_MODEL).exists() and model_type in MODEL_TYPES:
        return _of_fairseq(folder, vocabulary)
    if (folder / T5_MODEL).exists() and model_type in ("t5", "mt5"):
        return _of_t5(folder, vocabulary)
    raise DataError(
        "there is no tokenizer",
        str(folder),
        f"add {FILE}, or {SOURCE_MODEL}, {TARGET_MODEL} and {VOCABULARY_FILE}, to the folder",
    )


def _one_file(folder: Path, vocabulary: int) -> TokenizerPair:
    """Read tokenizer.json, whose template shows the tokens before every text."""
    engine = read_engine(folder)
    whole, inner = (engine.encode("a", add_special_tokens=added).ids for added in (True, False))
    start = next((i for i in range(len(whole)) if whole[i : i + len(inner)] == inner), 0)
    prefix, suffix = tuple(whole[:start]), tuple(whole[start + len(inner) :])
    added = engine.get_added_tokens_decoder()
    specials = {token.content: index for index, token in added.items() if token.special}
    end = _ends(folder, vocabulary, engine.get_vocab())[0]
    if languages := read_languages(folder, specials, end, (prefix, suffix)):
        roles = _roles(folder, vocabulary, engine.get_vocab(), start=end)
        return _multilingual(
            PretrainedSentenceTokenizer(engine, roles, languages=languages.tokens), languages
        )
    forced = _number(folder, "forced_bos_token_id")
    if forced is None and read_json_object(folder / IDS_FILES[1]).get("model_type") == "m2m_100":
        raise DataError(
            "the model has several target languages, and no file has their tokens",
            str(folder),
            f'add "forced_bos_token_id" to {IDS_FILES[0]}, the id of the token of the language',
        )
    source, target = (
        PretrainedSentenceTokenizer(
            tokenizers.Tokenizer.from_str(engine.to_str()),
            _roles(folder, vocabulary, engine.get_vocab(), prefix=before),
        )
        for before in (prefix, () if forced is None else (forced,))
    )
    if source.fingerprint == target.fingerprint:
        return TokenizerPair(source, source)
    return TokenizerPair(source, target)


def _multilingual(
    tokenizer: PretrainedSentenceTokenizer, languages: FolderLanguages
) -> TokenizerPair:
    """Return the pair of a multilingual model, with the languages that its files name."""
    return TokenizerPair(tokenizer, tokenizer).between(languages.source, languages.target)


def _of_fairseq(folder: Path, vocabulary: int) -> TokenizerPair:
    """Read the SentencePiece model of M2M100 or mBART.

    The pieces of M2M100 have their ids in vocab.json; those of mBART follow four special tokens.
    The tokens of the languages are the next ones.
    """
    path = folder / FAIRSEQ_MODEL
    content = read_bytes(path, FILE_LIMIT)
    is_m2m100 = (folder / VOCABULARY_FILE).exists()
    if is_m2m100:
        names = _names(folder / VOCABULARY_FILE)
    else:
        names = [*FAIRSEQ_SPECIALS, *parse_sentencepiece(content, str(path)).pieces[3:]]
    tokens = [name for name in language_names(folder, is_m2m100) if name not in names]
    specials = {name: index for index, name in enumerate([*names, *tokens])}
    names = [*specials, *([] if is_m2m100 else ["<mask>"])]
    names, added = with_declared_names(names, folder, vocabulary)
    if len(names) > vocabulary:
        raise DataError(
            f"the tokenizer has {len(names):,} tokens, but the vocabulary size of the model is "
            f"{vocabulary:,}",
            str(path),
        )
    end = _ends(folder, vocabulary, specials)[0]
    languages = read_languages(folder, {t: i for t, i in specials.items() if code_of(t)}, end)
    assert languages is not None
    unknown = specials.get(UNKNOWN)
    tokenizer = PretrainedSentenceTokenizer.of_sentencepiece(
        content,
        _roles(folder, vocabulary, specials, unknown, start=end),
        names,
        str(path),
        languages.tokens,
        added=added,
    )
    return _multilingual(tokenizer, languages)


def _two_models(folder: Path, vocabulary: int) -> TokenizerPair:
    """Read MarianMT's SentencePiece models, whose pieces have their ids in vocab.json."""
    names, added = with_declared_names(_names(folder / VOCABULARY_FILE), folder, vocabulary)
    if UNKNOWN not in names:
        raise DataError(
            f"there is no token {UNKNOWN} for unknown characters",
            str(folder / VOCABULARY_FILE),
            "download the file again",
        )
    ids = {name: index for index, name in enumerate(names)}
    roles = _roles(folder, vocabulary, ids, ids[UNKNOWN])
    return TokenizerPair(
        *(
            PretrainedSentenceTokenizer.of_sentencepiece(
                read_bytes(folder / file, FILE_LIMIT),
                roles,
                names,
                str(folder / file),
                added=added,
            )
            for file in (SOURCE_MODEL, TARGET_MODEL)
        )
    )


def _of_t5(folder: Path, vocabulary: int) -> TokenizerPair:
    """Read T5's SentencePiece model, whose tokens have their own ids, with the sentinels after."""
    path = folder / T5_MODEL
    content = read_bytes(path, FILE_LIMIT)
    parsed = parse_sentencepiece(content, str(path))
    tokenizer_config = read_json_object(folder / CONFIG_FILE)
    sentinels = tokenizer_config.get("extra_ids", SENTINELS)
    if type(sentinels) is not int or not 0 <= sentinels <= vocabulary:
        where = HFConfig(tokenizer_config, str(folder / CONFIG_FILE))
        raise where.refusal("extra_ids", sentinels, f"a whole number from 0 to {vocabulary}")
    names = [*parsed.pieces, *(f"<extra_id_{i}>" for i in reversed(range(sentinels)))]
    names, added = with_declared_names(names, folder, vocabulary)
    ids = {name: index for index, name in enumerate(names)}
    roles = _roles(folder, vocabulary, ids, parsed.unknown)
    tokenizer = PretrainedSentenceTokenizer.of_sentencepiece(
        content, roles, names, str(path), added=added
    )
    return TokenizerPair(tokenizer, tokenizer)


def _names(path: Path) -> list[str]:
    """Read a vocabulary: the token of each id."""
    vocabulary = read_json(path, FILE_LIMIT)
    ids: list[object] = list(vocabulary.values()) if isinstance(vocabulary, dict) else [None]
    if any(type(i) is not int or not 0 <= i <= LARGEST_ID for i in ids) or len({*ids}) < len(ids):
        raise DataError("expected an object of tokens and their ids, each once", str(path))
    tokens = {number: token for token, number in vocabulary.items()}
    return [tokens.get(i, f"<unused {i}>") for i in range(max(tokens, default=-1) + 1)]


def _roles(
    folder: Path,
    vocabulary: int,
    ids: Mapping[str, int],
    unknown: int | None = None,
    *,
    prefix: tuple[int, ...] = (),
    start: int | None = None,
) -> Roles:
    """Return the roles that the files name. ids: of the tokens. start: the first token if no file
    names it."""
    end, *ends = _ends(folder, vocabulary, ids)
    pad = _required(folder, "pad_token_id", vocabulary)
    if start is None or _number(folder, "decoder_start_token_id") is not None:
        start = _required(folder, "decoder_start_token_id", vocabulary)
    return Roles(
        pad=pad,
        start=start,
        end=end,
        ends=tuple(ends),
        unknown=unknown,
        prefix=prefix,
        size=vocabulary,
    )


def _ends(folder: Path, vocabulary: int, ids: Mapping[str, int]) -> list[int]:
    """Return the tokens that end an output. The first also ends a source: the tokenizer names it
    if the files have several."""
    path, ends = _numbers(folder, "eos_token_id")
    if not ends:
        _required(folder, "eos_token_id", vocabulary)
    for end in ends:
        _check_id("eos_token_id", end, vocabulary, path)
    named = special_token_id(folder, ids, "eos_token") if len(ends) > 1 else None
    return ends if named is None else [named, *(end for end in ends if end != named)]


def _required(folder: Path, key: str, vocabulary: int) -> int:
    path, number = _numbers(folder, key)[0], _number(folder, key)
    if number is None:
        raise DataError(
            f"no file has {key}", str(folder), f'add "{key}" to {IDS_FILES[1]}, an id of a token'
        )
    _check_id(key, number, vocabulary, path)
    return number


def _check_id(key: str, number: int, vocabulary: int, path: Path) -> None:
    if not 0 <= number < vocabulary:
        raise DataError(f"{key}={number} is not an id from 0 to {vocabulary - 1}", str(path))


def _number(folder: Path, key: str) -> int | None:
    """Return the id that generation_config.json or config.json has for a role."""
    path, ids = _numbers(folder, key)
    if len(ids) > 1:
        raise DataError(f"{key}={ids}: must be one id of a token", str(path))
    return ids[0] if ids else None


def _numbers(folder: Path, key: str) -> tuple[Path, list[int]]:
    """Return the ids that generation_config.json or config.json has for a role, and its path."""
    paths = [folder / file for file in IDS_FILES]
    found = ((path, role_ids(path, key)) for path in paths)
    return next((pair for pair in found if pair[1]), (paths[-1], []))
