"""Readers of files that hold sentences or pairs of them, and the search for them."""

from headway.data.formats.lines import read_lines
from headway.data.formats.splits import Splits, locate
from headway.data.formats.tsv import Pair, PairFiles, pair_files, read_pairs, read_texts

__all__ = [
    "Pair",
    "PairFiles",
    "Splits",
    "locate",
    "pair_files",
    "read_lines",
    "read_pairs",
    "read_texts",
]
