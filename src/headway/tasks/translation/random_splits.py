"""Random segmentations of the training sentences: BPE-dropout, or Unigram sampling."""

from random import Random

from headway.base.errors import UsageError
from headway.tasks.translation.config import TranslationDataConfig
from headway.text import SentenceTokenizer, Tokenizer, TokenizerPair, UnigramTokenizer
from headway.text.bpe_dropout import BPEDropout
from headway.text.random_splitter import RandomSplitter
from headway.text.unigram_sampling import UnigramSampling


class RandomSplits:
    """Splits sentence pairs into other tokens in each epoch: BPE-dropout, or Unigram sampling.

    A split depends on the seed, the epoch and the pair only, so that a resumed run has the same. A
    pair that would have more than `longest` tokens on a side keeps its tokens.
    """

    def __init__(
        self, source: RandomSplitter, target: RandomSplitter, seed: int, longest: int
    ) -> None:
        self._source, self._target = source, target
        self._seed, self._longest = seed, longest

    def pair(
        self, source: list[int], target: list[int], epoch: int, index: int
    ) -> tuple[list[int], list[int]]:
        """Return the ids of both sides of pair `index` in an epoch."""
        random = Random(f"{self._seed} {epoch} {index}")
        split = self._source.again(source, random), self._target.again(target, random)
        return (source, target) if max(map(len, split)) > self._longest else split


def check_random_splits(data: TranslationDataConfig, *, pretrained: bool) -> None:
    """Raise UsageError for settings that are not those of the tokenizer.

    pretrained: whether the tokenizer is that of a pre-trained model, instead of a new one.
    """
    if pretrained and data.tokenizer != "bpe":
        raise UsageError(
            f"data.tokenizer={data.tokenizer}: fine-tuning uses the tokenizer of the pre-trained "
            "model",
            hint="leave out --data.tokenizer",
        )
    if not pretrained and data.bpe_dropout and data.tokenizer != "bpe":
        raise _needs("bpe_dropout", "byte-level BPE", "--data.tokenizer bpe")
    if not pretrained and data.unigram_alpha is not None and data.tokenizer != "unigram":
        raise _needs("unigram_alpha", "Unigram", "--data.tokenizer unigram")


def random_splits(
    pair: TokenizerPair, data: TranslationDataConfig, seed: int
) -> RandomSplits | None:
    """Return what splits the pairs anew in each epoch; None if the settings ask for nothing.

    Raises UsageError for a tokenizer that cannot: one that was pretrained elsewhere, or of the
    other kind.
    """
    if not data.bpe_dropout and data.unigram_alpha is None:
        return None
    source, target = (_splitter(side, data) for side in (pair.source, pair.target))
    return RandomSplits(source, target, seed, data.max_length)


def _splitter(tokenizer: SentenceTokenizer, data: TranslationDataConfig) -> RandomSplitter:
    if data.unigram_alpha is not None:
        if not isinstance(tokenizer, UnigramTokenizer):
            raise _needs("unigram_alpha", "Unigram", "leave out --data.unigram-alpha")
        return UnigramSampling(tokenizer, data.unigram_alpha)
    if not isinstance(tokenizer, Tokenizer):
        raise _needs("bpe_dropout", "byte-level BPE", "leave out --data.bpe-dropout")
    return BPEDropout(tokenizer, data.bpe_dropout)


def _needs(setting: str, kind: str, hint: str) -> UsageError:
    return UsageError(
        f"data.{setting} needs a {kind} tokenizer that headway trained, and this model has another",
        hint=hint,
    )
