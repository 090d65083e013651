"""Roles of the tokens of a pretrained encoder-decoder, and the tokens of its languages."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from headway.base.errors import UsageError

NEAREST = 5
"""Number of languages that an error lists."""


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Ids of the tokens with a role in an encoder-decoder.

    pad: padding. start: the token that the decoder reads first. end: the token after the last one.
    ends: further tokens that end an output. unknown: the token of unknown characters; None if there
    are none. prefix: tokens before every text. suffix: tokens after every text, before `end`. size:
    the size of the model's vocabulary, which may be larger than the tokenizer's.
    """

    pad: int
    start: int
    end: int
    unknown: int | None = None
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    size: int


@dataclass(frozen=True, kw_only=True)
class LanguageTokens:
    """The tokens of the languages of a multilingual encoder-decoder, and their positions:

    | family | source | what the decoder reads |
    |---|---|---|
    | mBART | words </s> LANGUAGE | LANGUAGE words |
    | mBART-50, M2M100, NLLB | LANGUAGE words </s> | </s> LANGUAGE words |
    | NLLB, first version | words </s> LANGUAGE | </s> LANGUAGE words |

    Liu et al. 2020, section 2; Fan et al. 2021, section 3; NLLB Team 2022, section 6. A language
    that is not the first token that the decoder reads is the first one that it writes.

    ids: the id of each language's token. end: the id of </s>. after_source: whether the token of
    the source language is after </s>. starts_target: whether the decoder reads the token of the
    target language first.
    """

    ids: Mapping[str, int] = field(repr=False)
    end: int
    after_source: bool
    starts_target: bool

    def source_roles(self, roles: Roles, language: str) -> Roles:
        """Return the roles for sources in a language. Raises UsageError for an unknown one."""
        number = self._id(language, "from", "--from-language")
        if self.after_source:
            return replace(roles, prefix=(), suffix=(self.end,), end=number)
        return replace(roles, prefix=(number,), suffix=(), end=self.end)

    def target_roles(self, roles: Roles, language: str) -> Roles:
        """Return the roles for targets in a language. Raises UsageError for an unknown one."""
        number = self._id(language, "into", "--to")
        if self.starts_target:
            return replace(roles, prefix=(), start=number)
        return replace(roles, prefix=(number,))

    def nearest(self, language: str) -> list[str]:
        """Return the `NEAREST` codes that are most like a language: those with the same letters at
        the beginning, then those with the most letters in common."""

        def unlike(code: str) -> tuple[int, float, str]:
            equal = 0
            while equal < min(len(code), len(language)) and code[equal] == language[equal]:
                equal += 1
            return -equal, -SequenceMatcher(None, code, language).ratio(), code

        return sorted(self.ids, key=unlike)[:NEAREST]

    def _id(self, language: str, direction: str, flag: str) -> int:
        if language in self.ids:
            return self.ids[language]
        near = self.nearest(language)
        raise UsageError(
            f"the model does not translate {direction} {language!r}; the nearest of its "
            f"{len(self.ids)} languages are {', '.join(near)}",
            hint=f"{flag} {near[0]}",
        )

    def as_dict(self) -> dict[str, object]:
        """Return the contents for a file; `language_tokens_of` reads them."""
        return {
            "ids": dict(self.ids),
            "end": self.end,
            "after_source": self.after_source,
            "starts_target": self.starts_target,
        }


def language_tokens_of(content: object, size: int) -> LanguageTokens | None:
    """Read what `as_dict` returns; None for anything else. size: the number of ids."""
    if (
        not isinstance(content, dict)
        or content.keys() != LanguageTokens.__dataclass_fields__.keys()
    ):
        return None
    ids = content["ids"]
    numbers = [content["end"], *(ids.values() if isinstance(ids, dict) else [None])]
    flags = (content["after_source"], content["starts_target"])
    if not ids or not all(type(number) is int and 0 <= number < size for number in numbers):
        return None
    return LanguageTokens(**content) if all(type(flag) is bool for flag in flags) else None
