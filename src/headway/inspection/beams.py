"""A beam search as a tree: everything that was weighed, what was kept, what won."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from headway.bundle import CaptionerBundle, TranslatorBundle
from headway.bundle.vision import image_of
from headway.decoding import Candidate
from headway.errors import UsageError
from headway.inspection.document import Leaf


def beam_tree(bundle: Any, given: Any, *, language: str | None = None, beam: int = 4) -> list[Leaf]:
    """Every candidate of the search for the best translation or caption, parents first.

    UsageError for other models, and for fewer than two beams.
    """
    return search_tree(bundle, given, language=language, beam=beam)[0]


def search_tree(
    bundle: Any, given: Any, *, language: str | None = None, beam: int = 4
) -> tuple[list[Leaf], list[int]]:
    """`beam_tree`, and the ids of what was found best."""
    if beam < 2:
        raise UsageError(f"{beam=}: one beam is no tree", hint="beam=4")
    weighed: list[Candidate] = []
    if isinstance(bundle, TranslatorBundle):
        (found,) = bundle.search([given], beam=beam, observe=weighed.append)
        side = bundle.tokenizer.target
        first, eos, names = side.bos, side.eos, side.pieces
    elif isinstance(bundle, CaptionerBundle):
        reader = bundle.reader
        images = image_of(reader.images, given, bundle.device)
        how = (beam, 1, 1.0)
        (found,) = bundle.search_images(images, language, how, weighed.append)  # type: ignore[assignment]
        first, eos, names = reader.first(language), reader.tokenizer.eos, reader.pieces
    else:
        raise UsageError(
            f"a {bundle.kind} is not searched with beams here", hint="a translator or a captioner"
        )
    (root,) = names([first])
    best = found[0]
    won = (*best.tokens, eos) if best.finished else best.tokens
    return tree_of(weighed, root, won, lambda token: names([token])[0]), list(best.tokens)


def tree_of(
    weighed: Sequence[Candidate],
    root: str,
    won: Sequence[int],
    name: Callable[[int], str],
) -> list[Leaf]:
    """The tree of one input's candidates. root: what is read first; won: the tokens of the answer,
    the last one included."""
    places: dict[tuple[int, ...], int] = {(): 0}
    leaves = [Leaf(parent=None, token=root, log_probability=0.0, kept=True, chosen=True)]
    for each in weighed:
        path = (*each.before, each.token)
        if path in places:  # several groups weighed it
            place = places[path]
            leaves[place] = replace(leaves[place], kept=leaves[place].kept or each.kept)
            continue
        places[path] = len(leaves)
        leaves.append(
            Leaf(
                parent=places[each.before],
                token=name(each.token),
                log_probability=each.log_probability,
                kept=each.kept,
                chosen=tuple(won[: len(path)]) == path,
            )
        )
    return leaves
