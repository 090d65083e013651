"""`headway similar`: semantic search, the texts most similar to a query."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from headway.base.errors import DataError, UsageError
from headway.cli.console import data, data_json, talk
from headway.cli.embed import check_prompt, vectors_of
from headway.cli.flags import ON_THIS_MACHINE, Count, MachineFlags
from headway.cli.texts import ARRAYS, gather

if TYPE_CHECKING:
    from headway.base.devices import Machine
    from headway.base.shapes import Float, Tensor
    from headway.bundle import TextEmbedding

SAME = 0.999  # least cosine of two vectors of one text that were computed in different dtypes


def similar(
    run: str,
    query: str,
    /,
    *texts: str,
    top: Count = 10,
    column: str = "text",
    prompt: str | None = None,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Find the texts most similar to a query: headway similar RUN "..." texts.txt.

    Prints one line per text, the most similar first: cosine, tab, text. A file of vectors that
    `headway embed --output vectors.npz` wrote is searched without embedding its texts again.

    Parameters
    ----------
    run
        A run folder or a model folder.
    query
        The text to compare with.
    texts
        Texts, files of texts (one text per line, or .tsv, .csv, .jsonl), or one .npz file of
        vectors. Without any, standard input is read, one text per line.
    top
        Number of texts to print.
    column
        Column (or JSON key) of the text.
    prompt
        Name of the model's prompt that precedes the query. If unset, the model's default, if it
        has one, which also precedes the texts.
    json
        Print one JSON object per line.
    """
    from headway.bundle import TextEmbedding
    from headway.tasks.opening import other_kind

    loader = machine.prepare()
    bundle = loader.load(run)
    if not isinstance(bundle, TextEmbedding):
        raise other_kind(bundle, run, "text encoder")
    check_prompt(bundle, prompt)
    if any(Path(text).suffix == ARRAYS for text in texts):
        candidates, cosines = _searched(bundle, (query, prompt), texts, loader)
    else:
        candidates = list(dict.fromkeys(gather(texts, column).texts))
        of_query = vectors_of(bundle, [query], loader, prompt=prompt)[0]
        cosines = vectors_of(bundle, candidates, loader) @ of_query
    best = cosines.topk(min(top, len(candidates)))
    for cosine, i in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        if json:
            data_json({"text": candidates[i], "cosine": round(cosine, 4)})
        else:
            data(f"{cosine:.3f}\t{' '.join(candidates[i].split())}")


def _searched(
    bundle: TextEmbedding,
    query: tuple[str, str | None],
    texts: Sequence[str],
    machine: Machine,
) -> tuple[list[str], Float[Tensor, " N"]]:
    """The distinct texts of a file of vectors, and their cosines with the query and its prompt."""
    import torch
    import torch.nn.functional as F

    from headway.blocks import Pooling
    from headway.data.formats.vectors import read_vectors

    if len(texts) > 1:
        raise UsageError(
            "a file of vectors (.npz) cannot be combined with other texts",
            hint="name only the .npz file",
        )
    path = Path(texts[0])
    if not path.is_file():
        raise UsageError("no such file", str(path), "check the path")
    stored = read_vectors(path)
    if not stored.texts:
        raise DataError("the file has no texts", str(path))
    first: dict[str, int] = {}
    for i, text in enumerate(stored.texts):
        first.setdefault(text, i)
    rows = list(first.values())
    vectors = F.normalize(torch.from_numpy(stored.vectors[rows]), dim=-1)
    # the file does not save pooling and prompt: its first text is embedded again to find them
    poolings = sorted(get_args(Pooling), key=lambda name: name != bundle.pooling)
    for pooling, prompt in itertools.product(poolings, (None, *bundle.prompts)):
        (again,) = vectors_of(bundle, [stored.texts[rows[0]]], machine, pooling, prompt=prompt)
        if len(again) == vectors.shape[1] and float(again @ vectors[0]) > SAME:
            text, prompt_of_query = query
            (of_query,) = vectors_of(bundle, [text], machine, pooling, prompt=prompt_of_query)
            if pooling != bundle.pooling:
                talk.print(f"searched  with pooling {pooling}, like the vectors of the file")
            return [stored.texts[i] for i in rows], vectors @ of_query
    raise DataError(
        "the vectors were computed by another model: this one embeds the first text differently",
        str(path),
        "search with the model that wrote the file, or write it again: headway embed RUN TEXTS",
    )
