"""Translates texts with placeholders, so that every placeholder survives.

The translation of a text is, in this order: the best one of the search; the first of the others
whose placeholders are right; the best one with its wrong placeholders replaced by the missing ones;
the parts between the placeholders, translated one by one. A text for which none of them is right
is left untranslated, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from headway.data.placeholders import Placeholders
from headway.settings import MOST
from headway.tasks.translation.bundle import TranslateOptions, TranslatorBundle

How = Literal["best", "other", "copied", "parts", "unchanged", "left"]
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class Text:
    """A text to translate, and the strings in it that are placeholders besides the usual ones."""

    text: str
    protected: tuple[str, ...] = ()


@dataclass(frozen=True)
class SafeTranslation:
    """The translation of a text, or None, and how it was obtained.

    how: "best": the best translation; "other": another one of the search; "copied": placeholders
    were replaced; "parts": the parts between the placeholders were translated; "unchanged": there
    is nothing to translate; "left": there is no translation. problem: the reason for "left".
    has_placeholders: whether the text has any.
    """

    text: str | None
    how: How
    problem: str = ""
    has_placeholders: bool = False


def translate_texts(
    bundle: TranslatorBundle, texts: Sequence[Text], options: TranslateOptions
) -> list[SafeTranslation]:
    """Translate texts, in order. Each line of a text is translated on its own; white space at the
    ends of a line, and empty lines, stay."""
    lines: dict[Text, SafeTranslation | None] = {}
    for text in texts:
        for line in text.text.split("\n"):
            lines[Text(line.strip(), text.protected)] = None
    lines.update(_lines(bundle, list(lines), options))
    return [_joined(text, lines) for text in texts]


def _joined(text: Text, lines: dict[Text, SafeTranslation | None]) -> SafeTranslation:
    """Join the translations of the lines of a text; one that is left leaves the whole text."""
    parts: list[str] = []
    ways: list[SafeTranslation] = []
    for line in text.text.split("\n"):
        translation = lines[Text(line.strip(), text.protected)]
        assert translation is not None
        ways.append(translation)
        if translation.text is not None:
            stripped = line.strip()
            start = line.index(stripped)
            parts.append(line[:start] + translation.text + line[start + len(stripped) :])
    worst = max(ways, key=lambda way: _ORDER.index(way.how))
    has_placeholders = any(way.has_placeholders for way in ways)
    if worst.text is None:
        return SafeTranslation(None, "left", worst.problem, has_placeholders)
    return SafeTranslation("\n".join(parts), worst.how, "", has_placeholders)


_ORDER: tuple[How, ...] = ("unchanged", "best", "other", "copied", "parts", "left")


def _lines(
    bundle: TranslatorBundle, lines: Sequence[Text], options: TranslateOptions
) -> dict[Text, SafeTranslation]:
    """Translate lines without white space at their ends."""
    results: dict[Text, SafeTranslation] = {}
    chosen: list[Text] = []
    lengths = bundle.tokenizer.source.encode_batch([line.text for line in lines])
    for line, tokens in zip(lines, lengths, strict=True):
        outside = Placeholders(line.protected).removed(line.text)
        if not _LETTER.search(outside):
            results[line] = SafeTranslation(line.text, "unchanged")
        elif len(tokens) > bundle.longest:
            problem = f"it has {len(tokens):,} tokens, and the model takes {bundle.longest:,}"
            results[line] = SafeTranslation(None, "left", problem)
        else:
            chosen.append(line)
    searched = _search(bundle, [line.text for line in chosen], options)
    waiting: list[tuple[Text, str]] = []
    for line, candidates in zip(chosen, searched, strict=True):
        way = _chosen(line, candidates)
        results[line] = way
        if way.text is None:
            waiting.append((line, way.problem))
    results.update(_by_parts(bundle, waiting, options))
    return results


def _search(
    bundle: TranslatorBundle, texts: Sequence[str], options: TranslateOptions
) -> list[list[str]]:
    """Return the translations of each text on one line, best first: as many as the beam is wide."""
    lists = bundle.search(
        texts,
        beam=options.beam,
        num_best=min(options.beam, MOST),
        length_penalty=options.length_penalty,
    )
    return [[" ".join(t.text.split()) for t in translations] for translations in lists]


def _chosen(line: Text, candidates: Sequence[str]) -> SafeTranslation:
    """Return the first candidate with the placeholders of the line, or a repaired one."""
    placeholders = Placeholders(line.protected)
    has = bool(placeholders.find(line.text))
    problem = "the translation is empty"
    for number, candidate in enumerate(candidates):
        faults = placeholders.faults(line.text, candidate)
        if candidate and not faults:
            return SafeTranslation(candidate, "other" if number else "best", "", has)
        problem = "; ".join(faults) if faults and not number else problem
    for candidate in candidates:
        copied = placeholders.copied(line.text, candidate)
        if copied and not placeholders.faults(line.text, copied):
            return SafeTranslation(copied, "copied", "", has)
    return SafeTranslation(None, "left", problem, has)


def _by_parts(
    bundle: TranslatorBundle, waiting: Iterable[tuple[Text, str]], options: TranslateOptions
) -> dict[Text, SafeTranslation]:
    """Translate the parts between the placeholders of lines for which the search had no result.

    waiting: the lines, with the problem of their best translation.
    """
    split = [(line, problem, _parts(line)) for line, problem in waiting]
    texts = dict.fromkeys(part.text.strip() for _, _, parts in split for part in parts if part.read)
    searched = _search(bundle, list(texts), options) if texts else []
    translations = dict(zip(texts, searched, strict=True))
    results: dict[Text, SafeTranslation] = {}
    for line, problem, parts in split:
        placeholders = Placeholders(line.protected)
        has = bool(placeholders.find(line.text))
        pieces: list[str] = []
        for part in parts:
            text = part.text
            if part.read:
                core = text.strip()
                cleaned = [placeholders.removed(found) for found in translations[core]]
                best = next((found for found in cleaned if found), "")
                if not best:
                    break
                start = text.index(core)
                text = text[:start] + best + text[start + len(core) :]
            pieces.append(text)
        joined = "".join(pieces)
        if len(pieces) == len(parts) and not placeholders.faults(line.text, joined):
            results[line] = SafeTranslation(joined, "parts", "", has)
        else:
            results[line] = SafeTranslation(None, "left", problem, has)
    return results


@dataclass(frozen=True)
class _Part:
    """A placeholder, or the text between two. read: whether a model must translate it."""

    text: str
    read: bool


def _parts(line: Text) -> list[_Part]:
    """Return the placeholders of a line and the texts between them, in order."""

    def between(start: int, end: int) -> _Part:
        text = line.text[start:end]
        return _Part(text, bool(_LETTER.search(text)))

    parts: list[_Part] = []
    end = 0
    for item in Placeholders(line.protected).find(line.text):
        parts += [between(end, item.start), _Part(item.text, False)]
        end = item.end
    return [*parts, between(end, len(line.text))]
