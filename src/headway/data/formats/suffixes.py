"""Finds the suffix that the name of a file would have, by the beginning of its content."""

import csv
import json
import re
import zlib
from contextlib import suppress

from headway.data import media_kinds
from headway.data.formats.file_kinds import CONTROL
from headway.data.formats.tables import SEPARATORS

HEAD = 2**16
"""The number of first bytes by which `suffix_of` decides."""

_BINARY = (
    (b"PAR1", ".parquet"),
    (b"\xde\x12\x04\x95", ".mo"),
    (b"\x95\x04\x12\xde", ".mo"),
)
_TEXT = (
    (re.compile(r"\[\s*[\[{]"), ".json"),
    (re.compile(r"(<\?xml.*?\?>)?\s*(<!--.*?-->\s*)*<(\w+:)?xliff\b", re.DOTALL), ".xlf"),
    (re.compile(r"(<\?xml.*?\?>)?\s*(<!DOCTYPE tmx.*?>)?\s*<tmx\b", re.DOTALL), ".tmx"),
    (re.compile(r"<!DOCTYPE html|<html\b", re.IGNORECASE), ".html"),
    (re.compile(r'(#.*\n|\s*\n)*(msgctxt|msgid) "'), ".po"),
    (re.compile(r"1\r?\n\d+:\d\d:\d\d,\d+ -->"), ".srt"),
    (re.compile(r"(#.*\n)*1(-\d+)?\t([^\t\n]*\t){8}[^\t\n]*\r?\n"), ".conllu"),
)
"""What a file of a format begins with."""
_NAME = re.compile(r"[^\W\d][\w.-]*")  # of a column


def suffix_of(head: bytes) -> str:
    """Return the suffix of a file that begins with `head`, such as .tsv or .jsonl.gz.

    It is .txt for a text of no other format. A .csv file begins with the names of its columns.
    """
    if head.startswith(b"\x1f\x8b"):
        with suppress(zlib.error):
            inner = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(head, HEAD)
            return f"{suffix_of(inner)}.gz"
        return ".gz"
    if head.startswith(b"PK\x03\x04"):
        return ".npz" if b".npy" in head[:200] else ".zip"
    for magic, suffix in _BINARY:
        if head.startswith(magic):
            return suffix
    if CONTROL.search(head) and (media := media_kinds.suffix_of(head)) is not None:
        return media
    text = head.decode("utf-8-sig", "replace").lstrip()
    for pattern, suffix in _TEXT:
        if pattern.match(text):
            return suffix
    first, *rest = text.splitlines() or [""]
    if re.match(r"\{\s*(\"|\}|$)", first):
        return ".jsonl" if _is_line(first, is_cut=not rest) else ".json"
    if "\t" in first:
        return ".tsv"
    return ".csv" if _names_columns(first, rest) else ".txt"


def _is_line(first: str, *, is_cut: bool) -> bool:
    """Return whether a line is the record of a .jsonl file, not the beginning of one value.

    is_cut: whether the text has only this line, perhaps not whole. SQuAD's file is one line.
    """
    try:
        value = json.loads(first)
    except ValueError:
        return is_cut and '"data"' not in first[:200] and '"paragraphs"' not in first
    return not (isinstance(value, dict) and isinstance(value.get("data"), list))


def _names_columns(first: str, rest: list[str]) -> bool:
    """Return whether the first line names columns, and the second has as many cells.

    A separator in a sentence has a space behind it.
    """
    if re.fullmatch(r'"?sep=."?', first.strip(), re.IGNORECASE):
        return True
    for separator in SEPARATORS:
        is_sentence = re.search(rf'{re.escape(separator)} (?!")', first)
        if separator in first and rest and not is_sentence:
            names, cells = csv.reader([first, rest[0]], delimiter=separator, skipinitialspace=True)
            if len(names) == len(cells) and all(_NAME.fullmatch(name.strip()) for name in names):
                return True
    return False
