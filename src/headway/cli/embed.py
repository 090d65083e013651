"""`headway embed`: vectors of texts or images, in a file or in a plot."""

from __future__ import annotations

import json as json_
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from headway.base.errors import UsageError
from headway.base.files import check_new_file
from headway.cli.console import data, program, talk
from headway.cli.flags import ON_THIS_MACHINE, OUTPUT, Loader, MachineFlags
from headway.cli.image_files import gather_images
from headway.cli.inputs import Truncated
from headway.cli.texts import Texts, gather

if TYPE_CHECKING:
    import numpy as np

    from headway.base.devices import Machine
    from headway.base.shapes import Float, Tensor
    from headway.blocks import Pooling
    from headway.bundle import ImageEncoding, TextEmbedding

    Rows = np.ndarray[Any, np.dtype[np.float32]]

CHUNK = (
    1024  # texts embedded together: many enough to sort by length, few enough for a progress bar
)
NAMED = 40  # a plot with more points does not show the texts
LETTERS = 32  # characters of the text that is shown beside its point
OUTPUTS = (".npz", ".tsv", ".jsonl")
PICTURES = (".svg", ".png")


def embed(
    run: str,
    /,
    *texts: str,
    output: Annotated[Path | None, OUTPUT] = None,
    plot: Path | None = None,
    column: str = "text",
    label: str | None = None,
    pooling: Literal["mean", "first"] | None = None,
    raw: bool = False,
    prompt: str | None = None,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Embed texts or images as vectors: headway embed RUN texts.txt --output vectors.npz.

    The vector of a text is the mean over its tokens, normalised to length 1: the dot product of two
    vectors is their cosine. Without --output and --plot, vectors are written to standard output as
    tab-separated values, one text per line. For an image model, inputs are image files and folders
    of images.

    Parameters
    ----------
    run
        A run folder or a model folder.
    texts
        Texts, or files of texts (one text per line, or .tsv, .csv, .jsonl). Without any, standard
        input is read, one text per line.
    output
        New file for the vectors: .npz (arrays vectors and texts), .tsv or .jsonl.
    plot
        New file (.svg or .png) for a scatter plot of the first two principal components.
    column
        Column (or JSON key) of the text.
    label
        Column (or JSON key) of the label, which sets the colours of the plot. For plain text files,
        "file" labels texts by file name; for images, "folder" labels them by folder.
    pooling
        Pooling: mean over all tokens or patches, or first (the vector of [CLS]). If unset, that of
        training for texts (mean, where the model does not save it), and [CLS] for images if the
        model has it.
    raw
        Do not normalise the vectors to length 1.
    prompt
        Name of the model's prompt that precedes each text, such as query. If unset, the model's
        default, if it has one.
    json
        Print JSON objects instead of a table.
    """
    _check_paths(output, plot)
    loader = machine.prepare()
    bundle = _loaded(loader, run)
    check_prompt(bundle, prompt)
    inputs, unit = _inputs(bundle, texts, column, label)
    _check_texts(inputs.texts, unit, output, plot)
    vectors = _vectors(bundle, inputs.texts, loader, (pooling, not raw, prompt))
    if output is None and plot is None:
        for line in (_objects if json else _table)(inputs, vectors.numpy()):
            data(line)
    _write_files((output, plot), vectors, inputs, unit, run)


def _loaded(loader: Loader, run: str) -> TextEmbedding | ImageEncoding:
    """The encoder of texts or of images. UsageError for a model of another kind."""
    from headway.bundle import ImageEncoding, TextEmbedding
    from headway.tasks.opening import other_kind

    bundle = loader.load(run)
    if not isinstance(bundle, TextEmbedding | ImageEncoding):
        raise other_kind(bundle, run, "text encoder", "image encoder")
    return bundle


def _inputs(
    bundle: TextEmbedding | ImageEncoding, names: Sequence[str], column: str, label: str | None
) -> tuple[Texts, str]:
    """The texts, or the paths of the images; and "texts" or "images"."""
    from headway.bundle import ImageEncoding

    if isinstance(bundle, ImageEncoding):
        return gather_images(names, label), "images"
    return gather(names, column, label), "texts"


def _write_files(
    paths: tuple[Path | None, Path | None],
    vectors: Float[Tensor, "N D"],
    inputs: Texts,
    unit: str,
    run: str,
) -> None:
    """Write the files of --output and --plot. unit: "texts" or "images"."""
    output, plot = paths
    if plot is not None:
        draw(plot, vectors, inputs, f"{len(inputs.texts):,} {unit}, {run}")
        talk.print(f"drawn     {plot}", markup=False)
    if output is not None:
        write(output, inputs, vectors.numpy())
        shape = f"{len(vectors):,} {unit}, vectors of width {vectors.shape[1]}"
        talk.print(f"written   {output}: {shape}", markup=False)
        if unit == "texts":
            talk.print(f'next      {program()} similar {run} "..." {output}', markup=False)


def _vectors(
    bundle: TextEmbedding | ImageEncoding,
    texts: Sequence[str],
    machine: Machine,
    form: tuple[Pooling | None, bool, str | None],
) -> Float[Tensor, "N D"]:
    """The vectors of texts, or of images by path. form: pooling, whether to normalise, prompt."""
    from headway.bundle import ImageEncoding

    pooling, normalise, prompt = form
    if isinstance(bundle, ImageEncoding):
        with machine.precision():
            return bundle.embed(texts, pooling=pooling, normalise=normalise).cpu()
    return vectors_of(bundle, texts, machine, pooling, normalise=normalise, prompt=prompt)


def check_prompt(bundle: TextEmbedding | ImageEncoding, name: str | None) -> None:
    """UsageError if the model does not have the prompt of --prompt."""
    from headway.bundle import ImageEncoding

    prompts = {} if isinstance(bundle, ImageEncoding) else bundle.prompts
    if name is not None and name not in prompts:
        known = ", ".join(prompts) or "none"
        raise UsageError(f"--prompt {name}: the model has no such prompt; its prompts are: {known}")


def _check_paths(output: Path | None, plot: Path | None) -> None:
    """Check the paths before anything is computed: known file endings, and no existing files."""
    for flag, path, endings in (("output", output, OUTPUTS), ("plot", plot, PICTURES)):
        if path is None:
            continue
        if path.suffix not in endings:
            raise UsageError(f"--{flag} {path}: must end in {' or '.join(endings)}")
        check_new_file(path)


def _check_texts(texts: Sequence[str], unit: str, output: Path | None, plot: Path | None) -> None:
    """UsageError if the inputs cannot be plotted or saved. unit: "texts" or "images"."""
    from headway.data.formats.vectors import check_texts

    if plot is not None and len(texts) < 3:
        raise UsageError(f"--plot needs at least 3 {unit}, and there are {len(texts)}")
    if output is not None and output.suffix == ".npz":
        check_texts(texts)


def vectors_of(
    bundle: TextEmbedding,
    texts: Sequence[str],
    machine: Machine,
    pooling: Pooling | None = None,
    *,
    normalise: bool = True,
    prompt: str | None = None,
) -> Float[Tensor, "N D"]:
    """The vectors of texts, with a progress bar on a terminal if there are many."""
    import torch
    from rich.progress import track

    starts = range(0, len(texts), CHUNK)
    is_shown = talk.is_terminal and len(starts) > 1
    parts = []
    truncated = Truncated(bundle.length)
    for start in track(starts, "embedding", console=talk, disable=not is_shown, transient=True):
        with machine.precision():
            chunk = texts[start : start + CHUNK]
            vectors = bundle.embed(chunk, pooling=pooling, normalise=normalise, prompt=prompt)
            parts.append(vectors.cpu())
        truncated.add(bundle.lengths(chunk, prompt))
    truncated.report()
    return torch.cat(parts)


def draw(path: Path, vectors: Float[Tensor, "N D"], inputs: Texts, title: str) -> None:
    """Draw the first two principal components; up to 40 points show the start of their texts."""
    from headway.inspection.plots import scatter
    from headway.inspection.projection import principal_components

    points = [(x, y) for x, y in principal_components(vectors).tolist()]
    named = len(points) <= NAMED
    names = [_short(text) if named else "" for text in inputs.texts]
    scatter(path, points, names, title=title, groups=inputs.labels)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LETTERS else flat[: LETTERS - 1] + "…"


def write(path: Path, inputs: Texts, vectors: Rows) -> None:
    """Write texts, labels and vectors durably, in the format of the file ending."""
    from headway.base.files import write_file
    from headway.data.formats.vectors import TextVectors, write_vectors

    if path.suffix == ".npz":
        write_vectors(path, TextVectors(inputs.texts, vectors, inputs.labels))
        return
    lines = (_table if path.suffix == ".tsv" else _objects)(inputs, vectors)
    write_file(path, (f"{line}\n".encode() for line in lines))


def _table(inputs: Texts, vectors: Rows) -> Iterator[str]:
    """A header, then one line per text; tabs and line breaks in texts become spaces."""
    label_column = [] if inputs.labels is None else ["label"]
    yield "\t".join(["text", *label_column, *map(str, range(1, vectors.shape[1] + 1))])
    for i, text in enumerate(inputs.texts):
        labels = [] if inputs.labels is None else [inputs.labels[i]]
        yield "\t".join(
            [*(" ".join(cell.split()) for cell in (text, *labels)), *_digits(vectors[i])]
        )


def _objects(inputs: Texts, vectors: Rows) -> Iterator[str]:
    for i, text in enumerate(inputs.texts):
        record = {"text": text}
        if inputs.labels is not None:
            record["label"] = inputs.labels[i]
        start = json_.dumps(record, ensure_ascii=False).removesuffix("}")
        yield f'{start}, "vector": [{", ".join(_digits(vectors[i]))}]}}'


def _digits(row: Rows) -> list[str]:
    """Each 32-bit number with the fewest digits from which it can be restored exactly."""
    return [str(value) for value in row]
