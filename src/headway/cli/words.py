"""`headway words`: nearest neighbours, analogies and scatter plots of word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App

from headway.base.errors import UsageError
from headway.base.files import check_new_file
from headway.cli.console import data, data_json, talk
from headway.cli.flags import ON_THIS_MACHINE, OUTPUT, Count, MachineFlags

if TYPE_CHECKING:
    from headway.bundle import Neighbour, WordEmbedding

words_app = App(name="words", help="Show neighbours, analogies and scatter plots of word vectors.")

SHOWN = 60  # words of a scatter plot without named words


@words_app.command
def nearest(
    run: Path,
    /,
    *words: str,
    count: Count = 10,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Show the nearest neighbours of words, by the cosine of their vectors.

    Parameters
    ----------
    run
        A run folder or a model folder.
    words
        Words to look up.
    count
        Number of neighbours per word.
    json
        Print one JSON object per word.
    """
    bundle = _load(run, machine)
    if not words:
        raise UsageError("the word is missing", hint=f"headway words nearest {run} WORD")
    lists = [bundle.nearest(word, count) for word in words]
    for word, neighbours in zip(words, lists, strict=True):
        if json:
            data_json({"word": word, "nearest": _plain(neighbours)})
        else:
            data(f"{word:<16} {_row(neighbours)}")


@words_app.command
def analogy(
    run: Path,
    a: str,
    b: str,
    c: str,
    /,
    *,
    count: Count = 5,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Solve an analogy: A is to B as C is to the answer.

    Parameters
    ----------
    run
        A run folder or a model folder.
    a
        First word of the known pair, such as man.
    b
        Second word of the known pair, such as woman.
    c
        First word of the pair to complete, such as king.
    count
        Number of answers, the best first.
    json
        Print one JSON object.
    """
    answers = _load(run, machine).analogy(a, b, c, count)
    if json:
        data_json({"a": a, "b": b, "c": c, "answers": _plain(answers)})
    else:
        data(f"{a} : {b} = {c} : {_row(answers)}")


@words_app.command
def scatter(
    run: Path,
    /,
    *words: str,
    output: Annotated[Path | None, OUTPUT] = None,
    count: Count = SHOWN,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Draw a scatter plot of the first two principal components (PCA) of word vectors.

    Parameters
    ----------
    run
        A run folder or a model folder.
    words
        Words to draw. If unset, the most frequent ones.
    output
        New file for the plot, .svg or .png.
    count
        Number of most frequent words to draw, if no words are named.
    json
        Print the points as one JSON object.
    """
    if output is None and not json:
        raise UsageError(
            "neither --output nor --json is set", hint=f"headway words scatter {run} -o words.svg"
        )
    if output is not None and output.suffix not in {".svg", ".png"}:
        raise UsageError(f"--output {output}: must end in .svg or .png")
    if output is not None:
        check_new_file(output)
    bundle = _load(run, machine)
    chosen = _chosen(bundle, words, count)

    import torch

    from headway.inspection.plots import scatter as draw
    from headway.inspection.projection import principal_components

    vectors = torch.stack([bundle.vector(word) for word in chosen]).cpu()
    points = [(x, y) for x, y in principal_components(vectors).tolist()]
    if output is not None:
        draw(output, points, chosen, title=f"{len(chosen)} words of {run}")
        talk.print(f"drawn     {output}", markup=False)
    if json:
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


def _load(run: Path, machine: MachineFlags) -> WordEmbedding:
    from headway.bundle import WordEmbedding
    from headway.tasks.opening import other_kind

    bundle = machine.prepare().load(run)
    if not isinstance(bundle, WordEmbedding):
        raise other_kind(bundle, run, "word model")
    return bundle


def _plain(neighbours: Sequence[Neighbour]) -> list[dict[str, Any]]:
    return [
        {"word": neighbour.word, "cosine": round(neighbour.cosine, 4)} for neighbour in neighbours
    ]


def _row(neighbours: Sequence[Neighbour]) -> str:
    return "  ".join(f"{neighbour.word} {neighbour.cosine:.2f}" for neighbour in neighbours)
