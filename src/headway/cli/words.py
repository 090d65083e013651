"""`headway words`: what a word model has learned of its words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from headway.cli.console import data, data_json
from headway.cli.opening import opened
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.bundle import Neighbour, WordsBundle

words_app = App(name="words", help="Neighbours and analogies of learned words.")


@words_app.command
def nearest(run: Path, /, *words: str, count: int = 10, json: bool = False) -> None:
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
    bundle = _opened(run)
    if not words:
        raise UsageError("which word?", hint=f"headway words nearest {run} WORD")
    found = [bundle.nearest(word, count) for word in words]
    for word, neighbours in zip(words, found, strict=True):
        if json:
            data_json({"word": word, "nearest": _plain(neighbours)})
        else:
            data(f"{word:<16} {_row(neighbours)}")


@words_app.command
def analogy(run: Path, a: str, b: str, c: str, /, *, count: int = 5, json: bool = False) -> None:
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
    found = _opened(run).analogy(a, b, c, count)
    if json:
        data_json({"a": a, "b": b, "c": c, "answers": _plain(found)})
    else:
        data(f"{a} : {b} = {c} : {_row(found)}")


def _opened(run: Path) -> WordsBundle:
    from headway.bundle import WordsBundle

    return opened(run, WordsBundle)


def _plain(found: Sequence[Neighbour]) -> list[dict[str, Any]]:
    return [{"word": one.word, "cosine": round(one.cosine, 4)} for one in found]


def _row(found: Sequence[Neighbour]) -> str:
    return "  ".join(f"{one.word} {one.cosine:.2f}" for one in found)
