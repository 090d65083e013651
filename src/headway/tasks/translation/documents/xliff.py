"""XLIFF 1.0 to 1.2 and 2.0 to 2.2: read as sentence pairs, and translated in place.

Sources of the formats: OASIS, XLIFF 1.2 and XLIFF 2.0. A unit has the original in `<source>` and
the translation in `<target>`: inside `<trans-unit>` in version 1.2, `<segment>` in version 2.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.tasks.translation.documents.inline_tags import InlineText, inline_text, is_untranslated
from headway.tasks.translation.documents.segments import Document, Edit, Segment, TextFile
from headway.tasks.translation.documents.xml_elements import (
    Element,
    attribute_edit,
    elements,
    read_xml,
    space_before,
)
from headway.tasks.translation.pair_files import (
    InlineTags,
    Pair,
    PairFiles,
    check_direction,
    direction,
)

_UNITS = ("trans-unit", "unit")
_CONTEXTS = ("xliff", "file")
_STATED = {
    "file": ("source-language", "target-language"),  # version 1.2
    "xliff": ("srcLang", "trgLang"),  # version 2
}
_VERSIONS = ("1.0", "1.1", "1.2", "2.0", "2.1", "2.2")
_UNREVIEWED = {"new", "needs-translation", "initial"}


@dataclass(frozen=True)
class _Text:
    """A text of a file: its unit or segment, and `<source>` and `<target>` of it."""

    owner: Element
    source: Element
    target: Element | None

    @property
    def is_version_2(self) -> bool:
        return self.owner.name == "segment"


def xliff_files(
    path: Path, source: str | None, target: str | None, inline_tags: InlineTags
) -> PairFiles:
    """Return the corpus of an XLIFF file, in the direction of its languages or the reverse.

    Raises UsageError if the languages of the file do not agree with `source` and `target`.
    """
    languages = _languages(path, path)
    is_swapped = direction(str(path), languages, source, target)
    first, second = languages if not is_swapped else languages[::-1]
    return PairFiles(
        paths=(path,),
        source=source or first or "source",
        target=target or second or "target",
        format="xliff",
        is_swapped=is_swapped,
        inline_tags=inline_tags,
    )


def read_xliff(corpus: PairFiles) -> Iterator[Pair]:
    """Yield the translated texts of an XLIFF file, one at a time.

    Texts whose state is new, needs-translation or initial are left out. Raises DataError with file
    and line for a file that is no valid XLIFF (see `elements`).
    """
    (path,) = corpus.paths
    for element in elements(path, "xliff", _UNITS):
        for text in _texts(element):
            if text.target is None or is_untranslated(text.target, text.source):
                continue
            if _state(text) in _UNREVIEWED:
                continue
            source, target = (
                inline_text(side, corpus.inline_tags).text for side in (text.source, text.target)
            )
            if source.strip() and target.strip():
                yield corpus.pair(source, target, text.source.line)


def xliff_document(
    path: Path, source: str | None, target: str | None, tags: InlineTags
) -> Document:
    """Open an XLIFF file to fill in its empty or missing `<target>`.

    A target that has only spaces and tags is empty. A new target has the state
    `needs-review-translation`, and its unit is no longer approved; in version 2, its segment has
    the state `translated` and the sub-state `headway:fuzzy`. Raises what `xliff_files` raises.
    """
    file = read_xml(path)
    languages = _languages(path, file)
    check_direction(str(path), languages, source, target)
    segments: list[Segment] = []
    extra: list[Edit] = []
    count = 0
    for element in elements(file, "xliff", _UNITS, _CONTEXTS):
        if element.name in _CONTEXTS:
            extra += _stated_language(file, element, target)
            continue
        for text in _texts(element):
            count += 1
            inline = inline_text(text.source, tags, file.content)
            if is_untranslated(text.target, text.source) and inline.text.strip():
                segments.append(_segment(file, text, inline))
    return Document(
        file=file,
        segments=tuple(segments),
        num_texts=count,
        mark="needs-review-translation, or subState headway:fuzzy in XLIFF 2",
        extra=tuple(extra),
        language=languages[1],
    )


def _segment(file: TextFile, text: _Text, inline: InlineText) -> Segment:
    """Return the segment that fills in the target of a text."""
    name = text.source.tag("target")
    state = "" if text.is_version_2 else ' state="needs-review-translation"'

    def write(translations: Sequence[str]) -> list[Edit]:
        inner = inline.markup(translations[0])
        edits = []
        if text.target is None:
            siblings = text.owner.children("seg-source")
            last = siblings[-1] if siblings else text.source
            gap = space_before(file.content, text.source.start)
            new = f"{gap}<{name}{state}>{inner}</{name}>"
            edits.append(Edit(last.end, last.end, new))
        else:
            values = {} if text.is_version_2 else {"state": "needs-review-translation"}
            tag = attribute_edit(file.content, text.target, values).text
            opening = f"{tag[:-2].rstrip()}>" if tag.endswith("/>") else tag
            written = f"{opening}{inner}</{name}>"
            edits.append(Edit(text.target.start, text.target.end, written))
        if text.is_version_2:
            values = {"state": "translated", "subState": "headway:fuzzy"}
            edits.append(attribute_edit(file.content, text.owner, values))
        elif text.owner.attributes.get("approved") == "yes":
            edits.append(attribute_edit(file.content, text.owner, {"approved": "no"}))
        return edits

    return Segment(
        texts=(inline.text,),
        line=text.source.line,
        write=write,
        protected=inline.protected,
    )


def _texts(unit: Element) -> Iterator[_Text]:
    """Yield the texts of a unit that may be translated.

    translate="no" of a group or file holds for the units in it that do not say otherwise.
    """
    if unit.translate == "no":
        return
    for owner in [unit] if unit.name == "trans-unit" else unit.children("segment"):
        sources, targets = owner.children("source"), owner.children("target")
        if sources:
            yield _Text(owner, sources[0], targets[0] if targets else None)


def _state(text: _Text) -> str:
    owner = text.owner if text.is_version_2 else text.target
    return owner.attributes.get("state", "") if owner else ""


def _languages(path: Path, file: Path | TextFile) -> tuple[str | None, str | None]:
    """Return the languages that the file states, from its first elements."""
    for element in elements(file, "xliff", contexts=_CONTEXTS):
        version = element.attributes.get("version", "")
        if element.name == "xliff" and version not in _VERSIONS:
            raise DataError(
                f"the version must be one of {', '.join(_VERSIONS)}, but is {version[:20]!r}",
                f"{path}:{element.line}",
                "export the file as XLIFF 1.2 or 2.0",
            )
        names = _STATED[element.name]
        stated = tuple(element.attributes.get(name) or None for name in names)
        if any(stated):
            return stated[0], stated[1]
    return None, None


def _stated_language(file: TextFile, element: Element, target: str | None) -> list[Edit]:
    """Return the edit that states the target language, if the element lacks it.

    Version 2 does not allow `<target>` without it. Raises UsageError if it is not known.
    """
    original, translation = _STATED[element.name]
    if original not in element.attributes or translation in element.attributes:
        return []
    if target is None:
        if element.name == "file":
            return []
        raise UsageError(
            "the target language is not known", str(file.path), "name it, such as --target fr"
        )
    return [attribute_edit(file.content, element, {translation: target})]
