"""Writes a model as a folder of ONNX files, runs it there, and only then gives it its name.

The folder has what transformers.js and Optimum read: config.json, tokenizer.json and the like, and
the graphs in `onnx/`. In `headway/` is what Headway knows of the model, without the weights: by it
`headway eval` runs the task of the model on the graphs.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from torch import nn

from headway.base.errors import DataError
from headway.bundle import Bundle
from headway.exporting.described import (
    OURS,
    compare_files,
    describe,
    graphs_lack,
    open_graphs,
    plain_copy,
)
from headway.exporting.families import graphs_of
from headway.exporting.graphs import Graph
from headway.exporting.methods_by_graphs import Sessions
from headway.exporting.onnx.running import RUNTIMES, missing
from headway.exporting.onnx.writing import SUFFIXES, convert, write_graph
from headway.exporting.target import Progress, Running, Runtimes, Target

GRAPHS_FOLDER = "onnx"
FIRST = "onnxruntime"
"""The runtime that every export needs, and that computes the scores."""


def lacks(bundle: Bundle, family: str | None) -> list[str]:
    """Return why a model has no graph. Raises UsageError if onnxruntime is not installed."""
    reasons = graphs_lack(bundle.model)
    if not reasons and not RUNTIMES[FIRST].is_installed:
        raise missing(FIRST)
    return reasons


def write(
    bundle: Bundle,
    folder: Path,
    family: str | None,
    progress: Progress,
    graphs: Callable[[nn.Module], list[Graph]] = graphs_of,
) -> str:
    """Write the description of the model and its graphs; return the class in transformers.

    graphs: returns those of a model.
    """
    parts = graphs(plain_copy(bundle.model))
    architecture = describe(bundle, folder)
    files = folder / GRAPHS_FOLDER
    files.mkdir()
    for number, graph in enumerate(parts):
        progress(number / (len(parts) + 1))
        write_graph(graph, files / f"{graph.name}.onnx")
    progress(len(parts) / (len(parts) + 1))
    return architecture


def _run(bundle: Bundle, folder: Path) -> Runtimes:
    """Yield the folder as each installed runtime computes it."""
    for name, runtime in RUNTIMES.items():
        if runtime.is_installed:
            yield Running(runtime.version, open_export(folder, name))


def graph_of(path: Path) -> str:
    """Return the name of the graph in a file."""
    for suffix in SUFFIXES.values():
        if suffix and path.stem.endswith(suffix):
            return path.stem.removesuffix(suffix)
    return path.stem


def dtype_of(folder: Path) -> str:
    """Return the numbers of the graphs of an exported folder."""
    names = [path.stem for path in graph_files(folder)]
    for dtype, suffix in SUFFIXES.items():
        if suffix and names and names[0].endswith(suffix):
            return dtype
    return "float32"


def _convert(bundle: Bundle, folder: Path, dtype: str) -> None:
    """Replace the float32 files by files of other numbers."""
    for plain in graph_files(folder):
        convert(plain, dtype, plain.with_stem(plain.stem + SUFFIXES[dtype]))
        plain.unlink()


def graph_files(folder: Path) -> list[Path]:
    """Return the files of the graphs of an exported folder."""
    return sorted((folder / GRAPHS_FOLDER).glob("*.onnx"))


def is_export(path: Path) -> bool:
    """Return whether a path is a folder that was written, or a file in its graphs."""
    return (folder_of(path) / GRAPHS_FOLDER).is_dir() and (folder_of(path) / OURS).is_dir()


def folder_of(path: Path) -> Path:
    """Return the exported folder for itself or for one of its graphs."""
    return path.parent.parent if path.suffix == ".onnx" else path


def open_export(path: Path, runtime: str = FIRST) -> Bundle:
    """Return the bundle of an exported folder, whose network a runtime computes.

    Raises DataError if a graph is missing or damaged.
    """
    folder = folder_of(path)

    def load(graphs: Sequence[Graph]) -> Sessions:
        files = {graph_of(file): file for file in graph_files(folder)}
        if absent := sorted({graph.name for graph in graphs} - files.keys()):
            raise DataError(f"the graph {absent[0]} is missing", str(folder / GRAPHS_FOLDER))
        return {name: RUNTIMES[runtime].session(file) for name, file in files.items()}

    return open_graphs(folder, load)


ONNX = Target(
    name="as an ONNX graph",
    dtypes=(*SUFFIXES,),
    lacks=lacks,
    write=write,
    run=_run,
    compare_files=compare_files,
    convert=_convert,
    weights=graph_files,
    call=lambda folder, _: f"onnxruntime.InferenceSession({str(graph_files(folder)[0])!r})",
)
"""ONNX graphs. Outputs must agree to `TOLERANCE`."""
