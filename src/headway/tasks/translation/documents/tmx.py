"""Translation memories in TMX 1.4, levels 1 and 2: read as sentence pairs, and extended in place.

Source of the format: the TMX 1.4b specification. A unit `<tu>` has one variant `<tuv xml:lang>` for
each language, with its text in `<seg>`. The document type `tmx14.dtd` is never fetched.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.tasks.translation.documents.inline_tags import InlineText, inline_text, is_untranslated
from headway.tasks.translation.documents.segments import Document, Edit, Segment, TextFile
from headway.tasks.translation.documents.xml_elements import (
    Element,
    elements,
    read_xml,
    space_before,
)
from headway.tasks.translation.pair_files import InlineTags, Pair, PairFiles, same_language

_LANGUAGE = ("xml:lang", "lang")
_FIRST_UNITS = 100


def tmx_files(
    path: Path, source: str | None, target: str | None, inline_tags: InlineTags
) -> PairFiles:
    """Return the corpus of a TMX file in two of its languages.

    If no languages are requested, the source is `srclang` of the header, and the target is the only
    other language of the first 100 units. Raises UsageError if that is ambiguous, or if the first
    units do not have the requested languages.
    """
    source, target = _languages(path, source, target)
    return PairFiles(
        paths=(path,), source=source, target=target, format="tmx", inline_tags=inline_tags
    )


def read_tmx(corpus: PairFiles) -> Iterator[Pair]:
    """Yield the units of a TMX file that have a text in both languages, one at a time.

    Raises DataError with file and line for a file that is no valid TMX (see `elements`).
    """
    (path,) = corpus.paths
    for unit in elements(path, "tmx", ["tu"]):
        sides = [_variant(unit, language) for language in (corpus.source, corpus.target)]
        source, target = sides
        if source is None or target is None or is_untranslated(target, source):
            continue
        texts = [inline_text(seg, corpus.inline_tags).text.strip() for seg in (source, target)]
        if all(texts):
            yield Pair(texts[0], texts[1], unit.line)


def tmx_document(path: Path, source: str | None, target: str | None, tags: InlineTags) -> Document:
    """Open a TMX file to add a variant in the target language to the units without one.

    A new variant is marked with `<prop type="x-fuzzy">yes</prop>`. Raises what `tmx_files` and
    `elements` raise; UsageError without a target language.
    """
    if target is None:
        raise UsageError(
            "the target language is not known", str(path), "name it, such as --target fr"
        )
    file = read_xml(path)
    source = source or _source_language(file)
    segments: list[Segment] = []
    count = 0
    for unit in elements(file, "tmx", ["tu"]):
        seg, present = _variant(unit, source), _variant(unit, target)
        if seg is None:
            continue
        count += 1
        text = inline_text(seg, tags, file.content)
        if text.text.strip() and is_untranslated(present, seg):
            segments.append(_segment(file, unit, text, target, present))
    if not count:
        raise DataError(f"no unit has a text in {source!r}", str(path), "set --source LANGUAGE")
    return Document(
        file=file,
        segments=tuple(segments),
        num_texts=count,
        mark='<prop type="x-fuzzy">',
    )


def _segment(
    file: TextFile, unit: Element, text: InlineText, language: str, present: Element | None
) -> Segment:
    """Return the segment of a unit. present: its empty `<seg>` in the target language, or None."""

    def write(translations: Sequence[str]) -> list[Edit]:
        seg = f"<seg>{text.markup(translations[0])}</seg>"
        if present is not None:
            return [Edit(present.start, present.end, seg)]
        last = unit.children("tuv")[-1]
        gap = space_before(file.content, last.start)
        new = f'<tuv xml:lang="{language}"><prop type="x-fuzzy">yes</prop>{seg}</tuv>'
        return [Edit(last.end, last.end, gap + new)]

    return Segment(texts=(text.text,), line=unit.line, write=write, protected=text.protected)


def _language_of(variant: Element) -> str:
    return next((variant.attributes[n] for n in _LANGUAGE if n in variant.attributes), "")


def _variant(unit: Element, language: str) -> Element | None:
    """Return the `<seg>` of a unit in a language: of that very code, or of one that agrees."""
    variants = unit.children("tuv")
    exact = [v for v in variants if _language_of(v).lower() == language.lower()]
    agreeing = [v for v in variants if same_language(_language_of(v), language)]
    for variant in [*exact, *agreeing]:
        if segs := variant.children("seg"):
            return segs[0]
    return None


def _source_language(file: Path | TextFile) -> str:
    path = file if isinstance(file, Path) else file.path
    header = next(elements(file, "tmx", contexts=["header"]), None)
    language = header.attributes.get("srclang", "") if header else ""
    if not language or language == "*all*":
        raise UsageError(
            "the header of the file names no source language",
            str(path),
            "set --source and --target to two languages of the file",
        )
    return language


def _languages(path: Path, source: str | None, target: str | None) -> tuple[str, str]:
    """Return the languages of a corpus, as they are requested or as the file implies."""
    units = list(islice(elements(path, "tmx", ["tu"]), _FIRST_UNITS))
    present = list(dict.fromkeys(_language_of(v) for u in units for v in u.children("tuv")))
    if source is None or target is None:
        source = _source_language(path)
        others = [name for name in present if not same_language(name, source)]
        if len(others) != 1:
            raise UsageError(
                f"the file must have two languages, but has {_listed(present)}",
                str(path),
                "choose two with --source and --target",
            )
        target = others[0]
    for language in (source, target):
        if not any(same_language(name, language) for name in present):
            raise UsageError(
                f"no text in {language!r} among the first {_FIRST_UNITS} units, which have "
                f"{_listed(present)}",
                str(path),
                "choose two of these with --source and --target",
            )
    return source, target


def _listed(languages: list[str]) -> str:
    return ", ".join(repr(name[:20]) for name in languages[:12]) or "no texts"
