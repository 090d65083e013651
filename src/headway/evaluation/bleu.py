"""BLEU and chrF by sacrebleu, offline, with the signatures that make scores comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CorpusScores:
    """BLEU (Papineni et al. 2002; 13a tokenization, cased) and chrF2 (Popovic 2015), 0 to 100."""

    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    sentences: int


def score_translations(outputs: Sequence[str], references: Sequence[str]) -> CorpusScores:
    """Return corpus scores of detokenized outputs against one reference each (Post 2018)."""
    return score_against_several(outputs, [[reference] for reference in references])


def score_against_several(
    outputs: Sequence[str], references: Sequence[Sequence[str]]
) -> CorpusScores:
    """Return corpus scores against one or more references per output; their number may vary."""
    if len(outputs) != len(references) or not outputs:
        raise ValueError(f"{len(outputs)=} and {len(references)=} must be equal and not 0")
    # imported here: every task imports this module, and sacrebleu imports lxml, portalocker, redis
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(), CHRF()
    # one stream of first references, one of second references, ...; None pads shorter lists
    streams: list[Any] = [
        [texts[i] if i < len(texts) else None for texts in references]
        for i in range(max(map(len, references)))
    ]
    return CorpusScores(
        bleu.corpus_score(list(outputs), streams).score,
        chrf.corpus_score(list(outputs), streams).score,
        str(bleu.get_signature()),
        str(chrf.get_signature()),
        len(outputs),
    )
