"""Alignment error rate with and without guided alignment, on pairs whose alignments are known.

    python -m bench.alignment FOLDER

The pairs are generated: each source word but the first has one translation, and the target has
another word order. Printed for each run: BLEU of the validation pairs, the error rate of the head
that `headway align` uses, and of the head that is best by these very pairs, which favours it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from headway import load
from headway.bundle import Bundle
from headway.inspection import links
from headway.inspection.alignment import Head, align_by_head, alignment_head, entropy_by_head
from headway.runs import recipe, train
from headway.tasks.translation.word_alignment import Gold, score_links

SYLLABLES = ("ba", "do", "fi", "ku", "le", "mo", "na", "pe", "ri", "su", "ta", "vo")
WEIGHTS = (0.0, 0.05, 0.3)
SETTINGS: dict[str, Any] = {
    "data.source": "a",
    "data.target": "b",
    "data.vocabulary": 1000,
    "model.model_dim": 64,
    "model.encoder_layers": 2,
    "model.decoder_layers": 3,
    "optimizer.kind": "adamw",
    "optimizer.lr": 3e-3,
    "schedule.warmup": 100,
    "training.steps": 500,
    "training.tokens": 2048,
    "training.average": 0.99,
    "evaluation.every": 500,
    "machine.threads": 1,
    "machine.device": "cpu",
}

AlignedPair = tuple[str, str, tuple[tuple[int, int], ...]]
"""Source, target, and links (position of a source word, of a target word)."""


def aligned_pairs(count: int, words: int, seed: int = 0, group: int = 3) -> list[AlignedPair]:
    """Generate pairs: the target has the first word of every group of `group` words at its end.

    words: size of the dictionary. The first source word has no translation.
    """
    random = Random(seed)
    of_source, of_target = _dictionary(words + 1, 1), _dictionary(words, 2)
    pairs = []
    for _ in range(count):
        chosen = random.choices(range(words), k=random.randint(4, 9))
        order: list[int] = []
        for start in range(0, len(chosen), group):
            first, *others = range(start, min(start + group, len(chosen)))
            order += [*others, first]
        source = " ".join([of_source[words], *(of_source[word] for word in chosen)])
        target = " ".join(of_target[chosen[i]] for i in order)
        pairs.append((source, target, tuple(sorted((i + 1, t) for t, i in enumerate(order)))))
    return pairs


def _dictionary(count: int, seed: int) -> list[str]:
    """Return distinct made-up words of two to four syllables."""
    random = Random(seed)
    words: set[str] = set()
    while len(words) < count:
        words.add("".join(random.choices(SYLLABLES, k=random.randint(2, 4))))
    return sorted(words)


def pharaoh(aligned: Iterable[tuple[int, int]]) -> str:
    """Write links in Pharaoh's format."""
    return " ".join(f"{source}-{target}" for source, target in aligned)


def write_aligned(folder: Path, pairs: Sequence[AlignedPair]) -> tuple[Path, Path]:
    """Write pairs.tsv, with columns a and b, and pairs.align; return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    table, alignments = folder / "pairs.tsv", folder / "pairs.align"
    table.write_text("a\tb\n" + "".join(f"{source}\t{target}\n" for source, target, _ in pairs))
    alignments.write_text("".join(f"{pharaoh(aligned)}\n" for *_, aligned in pairs))
    return table, alignments


def error_rates(bundle: Bundle, pairs: Sequence[AlignedPair]) -> dict[Head, float]:
    """Return the alignment error rate of each head."""
    gold = [Gold(frozenset(aligned), frozenset(aligned)) for *_, aligned in pairs]
    by_pair = [align_by_head(bundle, source, target) for source, target, _ in pairs]
    return {
        head: score_links([links(by_head[head]) for by_head in by_pair], gold).error_rate
        for head in by_pair[0]
    }


def main(folder: Path) -> None:
    table, alignments = write_aligned(folder, aligned_pairs(8000, words=300))
    pairs = aligned_pairs(200, words=300, seed=9)
    for weight in WEIGHTS:
        guided = {"data.alignments": (str(alignments),), "training.guided_alignment": weight}
        changes = {**SETTINGS, "data.train": (str(table),), **(guided if weight else {})}
        run = folder / f"weight-{weight}"
        finished = train(recipe("translate", ("the benchmark", changes)), run)
        bundle = load(run)
        rates = error_rates(bundle, pairs)
        entropies = entropy_by_head(bundle, [(s, t) for s, t, _ in pairs[:100]])
        layers = [head for head in rates if head.head is None]
        default = alignment_head(bundle) or min(layers, key=lambda head: entropies[head])
        best = min(rates, key=lambda head: rates[head])
        print(
            f"weight {weight}: BLEU {finished.best:.1f}, error rate {rates[default]:.3f} "
            f"({default}), best {rates[best]:.3f} ({best})"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
