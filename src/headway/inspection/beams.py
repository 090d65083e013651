"""A beam search as a tree: all candidates, those that were continued, and the output."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from headway.base.errors import UsageError
from headway.bundle import BeamSearching, Bundle
from headway.decoding import Candidate
from headway.inspection.document import Leaf


def search_tree(
    bundle: Bundle, input: object, *, language: str | None = None, beam: int = 4
) -> tuple[list[Leaf], list[int]]:
    """Return all candidates of the beam search for a translation or caption, parents first, and the
    token ids of the output.

    Raises UsageError for models without beam search, and for fewer than two beams.
    """
    bundle.check_input(input, language=language)
    if beam < 2:
        raise UsageError(
            f"{beam=} gives no search tree: at least two beams are needed",
            hint="for example beam=4",
        )
    if not isinstance(bundle, BeamSearching):
        raise UsageError(
            f"a {bundle.kind} does not use beam search here",
            hint="use a translation or captioning model",
        )
    trace = bundle.trace_search(input, language=language, beam=beam)
    (root,) = trace.names([trace.first])
    won = (*trace.best, *trace.end)
    leaves = candidate_tree(trace.candidates, root, won, lambda token: trace.names([token])[0])
    return leaves, list(trace.best)


def candidate_tree(
    candidates: Sequence[Candidate],
    root: str,
    won: Sequence[int],
    name: Callable[[int], str],
) -> list[Leaf]:
    """Return the tree of the candidates of one input.

    root: name of the first token; won: the token ids of the output with the end token.
    """
    indices: dict[tuple[int, ...], int] = {(): 0}
    leaves = [Leaf(parent=None, token=root, log_probability=0.0, continued=True, chosen=True)]
    for candidate in candidates:
        path = (*candidate.before, candidate.token)
        if path in indices:  # a candidate of several groups
            index = indices[path]
            leaves[index] = replace(
                leaves[index], continued=leaves[index].continued or candidate.continued
            )
            continue
        indices[path] = len(leaves)
        leaves.append(
            Leaf(
                parent=indices[candidate.before],
                token=name(candidate.token),
                log_probability=candidate.log_probability,
                continued=candidate.continued,
                chosen=tuple(won[: len(path)]) == path,
            )
        )
    return leaves
