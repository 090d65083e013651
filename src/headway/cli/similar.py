"""`headway similar`: which texts mean most nearly the same."""

from __future__ import annotations

from headway.cli.console import data, data_json
from headway.cli.embed import vectors_of
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags
from headway.cli.texts import gather
from headway.errors import UsageError


def similar(
    run: str,
    query: str,
    /,
    *texts: str,
    top: int = 10,
    column: str = "text",
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """The texts nearest to a query, by the cosine: headway similar RUN "..." texts.txt

    A line each, the nearest first: cosine, tab, text.

    Parameters
    ----------
    run
        A run folder or a model folder.
    query
        A text.
    texts
        Files (a text a line, or .tsv, .csv, .jsonl), or texts themselves; without any, standard
        input is read line by line.
    top
        So many of them.
    column
        Name of the column (or key) that holds the text.
    json
        One JSON object a line.
    """
    from headway.bundle import EncoderBundle, load_as

    if top < 1:
        raise UsageError(f"--top {top}: must be at least 1")
    place = machine.prepare()
    bundle = load_as(EncoderBundle, run, place.device)
    found = list(dict.fromkeys(gather(texts, column).texts))
    cosines = vectors_of(bundle, found, place) @ vectors_of(bundle, [query], place)[0]
    best = cosines.topk(min(top, len(found)))
    for cosine, i in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        if json:
            data_json({"text": found[i], "cosine": round(cosine, 4)})
        else:
            data(f"{cosine:.3f}\t{' '.join(found[i].split())}")
