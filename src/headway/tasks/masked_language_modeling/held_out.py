"""The examples of an evaluation: held-out sequences with masked words, and sentences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from headway.base.errors import HeadwayWarning
from headway.bundle import EncoderBundle
from headway.data.formats.lines import ending
from headway.data.prepared import numbered
from headway.data.rows import ENDINGS as TABLES
from headway.tasks.masked_language_modeling.config import (
    EncoderDataConfig,
    EncoderRunConfig,
    EncoderScoring,
)
from headway.tasks.masked_language_modeling.data import held_out_sentences, sentences_of_files
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


def reads_text(path: Path) -> bool:
    """Return whether the file is running text, not a table."""
    return ending(path) not in TABLES


def read_text(
    bundle: EncoderBundle, paths: Sequence[Path], config: Any, options: EncoderScoring
) -> HeldOutText:
    """Return the sentences of files, which are read when they are evaluated."""
    data = config.data if isinstance(config, EncoderRunConfig) else EncoderDataConfig()
    read_sentences = partial(sentences_of_files, paths, data)
    return HeldOutText(sources={}, batch_size=1, read_sentences=read_sentences)


def held_out_text(
    bundle: EncoderBundle, run: Path, config: Any, options: EncoderScoring
) -> HeldOutText:
    """Return the held-out text of the run; only its sentences if prepared data was removed."""
    folders = held_out_folders(config, run).values()
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    if missing:
        text = f"no scores for masked words: the prepared data {', '.join(missing)} is missing"
        warnings.warn(text, HeadwayWarning, stacklevel=2)
    return HeldOutText(
        sources={} if missing else held_out_sources(bundle, config, run),
        batch_size=config.training.batch_size,
        read_sentences=partial(held_out_sentences, config.data),
    )
