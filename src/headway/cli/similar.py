"""`headway similar`: semantic search, the texts most similar to a query."""

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
from headway.bundle import ImageTextEncoding, TextEmbedding
from headway.cli.embed import (
    check_prompt,
    either_vectors,
    gather_either,
    loaded_encoder,
    vectors_of,
)
from headway.cli.flags import RUN, as_flags
from headway.cli.machine import MachineFlags
from headway.cli.texts import ARRAYS, gather
from headway.data.formats.vectors import read_vectors
from headway.tasks.opening import other_kind
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
    `headway embed --output vectors.npz` wrote is searched without embedding its texts again. A
    model of images and texts (CLIP, SigLIP) also finds images by a text or by an image, and texts
    by an image: headway similar FOLDER "a red bus" photos/

    Parameters
    ----------
    query
        The text to compare with; for a model of images and texts, or an image file.
    texts
        Texts, files of texts (one text per line, or .tsv, .csv, .jsonl), or one .npz file of
        vectors; for a model of images and texts, also image files and folders of images. Without
        any, standard input is read, one text per line.
    """
    loader = flags.prepare()
    bundle = loaded_encoder(loader, run)
    check_prompt(bundle, flags.prompt)
    if isinstance(bundle, ImageTextEncoding):
        with loader.precision():
            candidates, vectors = _either(bundle, texts, flags.column)
            (of_query,) = either_vectors(bundle, [query])
        _print(candidates, vectors @ of_query, flags)
        return
    if not isinstance(bundle, TextEmbedding):
        raise other_kind(bundle, run, "text encoder", "image-text model")
    if any(Path(text).suffix == ARRAYS for text in texts):
        candidates, cosines = _searched(bundle, query, flags.prompt, texts, loader)
    else:
        candidates = list(dict.fromkeys(gather(texts, flags.column).texts))
        of_query = vectors_of(bundle, [query], loader, prompt=flags.prompt)[0]
        cosines = vectors_of(bundle, candidates, loader) @ of_query
    _print(candidates, cosines, flags)


def _print(candidates: Sequence[str], cosines: Float[Tensor, " N"], flags: SimilarFlags) -> None:
    """Print the best candidates with their cosines."""
    best = cosines.topk(min(flags.top, len(candidates)))
    for cosine, i in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        value = {"text": candidates[i], "cosine": round(cosine, 4)}
        result(value, f"{cosine:.3f}\t{' '.join(candidates[i].split())}", as_json=flags.json)


def _either(
    bundle: ImageTextEncoding, texts: Sequence[str], column: str
) -> tuple[list[str], Float[Tensor, "N D"]]:
    """Images and texts with their vectors, which may be those of a file."""
    if not any(Path(text).suffix == ARRAYS for text in texts):
        candidates = list(dict.fromkeys(gather_either(texts, column).texts))
        return candidates, either_vectors(bundle, candidates)
    candidates, vectors = _stored(texts)
    (again,) = either_vectors(bundle, candidates[:1])
    if len(again) != vectors.shape[1] or float(again @ vectors[0]) <= SAME:
        raise DataError(
            f"the vectors were computed by another model, or {candidates[0]} has changed since",
            texts[0],
            "write it again in this folder: headway embed RUN IMAGES",
        )
    return candidates, vectors


def _stored(texts: Sequence[str]) -> tuple[list[str], Float[Tensor, "N D"]]:
    """The distinct texts of a file of vectors, with their vectors of length 1."""
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
    return list(first), F.normalize(torch.from_numpy(stored.vectors[[*first.values()]]), dim=-1)


def _searched(
    bundle: TextEmbedding,
    query: str,
    prompt_of_query: str | None,
    texts: Sequence[str],
    machine: Machine,
) -> tuple[list[str], Float[Tensor, " N"]]:
    """The distinct texts of a file of vectors, and their cosines with the query and its prompt."""
    candidates, vectors = _stored(texts)
    # the file does not save pooling and prompt: its first text is embedded again to find them
    poolings = sorted(get_args(Pooling), key=lambda name: name != bundle.pooling)
    for pooling, prompt in itertools.product(poolings, (None, *bundle.prompts)):
        (again,) = vectors_of(bundle, candidates[:1], machine, pooling, prompt=prompt)
        if len(again) == vectors.shape[1] and float(again @ vectors[0]) > SAME:
            (of_query,) = vectors_of(bundle, [query], machine, pooling, prompt=prompt_of_query)
            if pooling != bundle.pooling:
                talk.print(f"searched  with pooling {pooling}, like the vectors of the file")
            return candidates, vectors @ of_query
    raise DataError(
        "the vectors were computed by another model: this one embeds the first text differently",
        texts[0],
        "search with the model that wrote the file, or write it again: headway embed RUN TEXTS",
    )
