"""`headway words`: what a word model has learned of its words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from headway.cli.console import data, data_json, talk
from headway.cli.flags import ON_THIS_MACHINE, Count, MachineFlags
from headway.errors import UsageError
from headway.files import check_new_file

if TYPE_CHECKING:
    from headway.bundle import Neighbour, WordEmbedding

words_app = App(name="words", help="Show neighbours, analogies and scatter plots of word vectors.")

SHOWN = 60  # words drawn when none are named


@words_app.command
def nearest(
    run: Path,
    /,
    *words: str,
    count: Count = 10,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """The words whose vectors point most nearly the same way, by the cosine.

    Parameters
    ----------
    run
        A run folder or a model folder.
    words
        One word or several.
    count
        How many neighbours of each.
    json
        One JSON object a word.
    """
    bundle = _opened(run, machine)
    if not words:
        raise UsageError("which word?", hint=f"headway words nearest {run} WORD")
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
    """A is to B as C is to what?

    Parameters
    ----------
    run
        A run folder or a model folder.
    a
        man, say.
    b
        woman, then.
    c
        king.
    count
        How many answers, best first.
    json
        One JSON object.
    """
    answers = _opened(run, machine).analogy(a, b, c, count)
    if json:
        data_json({"a": a, "b": b, "c": c, "answers": _plain(answers)})
    else:
        data(f"{a} : {b} = {c} : {_row(answers)}")


@words_app.command
def scatter(
    run: Path,
    /,
    *words: str,
    out: Path | None = None,
    count: Count = SHOWN,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Draw words as points, by the two directions in which their vectors differ most (PCA).

    Parameters
    ----------
    run
        A run folder or a model folder.
    words
        Words to draw; without any, the most frequent ones.
    out
        The picture to write, .svg or .png.
    count
        How many of the most frequent words.
    json
        The points as one JSON object, with or without a picture.
    """
    if out is None and not json:
        raise UsageError("where to?", hint=f"headway words scatter {run} --out words.svg")
    if out is not None and out.suffix not in {".svg", ".png"}:
        raise UsageError(f"--out {out}: must end in .svg or .png")
    if out is not None:
        check_new_file(out)
    bundle = _opened(run, machine)
    chosen = _chosen(bundle, words, count)

    import torch

    from headway.inspection.plots import scatter as draw
    from headway.inspection.projection import principal_components

    vectors = torch.stack([bundle.vector(word) for word in chosen]).cpu()
    points = [(x, y) for x, y in principal_components(vectors).tolist()]
    if out is not None:
        draw(out, points, chosen, title=f"{len(chosen)} words of {run}")
        talk.print(f"drawn     {out}", markup=False)
    if json:
        data_json({word: list(point) for word, point in zip(chosen, points, strict=True)})


def _chosen(bundle: WordEmbedding, words: Sequence[str], count: int) -> list[str]:
    """The words to draw, each once and as the model spells it; a plane needs three."""
    known = bundle.vocabulary
    chosen = words or known.words[1 : 1 + count]
    spelled = list(dict.fromkeys(known.words[known.id_of(word)] for word in chosen))
    if len(spelled) < 3:
        raise UsageError(f"{len(spelled)} words are too few to spread in a plane", hint="name 3")
    return spelled


def _opened(run: Path, machine: MachineFlags) -> WordEmbedding:
    from headway.bundle import WordEmbedding
    from headway.tasks.opening import other_kind

    bundle = machine.prepare().load(run)
    if not isinstance(bundle, WordEmbedding):
        raise other_kind(bundle, run, "word model")
    return bundle


def _plain(neighbours: Sequence[Neighbour]) -> list[dict[str, Any]]:
    return [{"word": one.word, "cosine": round(one.cosine, 4)} for one in neighbours]


def _row(neighbours: Sequence[Neighbour]) -> str:
    return "  ".join(f"{one.word} {one.cosine:.2f}" for one in neighbours)
