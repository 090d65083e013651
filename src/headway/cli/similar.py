"""`headway similar`: semantic search, the texts most similar to a query."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import torch
import torch.nn.functional as F

from headway.base.devices import Machine
from headway.base.errors import DataError, UsageError
from headway.base.settings import setting
from headway.base.shapes import Float, Tensor
from headway.blocks import Pooling
from headway.bundle import TextEmbedding
from headway.cli.embed import check_prompt, vectors_of
from headway.cli.flags import RUN, as_flags
from headway.cli.machine import MachineFlags
from headway.cli.texts import ARRAYS, gather
from headway.data.formats.vectors import read_vectors
from headway.terminal.console import result, talk

SAME = 0.999  # least cosine of two vectors of one text that were computed in different dtypes


@as_flags
class SimilarFlags(MachineFlags):
    top: int = setting(10, "Number of texts to print.", ge=1)
    column: str = setting("text", "Column (or JSON key) of the text.")
    prompt: str | None = setting(
        None,
        "Name of the model's prompt that precedes the query. If unset, the model's default, if it "
        "has one, which also precedes the texts.",
    )
    json: bool = setting(False, "Print one JSON object per line.")


def similar(
    run: Annotated[str, RUN], query: str, /, *texts: str, flags: SimilarFlags = SimilarFlags()
) -> None:
    """Find the texts most similar to a query: headway similar RUN "..." texts.txt.

    Prints one line per text, the most similar first: cosine, tab, text. A file of vectors that
    `headway embed --output vectors.npz` wrote is searched without embedding its texts again.

    Parameters
    ----------
    query
        The text to compare with.
    texts
        Texts, files of texts (one text per line, or .tsv, .csv, .jsonl), or one .npz file of
        vectors. Without any, standard input is read, one text per line.
    """
    loader = flags.prepare()
    bundle = loader.expect(TextEmbedding, run, "text encoder")  # type: ignore[type-abstract]
    check_prompt(bundle, flags.prompt)
    if any(Path(text).suffix == ARRAYS for text in texts):
        candidates, cosines = _searched(bundle, query, flags.prompt, texts, loader)
    else:
        candidates = list(dict.fromkeys(gather(texts, flags.column).texts))
        of_query = vectors_of(bundle, [query], loader, prompt=flags.prompt)[0]
        cosines = vectors_of(bundle, candidates, loader) @ of_query
    best = cosines.topk(min(flags.top, len(candidates)))
    for cosine, i in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        value = {"text": candidates[i], "cosine": round(cosine, 4)}
        result(value, f"{cosine:.3f}\t{' '.join(candidates[i].split())}", as_json=flags.json)


def _searched(
    bundle: TextEmbedding,
    query: str,
    prompt_of_query: str | None,
    texts: Sequence[str],
    machine: Machine,
) -> tuple[list[str], Float[Tensor, " N"]]:
    """The distinct texts of a file of vectors, and their cosines with the query and its prompt."""
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
            (of_query,) = vectors_of(bundle, [query], machine, pooling, prompt=prompt_of_query)
            if pooling != bundle.pooling:
                talk.print(f"searched  with pooling {pooling}, like the vectors of the file")
            return [stored.texts[i] for i in rows], vectors @ of_query
    raise DataError(
        "the vectors were computed by another model: this one embeds the first text differently",
        str(path),
        "search with the model that wrote the file, or write it again: headway embed RUN TEXTS",
    )
