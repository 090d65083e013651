"""A beam search as a tree: everything that was weighed, what was kept, what won."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from headway.bundle import BeamSearching, Bundle
from headway.decoding import Candidate
from headway.errors import UsageError
from headway.inspection.document import Leaf


def beam_tree(
    bundle: Bundle, given: Any, *, language: str | None = None, beam: int = 4
) -> list[Leaf]:
    """Every candidate of the search for the best translation or caption, parents first.

    UsageError for other models, and for fewer than two beams.
    """
    bundle.check_input(given, language=language)
    return search_tree(bundle, given, language=language, beam=beam)[0]


def search_tree(
    bundle: Bundle, given: Any, *, language: str | None = None, beam: int = 4
) -> tuple[list[Leaf], list[int]]:
    """`beam_tree`, and the ids of what was found best."""
    if beam < 2:
        raise UsageError(f"{beam=}: one beam is no tree", hint="beam=4")
    if not isinstance(bundle, BeamSearching):
        raise UsageError(
            f"a {bundle.kind} is not searched with beams here", hint="a translator or a captioner"
        )
    trace = bundle.trace_search(given, language=language, beam=beam)
    (root,) = trace.names([trace.first])
    won = (*trace.best, *trace.end)
    leaves = tree_of(trace.candidates, root, won, lambda token: trace.names([token])[0])
    return leaves, list(trace.best)


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
