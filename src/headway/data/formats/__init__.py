"""Readers of files that hold pairs of sentences, and the search for them."""

from headway.data.formats.lines import read_lines
from headway.data.formats.splits import Splits, locate
from headway.data.formats.tsv import Pair, PairFiles, pair_files, read_pairs

__all__ = ["Pair", "PairFiles", "Splits", "locate", "pair_files", "read_lines", "read_pairs"]
