"""Tokenizers convert between text and token ids: byte-level BPE, WordPiece, characters, Hugging
Face tokenizers and vocabularies of whole words."""

from headway.text.characters import Characters
from headway.text.hf_tokenizer import ForeignTokenizer
from headway.text.loading import load_tokenizer
from headway.text.missing_tokenizer import AbsentMarkedTokenizer, AbsentTokenizer
from headway.text.sentence_bpe import Tokenizer
from headway.text.sentences import split_sentences
from headway.text.text_bpe import TextPieces
from headway.text.tokenizer import TextTokenizer
from headway.text.tokenizer_pair import TokenizerPair
from headway.text.vocabulary import BORDER, Vocabulary, words_of
from headway.text.vocabulary_extension import extended, new_words
from headway.text.word_positions import word_places
from headway.text.wordpiece import MarkedTokenizer, Marks

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
