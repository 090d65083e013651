"""`headway similar`: which texts mean most nearly the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from headway.cli.console import data, data_json, talk
from headway.cli.embed import vectors_of
from headway.cli.flags import ON_THIS_MACHINE, Count, MachineFlags
from headway.cli.texts import ARRAYS, gather
from headway.errors import DataError, UsageError

if TYPE_CHECKING:
    from headway.bundle import TextEmbedding
    from headway.machine import Machine
    from headway.shapes import Float, Tensor

SAME = 0.999  # cosine of a text's vector with the one that another number type gives it


def similar(
    run: str,
    query: str,
    /,
    *texts: str,
    top: Count = 10,
    column: str = "text",
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Find the texts nearest to a query: headway similar RUN "..." texts.txt.

    A line each, the nearest first: cosine, tab, text. What `headway embed --output vectors.npz`
    wrote is searched without reading the texts again.

    Parameters
    ----------
    run
        A run folder or a model folder.
    query
        A text.
    texts
        Files (a text a line, or .tsv, .csv, .jsonl), or texts themselves; without any, standard
        input is read line by line. Or one .npz of vectors.
    top
        So many of them.
    column
        Name of the column (or key) that holds the text.
    json
        One JSON object a line.
    """
    from headway.bundle import TextEmbedding
    from headway.tasks.opening import other_kind

    place = machine.prepare()
    bundle = place.load(run)
    if not isinstance(bundle, TextEmbedding):
        raise other_kind(bundle, run, "text encoder")
    if any(Path(thing).suffix == ARRAYS for thing in texts):
        found, cosines = _searched(bundle, query, texts, place)
    else:
        found = list(dict.fromkeys(gather(texts, column).texts))
        cosines = vectors_of(bundle, found, place) @ vectors_of(bundle, [query], place)[0]
    best = cosines.topk(min(top, len(found)))
    for cosine, i in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        if json:
            data_json({"text": found[i], "cosine": round(cosine, 4)})
        else:
            data(f"{cosine:.3f}\t{' '.join(found[i].split())}")


def _searched(
    bundle: TextEmbedding, query: str, texts: Sequence[str], place: Machine
) -> tuple[list[str], Float[Tensor, " N"]]:
    """The texts of a file of vectors, each once, and their cosines with the query."""
    import torch
    import torch.nn.functional as F

    from headway.blocks import Pooling
    from headway.data.formats.vectors import read_vectors

    if len(texts) > 1:
        raise UsageError(
            f"{len(texts)} things to search, one of them vectors", hint="the .npz alone"
        )
    path = Path(texts[0])
    if not path.is_file():
        raise UsageError("no such file", str(path), "check the path")
    stored = read_vectors(path)
    if not stored.texts:
        raise DataError("there is no text", str(path))
    first: dict[str, int] = {}
    for i, text in enumerate(stored.texts):
        first.setdefault(text, i)
    rows = list(first.values())
    vectors = F.normalize(torch.from_numpy(stored.vectors[rows]), dim=-1)
    # the file does not say how its vectors were pooled: its first text is read again
    for pooling in sorted(get_args(Pooling), key=lambda each: each != bundle.pooling):
        again, asked = vectors_of(bundle, [stored.texts[rows[0]], query], place, pooling)
        if len(again) == vectors.shape[1] and float(again @ vectors[0]) > SAME:
            if pooling != bundle.pooling:
                kind = "means" if pooling == "mean" else "the vectors of [CLS]"
                talk.print(f"searched  by {kind}, as those in the file are")
            return [stored.texts[i] for i in rows], vectors @ asked
    raise DataError(
        "the vectors are not this model's: it gives the first text another one",
        str(path),
        "search with the model that wrote them, or write them anew: headway embed RUN TEXTS",
    )
