"""Translates texts with placeholders, so that every placeholder survives.

The translation of a text is, in this order: that of a translation memory, of the same text or of
one that is similar enough; the best one of the search; the first of the others
whose placeholders are right; the best one with its wrong placeholders replaced by the missing ones;
the best one of a search that must contain the placeholders; the parts between the placeholders,
translated one by one. A text for which none of them is right is left untranslated, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from headway.base.errors import UsageError
from headway.base.settings import MOST
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from headway.tasks.translation.placeholder_pattern import Placeholders, single_spaces
from headway.tasks.translation.translation_memory import Match, TranslationMemory
from headway.text import split_sentences

How = Literal[
    "unchanged", "memory", "best", "other", "copied", "constrained", "parts", "similar", "left"
]
MOST_TAGS = 500
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class Text:
    """A text to translate, and the strings in it that are placeholders besides the usual ones."""

    text: str
    protected: tuple[str, ...] = ()


@dataclass(frozen=True)
class SafeTranslation:
    """The translation of a text, or None, and how it was obtained.

    how: "memory": that of the same text in a translation memory; "similar": that of a similar text;
    "best": the best translation; "other": another one of the search; "copied": placeholders
    were replaced; "constrained": a search that must contain the placeholders; "parts": the parts
    between the placeholders were translated; "unchanged": there is nothing to translate; "left":
    there is no translation. problem: the reason for "left". has_placeholders: whether the text has
    any. match: the entry of the memory, if it is from there.
    """

    text: str | None
    how: How
    problem: str = ""
    has_placeholders: bool = False
    match: Match | None = None


def translate_texts(
    bundle: TranslatorBundle,
    texts: Sequence[Text],
    options: TranslateOptions,
    memory: TranslationMemory | None = None,
    least: float = 1.0,
) -> list[SafeTranslation]:
    """Translate texts, in order. Each line of a text is translated on its own; white space at the
    ends of a line, and empty lines, stay. least: the similarity from which an entry of the memory
    is used."""
    remembered = {
        text: found
        for text in dict.fromkeys(texts)
        if memory is not None and (found := _remembered(memory, text, least)) is not None
    }
    lines: dict[Text, SafeTranslation | None] = {}
    for text in texts:
        if text not in remembered:
            for line in text.text.split("\n"):
                lines[Text(line.strip(), text.protected)] = None
    lines.update(_lines(bundle, list(lines), options))
    return [remembered.get(text) or _joined(text, lines) for text in texts]


def _remembered(memory: TranslationMemory, text: Text, least: float) -> SafeTranslation | None:
    """Return the translation of a text, or of a similar one, in the memory; None if there is none
    that can have the placeholders of the text."""
    match = memory.best(text.text, least)
    if match is None:
        return None
    target = match.adapted(text.text, text.protected)
    if target is None:
        return None
    core = text.text.strip()
    start = text.text.index(core)
    whole = text.text[:start] + target + text.text[start + len(core) :]
    has = bool(Placeholders(text.protected).find(text.text))
    return SafeTranslation(whole, "memory" if match.similarity == 1 else "similar", "", has, match)


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


_ORDER: tuple[How, ...] = get_args(How)
"""From the least to the most in need of a review."""


def _lines(
    bundle: TranslatorBundle, lines: Sequence[Text], options: TranslateOptions
) -> dict[Text, SafeTranslation]:
    """Translate lines without white space at their ends."""
    results: dict[Text, SafeTranslation] = {}
    chosen: list[Text] = []
    for line in lines:
        tokens, num_tags = _longest_sentence(bundle, line.text), len(set(line.protected))
        if tokens > bundle.longest:
            problem = f"a sentence has {tokens:,} tokens, and the model takes {bundle.longest:,}"
            results[line] = SafeTranslation(None, "left", problem)
        elif num_tags > MOST_TAGS:
            problem = f"it has {num_tags:,} different tags, and {MOST_TAGS:,} are allowed"
            results[line] = SafeTranslation(None, "left", problem)
        elif not _LETTER.search(Placeholders(line.protected).removed(line.text)):
            results[line] = SafeTranslation(line.text, "unchanged")
        else:
            chosen.append(line)
    searched = _search(bundle, [line.text for line in chosen], options)
    for line, candidates in zip(chosen, searched, strict=True):
        results[line] = _chosen(line, candidates)
    drafts = {line: found[0] for line, found in zip(chosen, searched, strict=True)}
    for repair in (_constrained, _by_parts):
        waiting = [
            _Draft(line, drafts[line], results[line].problem)
            for line in chosen
            if results[line].text is None
        ]
        results.update(repair(bundle, waiting, options))
    return results


@dataclass(frozen=True)
class _Draft:
    """A line whose best translation, `text`, has wrong placeholders or is empty (`problem`)."""

    line: Text
    text: str
    problem: str


def _longest_sentence(bundle: TranslatorBundle, text: str) -> int:
    """Return the number of tokens of a text, or of its longest sentence if the text is too long."""
    encode = bundle.tokenizer.source.encode
    length = len(encode(text))
    if length <= bundle.longest:
        return length
    return max(len(encode(sentence)) for sentence in split_sentences(text))


def _search(
    bundle: TranslatorBundle, texts: Sequence[str], options: TranslateOptions
) -> list[list[str]]:
    """Return the translations of each text on one line, best first: as many as the beam is wide."""
    if not texts:
        return []
    every = replace(options, nbest=min(options.beam, MOST))
    predictions = bundle.predict([TranslateInput(text=text) for text in texts], every)
    return [[single_spaces(t.text) for t in p.translations] for p in predictions]


def _constrained(
    bundle: TranslatorBundle, waiting: Sequence[_Draft], options: TranslateOptions
) -> dict[Text, SafeTranslation]:
    """Search again for translations that contain the placeholders.

    Texts with the same placeholders are searched together; if a text of them has no such
    translation, they are searched one by one. A model that was not trained on such placeholders
    writes them instead of words: a translation with less than two thirds of the text of the draft
    is not used.
    """
    groups: dict[tuple[str, ...], list[_Draft]] = {}
    for draft in waiting:
        found = Placeholders(draft.line.protected).find(draft.line.text)
        required = tuple(dict.fromkeys(item.text for item in found))
        if required and not options.mbr:  # samples cannot be constrained
            groups.setdefault(required, []).append(draft)
    results: dict[Text, SafeTranslation] = {}
    for required, drafts in groups.items():
        stricter = replace(options, contain=(*options.contain, *required))
        lines = [draft.line for draft in drafts]
        for draft, candidates in zip(drafts, _fitting(bundle, lines, stricter), strict=True):
            removed = Placeholders(draft.line.protected).removed
            least = len(removed(draft.text)) * 2 / 3
            full = [text for text in candidates if len(removed(text)) >= least]
            way = _chosen(draft.line, full)
            if way.text is not None:
                results[draft.line] = replace(way, how="constrained")
    return results


def _fitting(
    bundle: TranslatorBundle, lines: Sequence[Text], options: TranslateOptions
) -> list[list[str]]:
    """Return the translations of each text that contain all phrases; [] if there is none."""
    try:
        return _search(bundle, [line.text for line in lines], options)
    except UsageError:
        if len(lines) == 1:
            return [[]]
    return [candidates for line in lines for candidates in _fitting(bundle, [line], options)]


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
    bundle: TranslatorBundle, waiting: Sequence[_Draft], options: TranslateOptions
) -> dict[Text, SafeTranslation]:
    """Translate the parts between the placeholders of lines for which the search had no result."""
    split = [(draft.line, draft.problem, _parts(draft.line)) for draft in waiting]
    texts = dict.fromkeys(part.text.strip() for _, _, parts in split for part in parts if part.read)
    searched = _search(bundle, list(texts), options)
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
