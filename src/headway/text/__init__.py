"""Tokenizers convert between text and token ids: byte-level BPE and Unigram, WordPiece, characters,
Hugging Face tokenizers and vocabularies of whole words."""

from headway.text.byte_level import BACK_TRANSLATED, LANGUAGE_TAG
from headway.text.characters import CharacterTokenizer
from headway.text.encoder_tokenizer import EncoderTokenizer, SpecialTokens
from headway.text.hf_tokenizer import PretrainedTokenizer
from headway.text.language_tokens import LanguageTokens, Roles
from headway.text.loading import load_tokenizer
from headway.text.missing_tokenizer import MissingEncoderTokenizer, MissingTokenizer
from headway.text.pretrained_sentence import PretrainedSentenceTokenizer
from headway.text.sentence_subwords import SentenceSubwords, Tokenizer, UnigramTokenizer
from headway.text.sentence_tokenizer import SentenceTokenizer
from headway.text.sentences import split_sentences
from headway.text.text_frame import TextFrame
from headway.text.text_subwords import TextBPE, TextSubwords, TextUnigram
from headway.text.tokenizer import TextTokenizer
from headway.text.tokenizer_pair import TokenizerPair
from headway.text.vocabulary import BORDER, Vocabulary, words_of
from headway.text.vocabulary_extension import extended, new_words
from headway.text.word_positions import positions_of_words

__all__ = [
    "BACK_TRANSLATED",
    "BORDER",
    "LANGUAGE_TAG",
    "CharacterTokenizer",
    "EncoderTokenizer",
    "LanguageTokens",
    "MissingEncoderTokenizer",
    "MissingTokenizer",
    "PretrainedSentenceTokenizer",
    "PretrainedTokenizer",
    "Roles",
    "SentenceSubwords",
    "SentenceTokenizer",
    "SpecialTokens",
    "TextBPE",
    "TextFrame",
    "TextSubwords",
    "TextTokenizer",
    "TextUnigram",
    "Tokenizer",
    "TokenizerPair",
    "UnigramTokenizer",
    "Vocabulary",
    "extended",
    "load_tokenizer",
    "new_words",
    "positions_of_words",
    "split_sentences",
    "words_of",
]
