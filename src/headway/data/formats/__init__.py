"""Readers for data files: plain text, sentence pairs, labelled texts, tagged sentences, questions,
images and captions. `locate` finds the files of a corpus in a folder."""

from headway.data.formats.columns import read_texts
from headway.data.formats.lines import ending, read_lines, read_stream
from headway.data.formats.tables import ENDINGS as TABLES
from headway.data.formats.tables import check_table, checked_text, read_rows

__all__ = [
    "TABLES",
    "check_table",
    "checked_text",
    "ending",
    "read_lines",
    "read_rows",
    "read_stream",
    "read_texts",
]
