"""The tokens of the languages of mBART, mBART-50, M2M100 and NLLB, from the files of a folder."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError
from headway.interop.language_model_tokenizers import IDS_FILES
from headway.interop.named_tokens import NAMES_FILES, read_json_object
from headway.text import LanguageTokens

MODEL_TYPES = ("mbart", "m2m_100")
"""`model_type` of the multilingual families in config.json."""
M2M100_CODES = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu "
    "ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms "
    "my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur "
    "uz vi wo xh yi yo zh zu"
)
"""The languages of M2M100 in the order of their ids, which its files do not always contain."""
_CODE = re.compile(r"([a-z]{2,3}_[A-Z]{2})|([a-z]{3}_[A-Z][a-z]{3})|__([a-z]{2,3})__")
"""The token of a language: de_DE of mBART, deu_Latn of NLLB, __de__ of M2M100."""


@dataclass(frozen=True, kw_only=True)
class FolderLanguages:
    """What the files of a multilingual model say. source, target: the languages that they name;
    None if they name none."""

    tokens: LanguageTokens
    source: str | None
    target: str | None


def code_of(token: str) -> str | None:
    """Return the code of the language that a token is for; None for another token."""
    code = _CODE.fullmatch(token)
    return None if code is None else code[1] or code[2] or code[3]


def read_languages(
    folder: Path,
    specials: Mapping[str, int],
    end: int,
    template: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> FolderLanguages | None:
    """Read the languages of an mBART, mBART-50, M2M100 or NLLB; None for other models.

    specials: the ids of its special tokens. end: the id of </s>. template: the ids that its
    tokenizer adds before and after a text. A class of tokenizers that is not known has the
    positions of the template.
    """
    model_type = read_json_object(folder / IDS_FILES[1]).get("model_type")
    ids = {code: index for token, index in specials.items() if (code := code_of(token))}
    if model_type not in MODEL_TYPES or not ids:
        return None
    settings = read_json_object(folder / NAMES_FILES[0])
    code_by_id = {index: code for code, index in ids.items()}
    before, after = ([code_by_id[i] for i in part if i in code_by_id] for part in template)
    name = str(settings.get("tokenizer_class")).removesuffix("Fast")
    positions = {
        "MBartTokenizer": True,
        "MBart50Tokenizer": False,
        "M2M100Tokenizer": False,
        "NllbTokenizer": settings.get("legacy_behaviour") is True,
    }
    after_source = positions.get(name, bool(after))
    starts = after_source and model_type == "mbart"
    tokens = LanguageTokens(ids=ids, end=end, after_source=after_source, starts_target=starts)
    number = _number(folder, "decoder_start_token_id" if starts else "forced_bos_token_id")
    return FolderLanguages(
        tokens=tokens,
        source=_first(ids, [settings.get("src_lang"), *after, *before]),
        target=_first(ids, [code_by_id.get(number), settings.get("tgt_lang")]),
    )


def language_names(folder: Path, is_m2m100: bool) -> list[str]:
    """Return the tokens of the languages of a folder without tokenizer.json, in the order of their
    ids. is_m2m100: whether the folder has the files of M2M100.

    Raises DataError if no file names them.
    """
    for file in NAMES_FILES:
        settings = read_json_object(folder / file)
        for key in ("additional_special_tokens", "extra_special_tokens"):
            tokens = settings.get(key)
            names = [t for t in tokens if isinstance(t, str)] if isinstance(tokens, list) else []
            if codes := [name for name in names if code_of(name)]:
                return codes
    kind = read_json_object(folder / NAMES_FILES[0]).get("language_codes", "m2m100")
    if is_m2m100 and kind == "m2m100":
        return [f"__{code}__" for code in M2M100_CODES.split()]
    raise DataError(
        "no file names the languages of the model",
        str(folder / NAMES_FILES[1]),
        'add "additional_special_tokens", a list of the tokens of the languages in the order of '
        "their ids",
    )


def _first(ids: Mapping[str, int], codes: Iterable[object]) -> str | None:
    """Return the first of the codes that is one of the model."""
    return next((code for code in codes if isinstance(code, str) and code in ids), None)


def _number(folder: Path, key: str) -> int:
    """Return an id of generation_config.json or config.json; -1 if there is none."""
    values = [read_json_object(folder / file).get(key) for file in IDS_FILES]
    return next((value for value in values if type(value) is int), -1)
