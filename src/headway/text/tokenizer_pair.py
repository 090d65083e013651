"""The tokenizers of a translation model: one for both languages, or one for each."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from headway.base.errors import DataError
from headway.base.files import read_json
from headway.text.hf_tokenizer import FILE_LIMIT
from headway.text.language_tokens import LanguageTokens
from headway.text.pretrained_sentence import PretrainedSentenceTokenizer, is_format
from headway.text.sentence_subwords import SentenceSubwords, Tokenizer, UnigramTokenizer
from headway.text.tokenizer import SentenceTokenizer
from headway.text.unigram import is_unigram

JOINT_FILE = "tokenizer.json"
SOURCE_FILE = "tokenizer.source.json"
TARGET_FILE = "tokenizer.target.json"


class TokenizerPair:
    """The `source` and `target` tokenizers; if `joint`, they are one object with one vocabulary.

    With a joint vocabulary a model can tie its source and target embeddings (Vaswani et al. 2017,
    section 3.4) and copy names. Two vocabularies suit languages with different scripts.
    """

    def __init__(self, source: SentenceTokenizer, target: SentenceTokenizer) -> None:
        """Make a pair; for a joint vocabulary, pass the same tokenizer twice."""
        self.source = source
        self.target = target
        self.joint: bool = source is target

    @classmethod
    def train(
        cls,
        pairs: Callable[[], Iterator[tuple[str, str]]],
        vocabulary_size: int,
        joint: bool,
        tags: Sequence[str] = (),
        kind: type[SentenceSubwords] = Tokenizer,
    ) -> "TokenizerPair":
        """Train on the pairs (source, target) that each call of `pairs()` yields.

        vocabulary_size: number of tokens of each tokenizer. tags: further special tokens of the
        source tokenizer, such as <2de>. kind: the class of the tokenizers. A joint tokenizer reads
        the stream once, two tokenizers read it twice. Raises what `ByteLevel.train` and the stream
        raise.
        """
        if joint:
            tokenizer = kind.train(
                (text for pair in pairs() for text in pair), vocabulary_size, tags
            )
            return cls(tokenizer, tokenizer)
        return cls(
            kind.train((source for source, _ in pairs()), vocabulary_size, tags),
            kind.train((target for _, target in pairs()), vocabulary_size),
        )

    @property
    def languages(self) -> LanguageTokens | None:
        """The tokens of the languages of a pretrained multilingual model; None for others."""
        return getattr(self.source, "languages", None)

    def between(self, source: str | None, target: str | None) -> "TokenizerPair":
        """Return the pair of a model with `languages` for a source and a target language; None
        changes nothing. Raises UsageError for unknown languages."""
        sides: list[SentenceTokenizer] = [self.source, self.target]
        assert isinstance(self.source, PretrainedSentenceTokenizer)
        assert isinstance(self.target, PretrainedSentenceTokenizer)
        if source is not None:
            sides[0] = self.source.of_source(source)
        if target is not None:
            sides[1] = self.target.of_target(target)
        return TokenizerPair(*sides)

    @property
    def size(self) -> int:
        """The size of the target vocabulary."""
        return self.target.size

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`, or `tokenizer.source.json` and `tokenizer.target.json`."""
        if self.joint:
            self.source.save(folder / JOINT_FILE)
        else:
            self.source.save(folder / SOURCE_FILE)
            self.target.save(folder / TARGET_FILE)

    @classmethod
    def load(cls, folder: Path) -> "TokenizerPair":
        """Read the files that `save` wrote. Raises DataError if they are missing or ambiguous."""
        joint, separate = folder / JOINT_FILE, (folder / SOURCE_FILE, folder / TARGET_FILE)
        if joint.is_file() and any(path.exists() for path in separate):
            raise DataError(
                f"the folder must have either {JOINT_FILE} or {SOURCE_FILE} and {TARGET_FILE}, "
                "but has both kinds",
                where=str(folder),
                hint="keep the files that the model was trained with",
            )
        if joint.is_file():
            tokenizer = _load(joint)
            return cls(tokenizer, tokenizer)
        if not all(path.is_file() for path in separate):
            raise DataError(
                f"the folder has no {JOINT_FILE}, and not both of {SOURCE_FILE} and {TARGET_FILE}",
                where=str(folder),
                hint="give the folder of a trained model, or train a tokenizer first",
            )
        return cls(*map(_load, separate))

    @property
    def fingerprint(self) -> str:
        """sha256 over both tokenizers; a joint pair has the fingerprint of its tokenizer."""
        if self.joint:
            return self.source.fingerprint
        fingerprints = f"{self.source.fingerprint} {self.target.fingerprint}"
        return hashlib.sha256(fingerprints.encode("ascii")).hexdigest()


def _load(path: Path) -> SentenceTokenizer:
    """Read a tokenizer of any kind."""
    try:
        content = read_json(path, FILE_LIMIT)
    except DataError:
        content = None  # the error of `Tokenizer.load` says more
    if is_format(content):
        return PretrainedSentenceTokenizer.load(path)
    return UnigramTokenizer.load(path) if is_unigram(content) else Tokenizer.load(path)
