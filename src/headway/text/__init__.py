"""Strings to ids and back: byte-level BPE tokenizers, one for a corpus or one for each language,
and vocabularies of whole words."""

from headway.text.contract import TextTokenizer
from headway.text.pair import TokenizerPair
from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import BORDER, Vocabulary, words_of

__all__ = ["BORDER", "TextTokenizer", "Tokenizer", "TokenizerPair", "Vocabulary", "words_of"]
