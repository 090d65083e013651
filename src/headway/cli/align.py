"""`headway align`: word alignments of sentence pairs, from a translator's cross-attention."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from headway.base.errors import DataError, UsageError, index_from_one
from headway.base.files import check_new_file, write_file
from headway.base.settings import setting
from headway.bundle import Bundle
from headway.cli.flags import OUTPUT, as_flags
from headway.cli.machine import LanguageFlags, MachineFlags
from headway.inspection.alignment import (
    Alignment,
    Head,
    align_by_head,
    alignment_head,
    check_aligns,
    entropy_by_head,
    links,
)
from headway.tasks.translation.pairs.reading import pair_files, read_pairs
from headway.tasks.translation.word_alignment import Gold, read_gold, score_links
from headway.terminal.console import data, data_json, say
from headway.terminal.progress import progress

SAMPLED = 100
"""Sentence pairs from which the layer is chosen if there are no gold alignments."""


@as_flags
class AlignFlags(LanguageFlags, MachineFlags):
    source: str | None = setting(None, "Column or file suffix of the source language.")
    target: str | None = setting(None, "Column or file suffix of the target language.")
    layer: int | None = setting(
        None,
        "Decoder layer, counted from 1. If unset, the head that was trained with guided "
        "alignment; or else the layer with the lowest error on the first half of the gold "
        "alignments, or the one whose attention is most concentrated on 100 pairs.",
    )
    head: int | None = setting(
        None,
        "Head of that layer, counted from 1. If unset, the mean over its heads, or the best head "
        "by the gold alignments.",
    )
    gold: Path | None = setting(
        None,
        "File of alignments of annotators, one line per pair: 0-0 is sure, 0?1 is possible. Their "
        "error rate is printed.",
    )
    gold_first: Literal[0, 1] = setting(0, "Number of a sentence's first word in the gold file.")
    output: Annotated[Path | None, OUTPUT] = setting(
        None, "New file for the alignments instead of standard output."
    )
    json: bool = setting(False, "Print one JSON object per pair, with its words.")


def align(run: str, pairs: Path, /, *, flags: AlignFlags = AlignFlags()) -> None:
    """Align the words of sentence pairs: headway align RUN pairs.tsv.

    Prints one line per pair in Pharaoh's format, "0-0 1-2": positions of a source word and of a
    target word, counted from 0. Each target word is linked to the source word that its attention is
    largest on, or to none.

    Parameters
    ----------
    run
        A run folder or a model folder of a translator.
    pairs
        A table, or the common prefix of the paths of two aligned files.
    """
    if flags.output is not None:
        check_new_file(flags.output)
    texts, truth = _read(pairs, flags)
    loader = flags.prepare()
    bundle = flags.both_of(loader.load(run))
    with loader.precision():
        heads = _candidates(bundle, texts[0], flags)
        alignments = _aligned(bundle, heads, texts, truth)
    if truth is not None:
        say(_error_rate(alignments, truth, chosen_by_gold=len(heads) > 1))
    _write(alignments, flags.output, json=flags.json)


def _aligned(
    bundle: Bundle,
    heads: Sequence[Head],
    texts: Sequence[tuple[str, str]],
    truth: Sequence[Gold] | None,
) -> list[Alignment]:
    """Choose one of the heads; return its alignments of all pairs."""
    with progress("choosing a layer"):
        chosen = _best(bundle, heads, texts, truth)
    alignments = []
    with progress(f"aligning {len(texts):,} pairs") as report:
        for pair in texts:
            alignments.append(align_by_head(bundle, *pair)[chosen])
            report(len(alignments) / len(texts))
    say(f"aligned by the cross-attention of {chosen}")
    return alignments


def _write(alignments: Sequence[Alignment], output: Path | None, *, json: bool) -> None:
    """Print the links of all pairs, or write them to a new file."""
    lines = []
    for alignment in alignments:
        linked = sorted(links(alignment))
        lines.append(" ".join(f"{s}-{t}" for s, t in linked))
        if json:
            data_json({"source": alignment.source, "target": alignment.target, "links": linked})
    if output is not None:
        write_file(output, "".join(f"{line}\n" for line in lines).encode())
    elif not json:
        for line in lines:
            data(line)


def _read(pairs: Path, flags: AlignFlags) -> tuple[list[tuple[str, str]], list[Gold] | None]:
    """Return the sentence pairs, and their alignments by annotators if there are any."""
    texts = [
        (p.source, p.target) for p in read_pairs(pair_files(pairs, flags.source, flags.target))
    ]
    if not texts:
        raise DataError("there are no pairs to align", str(pairs))
    gold = flags.gold
    truth = None if gold is None else read_gold(gold, first=flags.gold_first)
    if truth is not None and len(truth) != len(texts):
        raise DataError(
            f"{len(truth):,} lines of gold alignments for {len(texts):,} pairs",
            str(gold),
            "one line per pair, in the same order",
        )
    return texts, truth


def _error_rate(
    alignments: Sequence[Alignment], truth: Sequence[Gold], *, chosen_by_gold: bool
) -> str:
    """Return the line of the error rate: on the second half if the first one chose the head."""
    predicted = [links(alignment) for alignment in alignments]
    held_out = len(truth) // 2 if chosen_by_gold else 0
    scores = score_links(predicted[held_out:], truth[held_out:])
    return (
        f"alignment error rate {scores.error_rate:.3f}, precision {scores.precision:.3f}, "
        f"recall {scores.recall:.3f} on {len(truth) - held_out:,} pairs"
    )


def _candidates(bundle: Bundle, pair: tuple[str, str], flags: AlignFlags) -> list[Head]:
    """Return the heads to choose from. UsageError if the model does not have that layer or head."""
    layer, head = flags.layer, flags.head
    if head is not None and layer is None:
        raise UsageError("--head needs --layer", hint="such as --layer 3 --head 1")

    check_aligns(bundle)
    trained = alignment_head(bundle)
    if layer is None and trained is not None:
        return [trained]
    heads = list(align_by_head(bundle, *pair))
    if layer is not None:
        index = index_from_one("--layer", layer, 1 + max(one.layer for one in heads))
        heads = [one for one in heads if one.layer == index]
    if head is not None:
        index = index_from_one("--head", head, sum(one.head is not None for one in heads))
        return [one for one in heads if one.head == index]
    return [one for one in heads if flags.gold or one.head is None]


def _best(
    bundle: Bundle,
    heads: Sequence[Head],
    texts: Sequence[tuple[str, str]],
    truth: Sequence[Gold] | None,
) -> Head:
    """Return the head with the lowest error on the first half, or with the lowest entropy."""
    if len(heads) == 1:
        return heads[0]
    if truth is None:
        entropies = entropy_by_head(bundle, texts[:SAMPLED])
        return min(heads, key=lambda head: entropies[head])
    half = max(1, len(texts) // 2)
    by_head = [align_by_head(bundle, *pair) for pair in texts[:half]]
    return min(
        heads,
        key=lambda head: score_links([links(a[head]) for a in by_head], truth[:half]).error_rate,
    )
