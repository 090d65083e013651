"""The examples of an evaluation: held-out sequences with masked words, and sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from headway.bundle import EncoderBundle
from headway.data.prepared import numbered
from headway.tasks.masked_language_modeling.config import EncoderRunConfig
from headway.tasks.masked_language_modeling.masked_batches import SequenceSettings, Source
from headway.tasks.masked_language_modeling.masking import Masking
from headway.tasks.masked_language_modeling.sentence_pairs import CorpusMixture
from headway.tasks.masked_language_modeling.sentences import SentenceCorpus
from headway.text import EncoderTokenizer

HELD_OUT = 1 << 20
"""Number of the first held-out corpus, so that its random masks differ from those in training."""


@dataclass(frozen=True, kw_only=True)
class HeldOutText:
    """Held-out text.

    sources: name of a text -> its sequences, whose masked words are always the same; empty if there
    are only sentences. batch_size: the number of sequences of a batch. read_sentences: returns the
    sentences; it is called only if they are evaluated.
    """

    sources: Mapping[str, Source]
    batch_size: int
    read_sentences: Callable[[], Sequence[str]]

    @cached_property
    def sentences(self) -> Sequence[str]:
        """The held-out sentences."""
        return self.read_sentences()

    def __len__(self) -> int:
        return len(self.sentences)


def sources_of(
    config: EncoderRunConfig,
    corpora: Sequence[SentenceCorpus],
    tokenizer: EncoderTokenizer,
    first: int,
) -> list[Source]:
    """Make the sources of the masked sequences of corpora, by the settings of a run.

    first: the number of the first corpus, which seeds its randomness.
    """
    training = config.training
    settings = SequenceSettings(
        batch_size=training.batch_size,
        length=training.length,
        pairs=config.model.next_sentence,
        short=training.short,
        smoothing=config.data.smoothing,
        mixed=training.mixed,
        seed=training.seed,
    )
    masking = Masking.of(config.masking, tokenizer)
    anywhere = CorpusMixture.among(corpora, settings.smoothing) if len(corpora) > 1 else None
    return [
        Source(corpus, settings, masking, tokenizer.special_tokens, first + i, anywhere)
        for i, corpus in enumerate(corpora)
    ]


def held_out_folders(config: EncoderRunConfig, run: Path) -> dict[str, Path]:
    """Return the folders of a run's held-out sentences, by the name of their text."""
    data, folder = config.data, run / "data"
    if data.valid:
        return {", ".join(data.valid): folder / "valid"}
    names = numbered("valid", len(data.train))
    return {text: folder / name for text, name in zip(data.train, names, strict=True)}


def held_out_sources(
    bundle: EncoderBundle, config: EncoderRunConfig, run: Path
) -> dict[str, Source]:
    """Open the held-out sequences of a run, by the name of their text.

    The random second texts of next-sentence prediction are of the same text. Raises DataError if
    the run's sentences are damaged.
    """
    folders = held_out_folders(config, run)
    corpora = [SentenceCorpus.open(folder, bundle.tokenizer) for folder in folders.values()]
    as_model = replace(config, model=bundle.config)
    sources = sources_of(as_model, corpora, bundle.tokenizer, HELD_OUT)
    return dict(zip(folders, sources, strict=True))
