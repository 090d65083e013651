"""`headway embed`: vectors of texts or images, in a file or in a plot."""

import json as json_
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.files import check_new_file, write_file
from headway.base.settings import setting
from headway.base.shapes import Float, Tensor
from headway.blocks import Pooling
from headway.bundle import ImageEncoding, ImageTextEncoding, TextEmbedding
from headway.cli.flags import OUTPUT, RUN, as_flags
from headway.cli.inputs import Truncated
from headway.cli.machine import Loader, MachineFlags
from headway.cli.texts import Texts, gather, gather_images, names_images
from headway.data.formats.vectors import TextVectors, check_texts, write_vectors
from headway.inspection.plots import scatter
from headway.inspection.projection import principal_components
from headway.tasks.opening import other_kind
from headway.terminal.console import data, program, say
from headway.terminal.progress import progress

Rows = np.ndarray[Any, np.dtype[np.float32]]

CHUNK = (
    1024  # texts embedded together: many enough to sort by length, few enough for a progress bar
)
NAMED = 40  # a plot with more points does not show the texts
LETTERS = 32  # characters of the text that is shown beside its point
OUTPUTS = (".npz", ".tsv", ".jsonl")
PICTURES = (".svg", ".png")


@as_flags
class EmbedFlags(MachineFlags):
    output: Annotated[Path | None, OUTPUT] = setting(
        None, "New file for the vectors: .npz (arrays vectors and texts), .tsv or .jsonl."
    )
    plot: Path | None = setting(
        None, "New file (.svg or .png) for a scatter plot of the first two principal components."
    )
    column: str = setting("text", "Column (or JSON key) of the text.")
    label: str | None = setting(
        None,
        "Column (or JSON key) of the label, which sets the colours of the plot. For plain text "
        'files, "file" labels texts by file name; for images, "folder" labels them by folder.',
    )
    pooling: Literal["mean", "first"] | None = setting(
        None,
        "Pooling: mean over all tokens or patches, or first (the vector of [CLS]). If unset, that "
        "of training for texts (mean, where the model does not save it), and [CLS] for images if "
        "the model has it.",
    )
    raw: bool = setting(False, "Do not normalise the vectors to length 1.")
    prompt: str | None = setting(
        None,
        "Name of the model's prompt that precedes each text, such as query. If unset, the model's "
        "default, if it has one.",
    )
    json: bool = setting(False, "Print JSON objects instead of a table.")


def embed(run: Annotated[str, RUN], /, *texts: str, flags: EmbedFlags = EmbedFlags()) -> None:
    """Embed texts or images as vectors: headway embed RUN texts.txt --output vectors.npz.

    The vector of a text is the mean over its tokens, normalised to length 1: the dot product of two
    vectors is their cosine. Without --output and --plot, vectors are written to standard output as
    tab-separated values, one text per line. For an image model, inputs are image files and folders
    of images. A model of images and texts (CLIP, SigLIP) embeds both in one space.

    Parameters
    ----------
    texts
        Texts, or files of texts (one text per line, or .tsv, .csv, .jsonl). Without any,
        standard input is read, one text per line.
    """
    _check_paths(flags)
    loader = flags.prepare()
    bundle = loaded_encoder(loader, run)
    check_prompt(bundle, flags.prompt)
    inputs, unit = _inputs(bundle, texts, flags.column, flags.label)
    _check_texts(inputs.texts, unit, flags.output, flags.plot)
    vectors = _vectors(bundle, inputs.texts, loader, flags)
    if flags.output is None and flags.plot is None:
        for line in (_objects if flags.json else _table)(inputs, vectors.numpy()):
            data(line)
    _write_files(flags, vectors, inputs, unit, run)


def loaded_encoder(loader: Loader, run: str) -> TextEmbedding | ImageEncoding:
    """The encoder of texts or of images. UsageError for a model of another kind."""
    bundle = loader.load(run)
    if not isinstance(bundle, TextEmbedding | ImageEncoding):
        raise other_kind(bundle, run, "text encoder", "image encoder")
    return bundle


def _inputs(
    bundle: TextEmbedding | ImageEncoding, names: Sequence[str], column: str, label: str | None
) -> tuple[Texts, str]:
    """The texts, or the paths of the images; and "texts", "images" or "inputs" (either)."""
    if isinstance(bundle, ImageTextEncoding):
        return gather_either(names, column, label), "inputs"
    if isinstance(bundle, ImageEncoding):
        return gather_images(names, label), "images"
    return gather(names, column, label), "texts"


