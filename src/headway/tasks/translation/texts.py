"""Translates texts with placeholders, so that every placeholder survives.

The translation of a text is, in this order: that of a translation memory, of the same text or of
one that is similar enough; the best one of the search; the first of the others
whose placeholders are right; the best one with its wrong placeholders replaced by the missing ones;
the best one of a search that must contain the placeholders; the parts between the placeholders,
translated one by one. A text for which none of them is right is left untranslated, with the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from headway.base.errors import UsageError
from headway.base.settings import MOST
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.documents.segments import LETTER
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from headway.tasks.translation.placeholder_pattern import Placeholders, single_spaces
from headway.tasks.translation.translation_memory import Match, TranslationMemory
from headway.text import split_sentences

How = Literal[
    "unchanged", "memory", "best", "other", "copied", "constrained", "parts", "similar", "left"
]
"""From the least to the most in need of a review."""

MOST_TAGS = 500


@dataclass(frozen=True)
class Text:
    """A text to translate, and the strings in it that are placeholders besides the usual ones."""

    text: str
    protected: tuple[str, ...] = ()

    @property
    def placeholders(self) -> Placeholders:
        """Finds the placeholders of the text, and of its translations."""
        return Placeholders(self.protected)


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
    new = dict.fromkeys(line for text in texts if text not in remembered for line in _lines(text))
    translations = _translated(bundle, list(new), options)
    return [remembered.get(text) or _joined(text, translations) for text in texts]


def _lines(text: Text) -> list[Text]:
    """Return the lines of a text, without the white space at their ends."""
    return [Text(line.strip(), text.protected) for line in text.text.split("\n")]


def _in_place(text: str, translation: str) -> str:
    """Return a translation between the white space at the ends of its text."""
    return text.replace(text.strip(), translation, 1)


def _remembered(memory: TranslationMemory, text: Text, least: float) -> SafeTranslation | None:
    """Return the translation of a text, or of a similar one, in the memory; None if there is none
    that can have the placeholders of the text."""
    match = memory.best(text.text, least)
    target = None if match is None else match.adapted(text.text, text.protected)
    if match is None or target is None:
        return None
    has = bool(text.placeholders.find(text.text))
    how: How = "memory" if match.similarity == 1 else "similar"
    return SafeTranslation(_in_place(text.text, target), how, "", has, match)


def _joined(text: Text, translations: dict[Text, SafeTranslation]) -> SafeTranslation:
    """Join the translations of the lines of a text; one that is left leaves the whole text."""
    of_lines = [translations[line] for line in _lines(text)]
    worst = max(of_lines, key=lambda line: get_args(How).index(line.how))
    has_placeholders = any(line.has_placeholders for line in of_lines)
    if worst.text is None:
        return SafeTranslation(None, "left", worst.problem, has_placeholders)
    lines = zip(text.text.split("\n"), of_lines, strict=True)
    whole = "\n".join(_in_place(line, translation.text or "") for line, translation in lines)
    return SafeTranslation(whole, worst.how, "", has_placeholders)


def _translated(
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
        elif not LETTER.search(line.placeholders.removed(line.text)):
            results[line] = SafeTranslation(line.text, "unchanged")
        else:
            chosen.append(line)
    drafts: dict[Text, str] = {}
    searched = _search(bundle, [line.text for line in chosen], options)
    for line, candidates in zip(chosen, searched, strict=True):
        results[line], drafts[line] = _chosen(line, candidates), candidates[0]
    results |= _constrained(bundle, _left(chosen, results), drafts, options)
    return results | _by_parts(bundle, _left(chosen, results), options)


def _left(lines: Sequence[Text], results: dict[Text, SafeTranslation]) -> dict[Text, str]:
    """Return the lines without a translation, each with the reason."""
    return {line: results[line].problem for line in lines if results[line].text is None}


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
    bundle: TranslatorBundle,
    lines: dict[Text, str],
    drafts: dict[Text, str],
    options: TranslateOptions,
) -> dict[Text, SafeTranslation]:
    """Search again for translations that contain the placeholders.

    Texts with the same placeholders are searched together; if a text of them has no such
    translation, they are searched one by one. A model that was not trained on such placeholders
    writes them instead of words: a translation with less than two thirds of the text of the draft,
    the best translation of the first search, is not used.
    """
    groups: dict[tuple[str, ...], list[Text]] = {}
    for line in lines:
        required = tuple(dict.fromkeys(item.text for item in line.placeholders.find(line.text)))
        if required and not options.mbr:  # samples cannot be constrained
            groups.setdefault(required, []).append(line)
    results: dict[Text, SafeTranslation] = {}
    for required, group in groups.items():
        stricter = replace(options, contain=(*options.contain, *required))
        for line, candidates in zip(group, _fitting(bundle, group, stricter), strict=True):
            removed = line.placeholders.removed
            least = len(removed(drafts[line])) * 2 / 3
            way = _chosen(line, [text for text in candidates if len(removed(text)) >= least])
            if way.text is not None:
                results[line] = replace(way, how="constrained")
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
    placeholders = line.placeholders
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
    bundle: TranslatorBundle, lines: dict[Text, str], options: TranslateOptions
) -> dict[Text, SafeTranslation]:
    """Translate the parts between the placeholders of lines for which the search had no result."""
    parts_of = {line: _parts(line) for line in lines}
    cores = dict.fromkeys(
        part.strip() for parts in parts_of.values() for part in parts if LETTER.search(part)
    )
    searched = dict(zip(cores, _search(bundle, list(cores), options), strict=True))
    results: dict[Text, SafeTranslation] = {}
    for line, parts in parts_of.items():
        placeholders = line.placeholders
        found = [item.text for item in placeholders.find(line.text)]
        best = {
            core: next(filter(None, map(placeholders.removed, searched[core])), "")
            for core in map(str.strip, parts)
            if core in searched
        }
        first, *others = (
            _in_place(part, best[part.strip()]) if part.strip() in best else part for part in parts
        )
        joined = first + "".join(map("".join, zip(found, others, strict=True)))
        if all(best.values()) and not placeholders.faults(line.text, joined):
            results[line] = SafeTranslation(joined, "parts", "", bool(found))
        else:
            results[line] = SafeTranslation(None, "left", lines[line], bool(found))
    return results


def _parts(line: Text) -> list[str]:
    """Return the texts before, between and after the placeholders of a line."""
    found = line.placeholders.find(line.text)
    starts = [0, *(item.end for item in found)]
    ends = [*(item.start for item in found), len(line.text)]
    return [line.text[start:end] for start, end in zip(starts, ends, strict=True)]
