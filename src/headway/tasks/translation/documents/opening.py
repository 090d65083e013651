"""Opens the files that are translated in place; the name of a file decides its format."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from headway.base.errors import UsageError
from headway.base.files import not_a_file
from headway.data.formats.lines import ending
from headway.tasks.translation.documents.html_text import html_segments
from headway.tasks.translation.documents.markdown import markdown_segments
from headway.tasks.translation.documents.plain_text import subtitle_segments, text_segments
from headway.tasks.translation.documents.po import po_document
from headway.tasks.translation.documents.segments import Document, Segment, TextFile, read_text_file
from headway.tasks.translation.documents.tmx import tmx_document
from headway.tasks.translation.documents.xliff import xliff_document
from headway.tasks.translation.pair_files import InlineTags

Opener = Callable[[Path, str | None, str | None, InlineTags], Document]


def _of_segments(segments_of: Callable[[TextFile, InlineTags], Iterable[Segment]]) -> Opener:
    """Return the opener of a format that states no languages, and all of whose texts are
    untranslated."""

    def opener(path: Path, source: str | None, target: str | None, tags: InlineTags) -> Document:
        file = read_text_file(path)
        segments = tuple(segments_of(file, tags))
        return Document(file=file, segments=segments, num_texts=len(segments))

    return opener


_MARKDOWN, _HTML = _of_segments(markdown_segments), _of_segments(html_segments)

DOCUMENTS: Mapping[str, Opener] = {
    ".po": po_document,
    ".pot": po_document,
    ".tmx": tmx_document,
    ".xlf": xliff_document,
    ".xliff": xliff_document,
    ".txt": _of_segments(text_segments),
    ".md": _MARKDOWN,
    ".markdown": _MARKDOWN,
    ".html": _HTML,
    ".htm": _HTML,
    ".srt": _of_segments(subtitle_segments),
}
"""Name of a suffix -> the function that opens such a file for translation in place."""


def open_document(
    path: Path, source: str | None, target: str | None, inline_tags: InlineTags = "keep"
) -> Document:
    """Open a file to fill in its untranslated texts.

    source, target: the languages of the model, or None; a file that states others is refused.
    Raises UsageError for a missing file, another suffix or other languages; DataError with file and
    line for an invalid file.
    """
    if not path.is_file():
        raise UsageError(not_a_file(path), str(path), "check the path")
    opener = DOCUMENTS.get(ending(path))
    if opener is None:
        hint = f"give a file that ends in {', '.join(DOCUMENTS)}"
        if ending(path) == ".mo":
            hint = "give the PO file from which it was compiled (or msgunfmt it)"
        raise UsageError("a file of this name cannot be translated in place", str(path), hint)
    return opener(path, source, target, inline_tags)
