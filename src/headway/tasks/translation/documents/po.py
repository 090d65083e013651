"""PO and POT files of GNU gettext: read as sentence pairs, and translated in place."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.tasks.translation.documents.po_entries import Catalogue, Entry, read_catalogue
from headway.tasks.translation.documents.segments import Document, Edit, Segment, newline_of
from headway.tasks.translation.pair_files import (
    Format,
    InlineTags,
    Pair,
    PairFiles,
    check_direction,
    direction,
)

_ESCAPES = str.maketrans(
    {
        **{"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"},
        **{"\b": "\\b", "\f": "\\f", "\v": "\\v", "\a": "\\a"},
    }
)


def po_files(
    path: Path, source: str | None, target: str | None, inline_tags: InlineTags
) -> PairFiles:
    """Return the corpus of a PO file: from its messages to their translations, or the reverse.

    Raises UsageError if the language of its header agrees neither with `target` nor with `source`.
    """
    return catalogue_files(path, "po", source, target, read_catalogue(path).language)


def catalogue_files(
    path: Path, format: Format, source: str | None, target: str | None, language: str | None
) -> PairFiles:
    """Return the corpus of a PO or MO file whose header states `language`, or None."""
    is_swapped = direction(str(path), (None, language), source, target)
    return PairFiles(
        paths=(path,),
        source=source or "msgid",
        target=target or language or "msgstr",
        format=format,
        is_swapped=is_swapped,
    )


def read_po(corpus: PairFiles) -> Iterator[Pair]:
    """Yield the translated messages of a PO file; the header, fuzzy and obsolete ones are left out.

    A message with plurals is two pairs: the singular with the form of the number 1, and the plural
    with the last form. Raises what `read_catalogue` raises.
    """
    catalogue = read_catalogue(corpus.paths[0])
    for entry in catalogue.entries:
        if entry.source is None or entry.is_header or not entry.is_translated:
            continue
        for original, translation in numbered_pairs(
            entry.source, entry.plural, entry.forms, catalogue.form_of(1)
        ):
            yield corpus.pair(original, translation, entry.msgid)


def numbered_pairs(
    source: str, plural: str | None, forms: list[str], form_of_one: int
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a message, without those with a blank side. form_of_one: the plural form
    of the number 1.

    A language with one form has no singular: the plural is paired with it.
    """
    if plural is None:
        pairs = [(source, forms[0])]
    else:
        one = [(source, forms[min(form_of_one, len(forms) - 1)])] if len(forms) > 1 else []
        pairs = [*one, (plural, forms[-1])]
    yield from (pair for pair in pairs if all(side.strip() for side in pair))


def po_document(path: Path, source: str | None, target: str | None, tags: InlineTags) -> Document:
    """Open a PO file to fill in its untranslated messages, which are then marked fuzzy.

    Of a message with plurals, all forms are filled in. Fuzzy messages have a translation to be
    reviewed, and stay as they are. Raises what `read_catalogue` raises; UsageError if the header
    states another language than `target`.
    """
    catalogue = read_catalogue(path, plain=True)
    check_direction(str(path), (None, catalogue.language), source, target)
    texts = [entry for entry in catalogue.entries if entry.source]
    return Document(
        file=catalogue.file,
        segments=tuple(
            _segment(catalogue, entry)
            for entry in texts
            if entry.is_empty and "fuzzy" not in entry.flags
        ),
        num_texts=len(texts),
        mark="#, fuzzy",
        language=catalogue.language,
    )


def _segment(catalogue: Catalogue, entry: Entry) -> Segment:
    source, plural = entry.source or "", entry.plural
    num_forms = catalogue.num_forms or max(2, len(entry.forms))
    newline = newline_of(catalogue.file.content)

    def write(translations: Sequence[str]) -> list[Edit]:
        if plural is None:
            texts = {"msgstr": translations[0]}
        else:
            one = catalogue.form_of(1) if len(translations) > 1 else None
            texts = {
                f"msgstr[{form}]": translations[0 if form == one else -1]
                for form in range(num_forms)
            }
        lines = [f"{key} {quoted(text, newline)}" for key, text in texts.items()]
        if entry.flags_start is not None:
            fuzzy = Edit(entry.flags_start, entry.flags_start, " fuzzy,")
        else:
            start = entry.start or 0
            fuzzy = Edit(start, start, f"#, fuzzy{newline}")
        return [fuzzy, Edit(entry.forms_start, entry.forms_end, newline.join(lines))]

    if plural is None:
        texts: tuple[str, ...] = (source,)
    elif num_forms > 1 and _fits_one(source, plural, catalogue):
        texts = (source, plural)
    else:
        texts = (plural,)
    return Segment(texts=texts, line=entry.msgid, write=write)


def _fits_one(source: str, plural: str, catalogue: Catalogue) -> bool:
    """Return whether the translation of the singular fits all numbers of the form of 1.

    A singular without the number, "One file", does not fit 21, which has the form of 1 in Russian.
    """
    one = catalogue.form_of(1)
    is_alone = all(catalogue.form_of(n) != one for n in range(200) if n != 1)
    return is_alone or all(source.count(sign) == plural.count(sign) for sign in "%{")


def quoted(text: str, newline: str) -> str:
    """Return a text as strings of a PO file: a text of several lines has one string for each."""
    parts = text.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
    strings = [f'"{line.translate(_ESCAPES)}"' for line in lines] or ['""']
    return strings[0] if len(strings) == 1 else newline.join(['""', *strings])
