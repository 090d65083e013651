"""Readers for data files: plain text, sentence pairs, labelled texts, tagged sentences, questions,
images and captions. `locate` finds the files of a corpus in a folder."""

from headway.data.formats.labels import (
    Columns,
    LabelledText,
    check_unlabelled,
    read_labelled,
    read_unlabelled,
)
from headway.data.formats.lines import ending, read_lines, read_stream
from headway.data.formats.pairs import OPENERS, pair_files, read_pairs
from headway.data.formats.parallel import InlineTags, Pair, PairFiles, is_language
from headway.data.formats.plain_lines import plain_files
from headway.data.formats.similar import SimilarTexts, read_similar
from headway.data.formats.splits import Splits, locate
from headway.data.formats.tables import ENDINGS as TABLES
from headway.data.formats.tables import check_table, checked_text, read_rows
from headway.data.formats.tsv import read_texts

__all__ = [
    "OPENERS",
    "TABLES",
    "Columns",
    "InlineTags",
    "LabelledText",
    "Pair",
    "PairFiles",
    "SimilarTexts",
    "Splits",
    "check_table",
    "check_unlabelled",
    "checked_text",
    "ending",
    "is_language",
    "locate",
    "pair_files",
    "plain_files",
    "read_labelled",
    "read_lines",
    "read_pairs",
    "read_rows",
    "read_similar",
    "read_stream",
    "read_texts",
    "read_unlabelled",
]
