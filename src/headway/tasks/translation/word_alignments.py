"""Word alignments of training pairs: read in step with the pairs, and checked against them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.data.formats.lines import location, read_lines
from headway.tasks.translation.alignment_error import parse_gold
from headway.tasks.translation.config import TranslationRunConfig
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.word_alignment import split_words


def with_links(pairs: Iterable[Pair], path: Path) -> Iterator[Pair]:
    """Yield the pairs with the links of the file of alignments, which has one line per pair.

    Possible links count as links. Raises DataError, with file and line, for a file with more or
    fewer lines than pairs, and for a link to a word that its sentence does not have.
    """
    count = 0
    for count, (pair, line) in enumerate(zip_longest(pairs, read_lines(path)), start=1):
        where = location(path, count)
        if pair is None:
            raise DataError(
                f"there are {count - 1:,} training pairs, but the alignments have more lines",
                where,
                "one line per pair, in the order of the pairs",
            )
        if line is None:
            raise DataError(
                f"the alignments end after {count - 1:,} lines, but there are more training pairs",
                where,
                "one line per pair, in the order of the pairs; an empty line for a pair without "
                "links",
            )
        yield replace(pair, links=_links(pair, line, where))


def _links(pair: Pair, line: str, where: str) -> tuple[tuple[int, int], ...]:
    """Parse the links of a pair. Raises DataError for one to a word that does not exist."""
    links = sorted(parse_gold(line, where=where).possible)
    for side, text in enumerate((pair.source, pair.target)):
        words = len(split_words(text))
        for link in links:
            if link[side] >= words:
                raise DataError(
                    f"the link {link[0]}-{link[1]} is to {('source', 'target')[side]} word "
                    f"{link[side]}, but the sentence in line {pair.line} has {words:,} words, "
                    "counted from 0",
                    where,
                    "a link is the position of the source word, a hyphen, and that of the target "
                    "word; words are what is between spaces",
                )
    return tuple(links)


def check_guided_alignment(config: TranslationRunConfig) -> None:
    """Raise UsageError for settings of guided alignment that cannot work."""
    data, training, model = config.data, config.training, config.model
    if not training.guided_alignment:
        if data.alignments:
            raise UsageError(
                "data.alignments is set, but training.guided_alignment is 0",
                hint="--training.guided-alignment 0.05, or leave out --data.alignments",
            )
        return
    if len(data.alignments) != len(data.train):
        raise UsageError(
            f"training.guided_alignment needs a file of word alignments for each corpus, but there "
            f"are {len(data.alignments)} files for {len(data.train)} corpora",
            hint="--data.alignments FILE, in the order of the corpora",
        )
    if not model.cross_attention_layers or model.attention == "linear":
        raise UsageError(
            f"training.guided_alignment needs attention weights that sum to 1, but the model has "
            f"model.attention={model.attention}",
            hint="a score with softmax, such as --model.attention scaled-dot",
        )
    for name, value in (("drop", data.noise_drop), ("shuffle", data.noise_shuffle)):
        if value:
            raise UsageError(
                f"data.noise_{name}={value} removes or moves the words that data.alignments counts",
                hint=f"--data.noise-{name} 0 with --training.guided-alignment; noise_mask moves "
                "no word",
            )
    for key, is_set in (
        ("training.recompute", training.recompute),
        ("machine.compile", config.machine.compile),
    ):
        if is_set:
            raise UsageError(
                f"{key}=true does not keep the attention weights that training.guided_alignment "
                "needs",
                hint=f"--{key} false",
            )
