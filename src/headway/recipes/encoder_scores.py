"""What an encoder makes of held-out rows: hidden words and next sentences, each text by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F

from headway.bundle import EncoderBundle
from headway.data.corruption import Masking
from headway.data.masked_rows import MaskedBatch, RowSettings, Source, rows_in_order
from headway.data.sentence_pairs import Elsewhere
from headway.data.sentences import SentenceCorpus
from headway.machine import Machine
from headway.models import Bert
from headway.recipes.encoder_config import EncoderRunConfig
from headway.text import MarkedTokenizer
from headway.training import judge

HELD_OUT = 1 << 20  # numbers of held-out corpora begin here: their chances are of their own


@dataclass(frozen=True)
class RowScores:
    """Sums over rows: of the nats of hidden words and of pairs, and of those judged right."""

    nats: float = 0.0
    words: int = 0
    right: int = 0
    pair_nats: float = 0.0
    pairs: int = 0
    pairs_right: int = 0

    def __add__(self, other: RowScores) -> RowScores:
        return RowScores(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def numbers(self) -> dict[str, float]:
        """Means: nats a hidden word, the share guessed right; of pairs, where there are any."""
        found = {"mlm_nats": self.nats / self.words, "mlm_accuracy": self.right / self.words}
        if self.pairs:
            found["nsp_loss"] = self.pair_nats / self.pairs
            found["nsp_accuracy"] = self.pairs_right / self.pairs
        return found


@torch.inference_mode()
def score_rows(
    model: Bert,
    batches: Iterable[MaskedBatch],
    machine: Machine,
    go_on: Callable[[], None] = lambda: None,
) -> RowScores:
    """The sums over all batches."""
    sums = RowScores()
    for batch in batches:
        go_on()
        with machine.precision():
            judged = judge(model, batch)
        found = F.cross_entropy(judged.words, judged.targets, reduction="sum").item()
        right = int((judged.words.argmax(-1) == judged.targets).sum())
        sums += RowScores(found, len(judged.targets), right)
        if judged.follows is not None and batch.elsewhere is not None:
            found = F.cross_entropy(judged.follows, batch.elsewhere, reduction="sum").item()
            right = int((judged.follows.argmax(-1) == batch.elsewhere).sum())
            sums += RowScores(pair_nats=found, pairs=len(judged.follows), pairs_right=right)
    return sums


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


def scores_by_text(
    bundle: EncoderBundle,
    config: EncoderRunConfig,
    run: Path,
    rows: int,
    machine: Machine,
) -> dict[str, RowScores]:
    """What the model makes of at most so many held-out rows of each text of its run.

    Second texts that stand elsewhere are of the same text. DataError where the run's sentences are
    damaged.
    """
    places = held_out_folders(config, run)
    corpora = [SentenceCorpus.open(place, bundle.tokenizer) for place in places.values()]
    as_it_is = replace(config, model=bundle.config)
    sources = sources_of(as_it_is, corpora, bundle.tokenizer, HELD_OUT)
    size = config.training.rows
    return {
        text: score_rows(bundle.model, rows_in_order(source, size, rows, machine.device), machine)
        for text, source in zip(places, sources, strict=True)
    }
