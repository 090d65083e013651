"""The two tokenizers of a translator: one for both languages, or one for each."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from headway.errors import DataError
from headway.text.sentence_bpe import Tokenizer

JOINT_FILE = "tokenizer.json"
SOURCE_FILE = "tokenizer.source.json"
TARGET_FILE = "tokenizer.target.json"


class TokenizerPair:
    """`source` and `target` tokenizers; when `joint` they are one object with one vocabulary.

    A joint vocabulary lets a model tie its source and target embeddings (Vaswani et al. 2017,
    section 3.4) and copy names; two vocabularies suit languages that share no letters.
    """

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        """Give the same tokenizer twice for a joint vocabulary."""
        self.source = source
        self.target = target
        self.joint: bool = source is target

    @classmethod
    def train(
        cls,
        pairs: Callable[[], Iterator[tuple[str, str]]],
        vocabulary_size: int,
        joint: bool,
    ) -> "TokenizerPair":
        """Train on the pairs (source, target) that a fresh call of `pairs()` yields.

        `vocabulary_size` counts the pieces of each tokenizer. A joint tokenizer reads the stream
        once, two tokenizers read it twice. Raises what `Tokenizer.train` and the stream raise.
        """
        if joint:
            both = Tokenizer.train((text for pair in pairs() for text in pair), vocabulary_size)
            return cls(both, both)
        return cls(
            Tokenizer.train((source for source, _ in pairs()), vocabulary_size),
            Tokenizer.train((target for _, target in pairs()), vocabulary_size),
        )

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`, or `tokenizer.source.json` and `tokenizer.target.json`."""
        if self.joint:
            self.source.save(folder / JOINT_FILE)
        else:
            self.source.save(folder / SOURCE_FILE)
            self.target.save(folder / TARGET_FILE)

    @classmethod
    def load(cls, folder: Path) -> "TokenizerPair":
        """Read what `save` wrote. Raises DataError when the files are absent or contradict."""
        joint, split = folder / JOINT_FILE, (folder / SOURCE_FILE, folder / TARGET_FILE)
        if joint.is_file() and any(path.exists() for path in split):
            raise DataError(
                f"both {JOINT_FILE} and tokenizers for single sides stand here",
                where=str(folder),
                hint="keep the ones that the model was trained with",
            )
        if joint.is_file():
            both = Tokenizer.load(joint)
            return cls(both, both)
        if not all(path.is_file() for path in split):
            raise DataError(
                f"no {JOINT_FILE} here, nor {SOURCE_FILE} with {TARGET_FILE}",
                where=str(folder),
                hint="give the folder of a trained model, or train a tokenizer first",
            )
        return cls(*(Tokenizer.load(path) for path in split))

    @property
    def fingerprint(self) -> str:
        """sha256 over both tokenizers; a joint pair has the fingerprint of its tokenizer."""
        if self.joint:
            return self.source.fingerprint
        both = f"{self.source.fingerprint} {self.target.fingerprint}"
        return hashlib.sha256(both.encode("ascii")).hexdigest()
