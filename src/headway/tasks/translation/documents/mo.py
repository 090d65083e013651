"""MO files, the compiled catalogues of GNU gettext: read as sentence pairs.

Source of the format: the manual of GNU gettext, section "The Format of GNU MO Files".
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from headway.base.errors import DataError
from headway.base.files import read_bytes
from headway.tasks.translation.documents.po import catalogue_files, numbered_pairs
from headway.tasks.translation.documents.po_entries import header_field, plural_rule
from headway.tasks.translation.documents.segments import DOCUMENT_LIMIT, known_encoding
from headway.tasks.translation.pair_files import InlineTags, Pair, PairFiles

_MAGIC = 0x950412DE
_HEADER = 20


def mo_files(
    path: Path, source: str | None, target: str | None, inline_tags: InlineTags
) -> PairFiles:
    """Return the corpus of an MO file: from its messages to their translations, or the reverse.

    Raises UsageError if the language of its header agrees neither with `target` nor with `source`.
    """
    header = _header(_messages(read_bytes(path, DOCUMENT_LIMIT), str(path)))
    return catalogue_files(path, "mo", source, target, header_field(header, "Language"))


def read_mo(corpus: PairFiles) -> Iterator[Pair]:
    """Yield the messages of an MO file without its header; pairs of plurals as in a PO file.

    `Pair.line` is the number of the message. Raises what `mo_pairs` raises.
    """
    (path,) = corpus.paths
    for number, source, target in mo_pairs(read_bytes(path, DOCUMENT_LIMIT), str(path)):
        yield corpus.pair(source, target, number)


def mo_pairs(data: bytes, where: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number, the source and the translation of the messages in the bytes of an MO file.

    where: its name in errors. Raises DataError, with the number of the message, for a damaged file
    and for bytes that are not in the encoding of the header.
    """
    messages = _messages(data, where)
    header = _header(messages)
    _, form_of = plural_rule(header, where)
    encoding = known_encoding(_charset(header), where)
    for number, (raw_source, raw_target) in enumerate(messages, start=1):
        if not raw_source:
            continue
        message = _where(where, number)
        text, translation = (_decoded(raw, encoding, message) for raw in (raw_source, raw_target))
        source, *plurals = text.rpartition("\4")[2].split("\0")
        forms = translation.split("\0")
        if not all(forms):
            continue
        pairs = numbered_pairs(source, plurals[0] if plurals else None, forms, form_of(1))
        for original, translated in pairs:
            yield number, original, translated


def _messages(data: bytes, where: str) -> list[tuple[bytes, bytes]]:
    """Return the original and the translation of every message, as bytes."""
    order = next((o for o in "<>" if data[:4] == struct.pack(f"{o}I", _MAGIC)), None)
    if order is None or len(data) < _HEADER:
        raise DataError(
            "this is not an MO file: it must begin with the number 0x950412de",
            where,
            "compile the PO file again: msgfmt -o messages.mo messages.po",
        )
    revision, count, originals, translations = struct.unpack(f"{order}4I", data[4:_HEADER])
    if revision >> 16 > 1:
        fault = f"the version of the file is {revision >> 16}, and only 0 and 1 can be read"
        raise DataError(fault, where, "compile the PO file again with msgfmt")
    messages: dict[bytes, bytes] = {}
    size = 0
    for number in range(1, count + 1):
        message = _where(where, number)
        original, translation = (
            _string(data, order, table + 8 * (number - 1), message)
            for table in (originals, translations)
        )
        size += len(original) + len(translation)
        if original in messages or size > DOCUMENT_LIMIT:
            fault = "occurs twice" if original in messages else "overlaps with other messages"
            raise DataError(
                f"the file is damaged: this message {fault}",
                message,
                "compile the PO file again with msgfmt",
            )
        messages[original] = translation
    return list(messages.items())


def _string(data: bytes, order: str, entry: int, where: str) -> bytes:
    """Return the string whose length and offset are at `entry` in the file."""
    if entry + 8 <= len(data):
        length, start = struct.unpack(f"{order}2I", data[entry : entry + 8])
        end = start + length
        if end < len(data) and data[end] == 0:
            return data[start:end]
    raise DataError(
        "the file is damaged: the string of this message is outside the file or has no end",
        where,
        "copy it again, or compile the PO file again with msgfmt",
    )


def _header(messages: list[tuple[bytes, bytes]]) -> str:
    if messages and not messages[0][0]:
        return messages[0][1].decode("utf-8", "replace")
    return ""


def _charset(header: str) -> str:
    content = header_field(header, "Content-Type") or ""
    return content.partition("charset=")[2].strip() or "UTF-8"


def _decoded(raw: bytes, encoding: str, where: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeError as error:
        raise DataError(
            f"the text is not {encoding}, the encoding that the header states",
            where,
            "compile the PO file again with the correct charset in its header",
        ) from error


def _where(path: str, number: int) -> str:
    return f"{path}, message {number:,}"
