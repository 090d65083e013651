"""BLEU, chrF, chrF++ and TER by sacrebleu, offline, with signatures that make scores comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headway.evaluation.paired import Sums

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacrebleuMetric

DEFAULT = ("bleu", "chrf")
TRANSLATION_METRICS = ("bleu", "chrf", "chrf++", "ter")


@dataclass(frozen=True)
class CorpusScores:
    """Scores of a corpus, 0 to 100 (TER may be larger), by the names of `TRANSLATION_METRICS`.

    BLEU: Papineni et al. 2002; 13a tokenization, cased. chrF2 and chrF++ (with word bigrams):
    Popovic 2015 and 2017. TER, the edits for each 100 words of the references: Snover et al. 2006.
    sums: the terms of each sentence, for `paired_bootstrap`.
    """

    scores: Mapping[str, float]
    signatures: Mapping[str, str]
    sentences: int
    sums: Mapping[str, Sums] = field(compare=False, repr=False)

    @property
    def bleu(self) -> float:
        return self.scores["bleu"]

    @property
    def chrf(self) -> float:
        return self.scores["chrf"]

    @property
    def bleu_signature(self) -> str:
        return self.signatures["bleu"]

    @property
    def chrf_signature(self) -> str:
        return self.signatures["chrf"]


def score_translations(
    outputs: Sequence[str], references: Sequence[str], metrics: Sequence[str] = DEFAULT
) -> CorpusScores:
    """Return corpus scores of detokenized outputs against one reference each (Post 2018)."""
    return score_against_several(outputs, [[reference] for reference in references], metrics)


def score_against_several(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = DEFAULT,
) -> CorpusScores:
    """Return corpus scores against one or more references per output; their number may vary."""
    if len(outputs) != len(references) or not outputs:
        raise ValueError(f"{len(outputs)=} and {len(references)=} must be equal and not 0")
    # one stream of first references, one of second references, ...; None pads shorter lists
    streams: list[object] = [
        [texts[i] if i < len(texts) else None for texts in references]
        for i in range(max(map(len, references)))
    ]
    scorers = {name: _scorer(name) for name in metrics}
    sums = {name: _sums(scorer, outputs, streams) for name, scorer in scorers.items()}
    return CorpusScores(
        {name: of_metric.corpus() for name, of_metric in sums.items()},
        {name: str(scorer.get_signature()) for name, scorer in scorers.items()},
        len(outputs),
        sums,
    )


def _scorer(name: str) -> SacrebleuMetric:
    # imported here: every task imports this module, and sacrebleu imports lxml, portalocker, redis
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    scorers: dict[str, SacrebleuMetric] = {
        "bleu": BLEU(),
        "chrf": CHRF(),
        "chrf++": CHRF(word_order=2),
        "ter": TER(),
    }
    return scorers[name]


def _sums(scorer: Any, outputs: Sequence[str], streams: list[object]) -> Sums:
    """Return the metric by sentence, as sacrebleu's own significance test computes it."""
    import numpy as np

    terms = np.array(scorer._extract_corpus_statistics(list(outputs), streams), dtype=np.float64)
    return Sums(terms, lambda sums: float(scorer._compute_score_from_stats(sums).score))
