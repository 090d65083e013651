"""`headway words`: nearest neighbours, analogies and scatter plots of word vectors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch

from headway.base.errors import UsageError
from headway.base.files import check_new_file
from headway.base.settings import setting
from headway.bundle import Neighbour, WordEmbedding
from headway.cli.flags import OUTPUT, RUN, as_flags
from headway.cli.machine import MachineFlags
from headway.inspection.plots import scatter as draw
from headway.inspection.projection import principal_components
from headway.terminal.console import data_json, result, say

SHOWN = 60  # words of a scatter plot without named words


@as_flags
class NearestFlags(MachineFlags):
    count: int = setting(10, "Number of neighbours per word.", ge=1)
    json: bool = setting(False, "Print one JSON object per word.")


def nearest(
    run: Annotated[Path, RUN], /, *words: str, flags: NearestFlags = NearestFlags()
) -> None:
    """Show the nearest neighbours of words, by the cosine of their vectors.

    Parameters
    ----------
    words
        Words to look up.
    """
    bundle = _load(run, flags)
    if not words:
        raise UsageError("the word is missing", hint=f"headway words nearest {run} WORD")
    lists = [bundle.nearest(word, flags.count) for word in words]
    for word, neighbours in zip(words, lists, strict=True):
        value = {"word": word, "nearest": _plain(neighbours)}
        result(value, f"{word:<16} {_row(neighbours)}", as_json=flags.json)


@as_flags
class AnalogyFlags(MachineFlags):
    count: int = setting(5, "Number of answers, the best first.", ge=1)
    json: bool = setting(False, "Print one JSON object.")


def analogy(
    run: Annotated[Path, RUN], a: str, b: str, c: str, /, *, flags: AnalogyFlags = AnalogyFlags()
) -> None:
    """Solve an analogy: A is to B as C is to the answer.

    Parameters
    ----------
    a
        First word of the known pair, such as man.
    b
        Second word of the known pair, such as woman.
    c
        First word of the pair to complete, such as king.
    """
    answers = _load(run, flags).analogy(a, b, c, flags.count)
    value = {"a": a, "b": b, "c": c, "answers": _plain(answers)}
    result(value, f"{a} : {b} = {c} : {_row(answers)}", as_json=flags.json)


@as_flags
class ScatterFlags(MachineFlags):
    output: Annotated[Path | None, OUTPUT] = setting(None, "New file for the plot, .svg or .png.")
    count: int = setting(
        SHOWN, "Number of most frequent words to draw, if no words are named.", ge=1
    )
    json: bool = setting(False, "Print the points as one JSON object.")


def scatter(
    run: Annotated[Path, RUN], /, *words: str, flags: ScatterFlags = ScatterFlags()
) -> None:
    """Draw a scatter plot of the first two principal components (PCA) of word vectors.

    Parameters
    ----------
    words
        Words to draw. If unset, the most frequent ones.
    """
    if flags.output is None and not flags.json:
        raise UsageError(
            "neither --output nor --json is set", hint=f"headway words scatter {run} -o words.svg"
        )
    if flags.output is not None and flags.output.suffix not in {".svg", ".png"}:
        raise UsageError(f"--output {flags.output}: must end in .svg or .png")
    if flags.output is not None:
        check_new_file(flags.output)
    bundle = _load(run, flags)
    chosen = _chosen(bundle, words, flags.count)

    vectors = torch.stack([bundle.vector(word) for word in chosen]).cpu()
    points = [(x, y) for x, y in principal_components(vectors).tolist()]
    if flags.output is not None:
        draw(flags.output, points, chosen, title=f"{len(chosen)} words of {run}")
        say(f"drawn     {flags.output}")
    if flags.json:
        data_json({word: list(point) for word, point in zip(chosen, points, strict=True)})


def _chosen(bundle: WordEmbedding, words: Sequence[str], count: int) -> list[str]:
    """The distinct words to draw, as spelled in the vocabulary. UsageError for fewer than three."""
    known = bundle.vocabulary
    chosen = words or known.words[1 : 1 + count]
    spelled = list(dict.fromkeys(known.words[known.id_of(word)] for word in chosen))
    if len(spelled) < 3:
        raise UsageError(
            f"a scatter plot needs at least 3 words, and there are {len(spelled)}",
            hint="name more words",
        )
    return spelled


def _load(run: Path, flags: MachineFlags) -> WordEmbedding:
    return flags.prepare().expect(WordEmbedding, run, "word model")  # type: ignore[type-abstract]


def _plain(neighbours: Sequence[Neighbour]) -> list[dict[str, object]]:
    return [
        {"word": neighbour.word, "cosine": round(neighbour.cosine, 4)} for neighbour in neighbours
    ]


def _row(neighbours: Sequence[Neighbour]) -> str:
    return "  ".join(f"{neighbour.word} {neighbour.cosine:.2f}" for neighbour in neighbours)
