"""`headway embed`: texts or pictures as vectors, in a file or in a plot."""

from __future__ import annotations

import json as json_
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headway.cli.console import data, program, talk
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags
from headway.cli.image_files import gather_pictures
from headway.cli.inputs import Truncated
from headway.cli.texts import Texts, gather
from headway.errors import UsageError
from headway.files import check_new_file

if TYPE_CHECKING:
    import numpy as np

    from headway.blocks import Pooling
    from headway.bundle import ImageEncoding, TextEmbedding
    from headway.machine import Machine
    from headway.shapes import Float, Tensor

    Rows = np.ndarray[Any, np.dtype[np.float32]]

CHUNK = 1024  # texts read together; enough to sort by length, few enough to show how far it is
NAMED = 40  # in a picture of more points the texts themselves are left out
LETTERS = 32  # of a text beside its point
OUTPUTS = (".npz", ".tsv", ".jsonl")
PICTURES = (".svg", ".png")


def embed(
    run: str,
    /,
    *texts: str,
    output: Path | None = None,
    plot: Path | None = None,
    column: str = "text",
    label: str | None = None,
    pooling: Literal["mean", "first"] | None = None,
    raw: bool = False,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Embed texts or images as vectors: headway embed RUN texts.txt --output vectors.npz.

    A text's vector is the mean of its pieces' vectors, of length 1: the product of two is their
    cosine. Without --output and --plot they go to standard output, a line a text, tabs between.
    A model that looks at pictures takes these and folders of them.

    Parameters
    ----------
    run
        A run folder or a model folder.
    texts
        Files (a text a line, or .tsv, .csv, .jsonl), or texts themselves; without any, standard
        input is read line by line.
    output
        .npz (arrays vectors and texts), .tsv or .jsonl.
    plot
        .svg or .png: the texts as points, by the two directions in which their vectors differ most.
    column
        Name of the column (or key) that holds the text.
    label
        Name of the column (or key) that says what a text is: the colours of a plot. Of texts a line
        each: file, the name of the file. Of pictures: folder, the name of the folder that each lies
        in.
    pooling
        mean: of all pieces (or patches). first: the vector of [CLS]. Unless given, of texts what
        the model was trained for (the mean, where nothing is said), of pictures [CLS]'s where there
        is one.
    raw
        Vectors of whatever length.
    json
        JSON objects instead of the table on standard output.
    """
    from headway.bundle import ImageEncoding, TextEmbedding
    from headway.tasks.opening import other_kind

    _check_paths(output, plot)
    place = machine.prepare()
    bundle = place.load(run)
    if not isinstance(bundle, TextEmbedding | ImageEncoding):
        raise other_kind(bundle, run, "text encoder", "image encoder")
    found, what = _inputs(bundle, texts, column, label)
    _check_texts(found.texts, what, output, plot)
    vectors = _vectors(bundle, found.texts, place, (pooling, not raw))
    if output is None and plot is None:
        for line in (_objects if json else _table)(found, vectors.numpy()):
            data(line)
    _write_files((output, plot), vectors, found, what, run)


def _inputs(
    bundle: TextEmbedding | ImageEncoding, names: Sequence[str], column: str, label: str | None
) -> tuple[Texts, str]:
    """Texts, or the names of pictures; and which of the two they are."""
    from headway.bundle import ImageEncoding

    if isinstance(bundle, ImageEncoding):
        return gather_pictures(names, label), "pictures"
    return gather(names, column, label), "texts"


def _write_files(
    paths: tuple[Path | None, Path | None],
    vectors: Float[Tensor, "N D"],
    found: Texts,
    what: str,
    run: str,
) -> None:
    """What --output and --plot ask for. what: texts or pictures."""
    output, plot = paths
    if plot is not None:
        draw(plot, vectors, found, f"{len(found.texts):,} {what}, {run}")
        talk.print(f"drawn     {plot}", markup=False)
    if output is not None:
        write(output, found, vectors.numpy())
        shape = f"{len(vectors):,} {what}, {vectors.shape[1]} numbers each"
        talk.print(f"written   {output}: {shape}", markup=False)
        if what == "texts":
            talk.print(f'next      {program()} similar {run} "..." {output}', markup=False)


def _vectors(
    bundle: TextEmbedding | ImageEncoding,
    texts: Sequence[str],
    place: Machine,
    how: tuple[Pooling | None, bool],
) -> Float[Tensor, "N D"]:
    """Of texts, or of the pictures that they name. how: pooling, and whether of length 1."""
    from headway.bundle import ImageEncoding

    pooling, normalise = how
    if isinstance(bundle, ImageEncoding):
        with place.precision():
            return bundle.embed(texts, pooling=pooling, normalise=normalise).cpu()
    return vectors_of(bundle, texts, place, pooling, normalise)


def _check_paths(output: Path | None, plot: Path | None) -> None:
    """Before anything is computed: endings that are known, and nothing that is there already."""
    for flag, path, endings in (("output", output, OUTPUTS), ("plot", plot, PICTURES)):
        if path is None:
            continue
        if path.suffix not in endings:
            raise UsageError(f"--{flag} {path}: must end in {' or '.join(endings)}")
        check_new_file(path)


def _check_texts(texts: Sequence[str], what: str, output: Path | None, plot: Path | None) -> None:
    """Whether they go into what is asked for. what: texts or pictures."""
    from headway.data.formats.vectors import check_texts

    if plot is not None and len(texts) < 3:
        raise UsageError(f"{len(texts)} {what} are too few to spread in a plane")
    if output is not None and output.suffix == ".npz":
        check_texts(texts)


def vectors_of(
    bundle: TextEmbedding,
    texts: Sequence[str],
    place: Machine,
    pooling: Pooling | None = None,
    normalise: bool = True,
) -> Float[Tensor, "N D"]:
    """The texts' vectors, with a bar on a terminal while there are many."""
    import torch
    from rich.progress import track

    starts = range(0, len(texts), CHUNK)
    is_shown = talk.is_terminal and len(starts) > 1
    parts = []
    truncated = Truncated(bundle.length)
    for start in track(starts, "embedding", console=talk, disable=not is_shown, transient=True):
        with place.precision():
            chunk = texts[start : start + CHUNK]
            parts.append(bundle.embed(chunk, pooling=pooling, normalise=normalise).cpu())
        truncated.add(bundle.lengths(chunk))
    truncated.report()
    return torch.cat(parts)


def draw(path: Path, vectors: Float[Tensor, "N D"], found: Texts, title: str) -> None:
    """The texts as points in the plane; a few with their first words beside them."""
    from headway.inspection.plots import scatter
    from headway.inspection.projection import principal_components

    points = [(x, y) for x, y in principal_components(vectors).tolist()]
    named = len(points) <= NAMED
    names = [_short(text) if named else "" for text in found.texts]
    scatter(path, points, names, title=title, groups=found.labels)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LETTERS else flat[: LETTERS - 1] + "…"


def write(path: Path, found: Texts, vectors: Rows) -> None:
    """The vectors and what they are of, durably. The ending says in which form."""
    from headway.data.formats.vectors import TextVectors, write_vectors
    from headway.files import write_file

    if path.suffix == ".npz":
        write_vectors(path, TextVectors(found.texts, vectors, found.labels))
        return
    lines = (_table if path.suffix == ".tsv" else _objects)(found, vectors)
    write_file(path, (f"{line}\n".encode() for line in lines))


def _table(found: Texts, vectors: Rows) -> Iterator[str]:
    """A header, then a text a line; tabs and ends of line in texts become blanks."""
    named = [] if found.labels is None else ["label"]
    yield "\t".join(["text", *named, *map(str, range(1, vectors.shape[1] + 1))])
    for i, text in enumerate(found.texts):
        labels = [] if found.labels is None else [found.labels[i]]
        yield "\t".join(
            [*(" ".join(cell.split()) for cell in (text, *labels)), *_digits(vectors[i])]
        )


def _objects(found: Texts, vectors: Rows) -> Iterator[str]:
    for i, text in enumerate(found.texts):
        facts = {"text": text} if found.labels is None else {"text": text, "label": found.labels[i]}
        start = json_.dumps(facts, ensure_ascii=False).removesuffix("}")
        yield f'{start}, "vector": [{", ".join(_digits(vectors[i]))}]}}'


def _digits(row: Rows) -> list[str]:
    """The fewest digits that give each 32-bit number back."""
    return [str(value) for value in row]
