"""Strings to ids and back: byte-level BPE tokenizers, one for a corpus or one for each language."""

from headway.text.pair import TokenizerPair
from headway.text.tokenizer import Tokenizer

__all__ = ["Tokenizer", "TokenizerPair"]
