"""Tokenizers convert between text and token ids: byte-level BPE and Unigram, WordPiece, characters,
Hugging Face tokenizers and vocabularies of whole words."""

from headway.text.byte_level import BACK_TRANSLATED as BACK_TRANSLATED
from headway.text.byte_level import LANGUAGE_TAG as LANGUAGE_TAG
from headway.text.characters import CharacterTokenizer as CharacterTokenizer
from headway.text.encoder_tokenizer import EncoderTokenizer as EncoderTokenizer
from headway.text.encoder_tokenizer import SpecialTokens as SpecialTokens
from headway.text.hf_tokenizer import PretrainedTokenizer as PretrainedTokenizer
from headway.text.language_tokens import LanguageTokens as LanguageTokens
from headway.text.language_tokens import Roles as Roles
from headway.text.loading import MissingEncoderTokenizer as MissingEncoderTokenizer
from headway.text.loading import MissingTokenizer as MissingTokenizer
from headway.text.loading import load_tokenizer as load_tokenizer
from headway.text.pretrained_sentence import (
    PretrainedSentenceTokenizer as PretrainedSentenceTokenizer,
)
from headway.text.sentence_subwords import SentenceSubwords as SentenceSubwords
from headway.text.sentence_subwords import Tokenizer as Tokenizer
from headway.text.sentence_subwords import UnigramTokenizer as UnigramTokenizer
from headway.text.sentences import split_sentences as split_sentences
from headway.text.text_subwords import TextBPE as TextBPE
from headway.text.text_subwords import TextUnigram as TextUnigram
from headway.text.tokenizer import SentenceTokenizer as SentenceTokenizer
from headway.text.tokenizer import TextFrame as TextFrame
from headway.text.tokenizer import TextTokenizer as TextTokenizer
from headway.text.tokenizer_pair import TokenizerPair as TokenizerPair
from headway.text.vocabulary import BORDER as BORDER
from headway.text.vocabulary import Vocabulary as Vocabulary
from headway.text.vocabulary import words_of as words_of
from headway.text.vocabulary_extension import extended as extended
from headway.text.vocabulary_extension import new_words as new_words
from headway.text.word_positions import positions_of_words as positions_of_words
