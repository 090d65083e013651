"""What a text encoder is evaluated on: held-out rows with masked words, and sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from headway.bundle import EncoderBundle
from headway.data.masked_batches import RowSettings, Source
from headway.data.masking import Masking
from headway.data.sentence_pairs import Elsewhere
from headway.data.sentences import SentenceCorpus
from headway.tasks.masked_language_modeling.config import EncoderRunConfig
from headway.text import MarkedTokenizer

HELD_OUT = 1 << 20  # numbers of held-out corpora begin here: their chances are of their own


@dataclass(frozen=True, kw_only=True)
class HeldOutText:
    """Text that a model was not trained on.

    sources: name of a text -> its rows, with the same words masked each time; empty if there are
    only sentences. batch_size: rows that are read at once. read_sentences: gives the sentences,
    which are read only if they are evaluated.
    """

    sources: Mapping[str, Source]
    batch_size: int
    read_sentences: Callable[[], Sequence[str]]

    @cached_property
    def sentences(self) -> Sequence[str]:
        """All sentences."""
        return self.read_sentences()

    def __len__(self) -> int:
        return len(self.sentences)


def sources_of(
    config: EncoderRunConfig,
    corpora: Sequence[SentenceCorpus],
    tokenizer: MarkedTokenizer,
    first: int,
) -> list[Source]:
    """What makes rows of the corpora as a run's settings say. first: number of the first one."""
    training = config.training
    settings = RowSettings(
        rows=training.rows,
        length=training.length,
        pairs=config.model.next_sentence,
        short=training.short,
        smoothing=config.data.smoothing,
        mixed=training.mixed,
        seed=training.seed,
    )
    masking = Masking.of(config.masking, tokenizer)
    anywhere = Elsewhere.among(corpora, settings.smoothing) if len(corpora) > 1 else None
    return [
        Source(corpus, settings, masking, tokenizer.marks, first + i, anywhere)
        for i, corpus in enumerate(corpora)
    ]


def held_out_folders(config: EncoderRunConfig, run: Path) -> dict[str, Path]:
    """Where a run keeps its held-out sentences, by the text that they are of."""
    data, folder = config.data, run / "data"
    if data.valid:
        return {", ".join(data.valid): folder / "valid"}
    if len(data.train) == 1:
        return {data.train[0]: folder / "valid"}
    return {text: folder / f"valid-{i + 1}" for i, text in enumerate(data.train)}


def held_out_sources(
    bundle: EncoderBundle, config: EncoderRunConfig, run: Path
) -> dict[str, Source]:
    """The rows that a run held out, by text. Second texts that do not follow are of the same text.
    DataError where the run's sentences are damaged."""
    folders = held_out_folders(config, run)
    corpora = [SentenceCorpus.open(folder, bundle.tokenizer) for folder in folders.values()]
    as_it_is = replace(config, model=bundle.config)
    sources = sources_of(as_it_is, corpora, bundle.tokenizer, HELD_OUT)
    return dict(zip(folders, sources, strict=True))