def _write_files(
    flags: EmbedFlags,
    vectors: Float[Tensor, "N D"],
    inputs: Texts,
    unit: str,
    run: str,
) -> None:
    """Write the files of --output and --plot. unit: the word for the inputs."""
    output, plot = flags.output, flags.plot
    if plot is not None:
        draw(plot, vectors, inputs, f"{len(inputs.texts):,} {unit}, {run}")
        say(f"drawn     {plot}")
    if output is not None:
        write(output, inputs, vectors.numpy())
        shape = f"{len(vectors):,} {unit}, vectors of width {vectors.shape[1]}"
        say(f"written   {output}: {shape}")
        if unit != "images":
            say(f'next      {program()} similar {run} "..." {output}')


def _vectors(
    bundle: TextEmbedding | ImageEncoding,
    texts: Sequence[str],
    machine: Machine,
    flags: EmbedFlags,
) -> Float[Tensor, "N D"]:
    """The vectors of texts, or of images by path."""
    pooling, normalise = flags.pooling, not flags.raw
    if isinstance(bundle, ImageTextEncoding) and pooling is None and normalise:
        with machine.precision():
            return either_vectors(bundle, texts)
    if isinstance(bundle, ImageEncoding):
        with machine.precision():
            return bundle.embed(texts, pooling=pooling, normalise=normalise).cpu()
    return vectors_of(bundle, texts, machine, pooling, normalise=normalise, prompt=flags.prompt)


def gather_either(names: Sequence[str], column: str, label: str | None = None) -> Texts:
    """The paths of the images among image files and folders, or texts and the contents of files."""
    if not names or not all(map(names_images, names)):
        return _with_images(names, column, label)
    return gather_images(names, label)


def _with_images(names: Sequence[str], column: str, label: str | None) -> Texts:
    """Texts, and among them the paths of images, without labels."""
    images = [name for name in names if names_images(name)]
    others = [name for name in names if name not in images]
    if not images:
        return gather(others, column, label)
    if label is not None:
        raise UsageError("--label: images and texts together have no labels")
    return Texts([*gather_images(images, None).texts, *gather(others, column).texts], None)


def either_vectors(bundle: ImageTextEncoding, values: Sequence[str]) -> Float[Tensor, "N D"]:
    """The vectors of image files and of texts, in order."""
    is_image = [names_images(value) for value in values]
    vectors = torch.zeros(len(values), bundle.width)
    for chosen, encode in ((True, bundle.embed), (False, bundle.embed_texts)):
        rows = [i for i, image in enumerate(is_image) if image is chosen]
        if rows:
            vectors[rows] = encode([values[i] for i in rows]).cpu()
    return vectors


def check_prompt(bundle: TextEmbedding | ImageEncoding, name: str | None) -> None:
    """UsageError if the model does not have the prompt of --prompt."""
    prompts = {} if isinstance(bundle, ImageEncoding) else bundle.prompts
    if name is not None and name not in prompts:
        known = ", ".join(prompts) or "none"
        raise UsageError(f"--prompt {name}: the model has no such prompt; its prompts are: {known}")


def _check_paths(flags: EmbedFlags) -> None:
    """Check the paths before anything is computed: known file endings, and no existing files."""
    for flag, path, endings in (("output", flags.output, OUTPUTS), ("plot", flags.plot, PICTURES)):
        if path is None:
            continue
        if path.suffix not in endings:
            raise UsageError(f"--{flag} {path}: must end in {' or '.join(endings)}")
        check_new_file(path)


def _check_texts(texts: Sequence[str], unit: str, output: Path | None, plot: Path | None) -> None:
    """UsageError if the inputs cannot be plotted or saved. unit: "texts" or "images"."""
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
    """The vectors of texts, with the progress if there are many."""
    parts = []
    truncated = Truncated(bundle.length)
    with machine.precision(), progress("embedding") as report:
        for start in range(0, len(texts), CHUNK):
            chunk = texts[start : start + CHUNK]
            vectors = bundle.embed(chunk, pooling=pooling, normalise=normalise, prompt=prompt)
            parts.append(vectors.cpu())
            truncated.add(bundle.lengths(chunk, prompt))
            report(min(1.0, (start + CHUNK) / len(texts)))
    truncated.report()
    return torch.cat(parts)


def draw(path: Path, vectors: Float[Tensor, "N D"], inputs: Texts, title: str) -> None:
    """Draw the first two principal components; up to 40 points show the start of their texts."""
    points = [(x, y) for x, y in principal_components(vectors).tolist()]
    named = len(points) <= NAMED
    names = [_short(text) if named else "" for text in inputs.texts]
    scatter(path, points, names, title=title, groups=inputs.labels)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LETTERS else flat[: LETTERS - 1] + "…"


def write(path: Path, inputs: Texts, vectors: Rows) -> None:
    """Write texts, labels and vectors durably, in the format of the file ending."""
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
