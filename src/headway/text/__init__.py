"""Strings to ids and back: byte-level BPE tokenizers, one for a corpus or one for each language,
and vocabularies of whole words."""

from headway.text.absent import AbsentMarkedTokenizer, AbsentTokenizer
from headway.text.characters import Characters
from headway.text.contract import TextTokenizer
from headway.text.extension import extended, new_words
from headway.text.foreign import ForeignTokenizer
from headway.text.grouping import word_places
from headway.text.loading import load_tokenizer
from headway.text.marked import MarkedTokenizer, Marks
from headway.text.pair import TokenizerPair
from headway.text.pieces import TextPieces
from headway.text.sentences import split_sentences
from headway.text.tokenizer import Tokenizer
from headway.text.vocabulary import BORDER, Vocabulary, words_of

__all__ = [
    "BORDER",
    "AbsentMarkedTokenizer",
    "AbsentTokenizer",
    "Characters",
    "ForeignTokenizer",
    "MarkedTokenizer",
    "Marks",
    "TextPieces",
    "TextTokenizer",
    "Tokenizer",
    "TokenizerPair",
    "Vocabulary",
    "extended",
    "load_tokenizer",
    "new_words",
    "split_sentences",
    "word_places",
    "words_of",
]
