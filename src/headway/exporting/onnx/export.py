"""Writes a model as a folder of ONNX files, runs it there, and only then gives it its name.

The folder has what transformers.js and Optimum read: config.json, tokenizer.json and the like, and
the graphs in `onnx/`. In `headway/` is what Headway knows of the model, without the weights: by it
`headway eval` runs the task of the model on the graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
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
from headway.exporting.onnx.running import RUNTIMES, missing
from headway.exporting.onnx.writing import SUFFIXES, convert, write_graph
from headway.exporting.stand_ins import Sessions
from headway.exporting.target import Exported, Progress, Running, Target, export

GRAPHS_FOLDER = "onnx"
FIRST = "onnxruntime"
"""The runtime that every export needs, and that computes the scores."""


def export_onnx(
    bundle: Bundle,
    folder: str | Path,
    dtype: str = "float32",
    run: Path | None = None,
    progress: Progress = lambda fraction: None,
    graphs: Callable[[nn.Module], list[Graph]] = graphs_of,
) -> Exported:
    """Export a model as ONNX, verified by onnxruntime, and by OpenVINO if it is installed.

    dtype: a key of `SUFFIXES`. graphs: returns those of a model. Raises what `export` raises.
    """
    target = replace(ONNX, write=partial(_write, graphs=graphs))
    return export(bundle, folder, target, dtype, run=run, progress=progress)


def _lacks(bundle: Bundle, family: str | None) -> list[str]:
    reasons = graphs_lack(bundle.model)
    if not reasons and not RUNTIMES[FIRST].is_installed:
        raise missing(FIRST)
    return reasons


def _write(
    bundle: Bundle,
    folder: Path,
    family: str | None,
    progress: Progress,
    graphs: Callable[[nn.Module], list[Graph]] = graphs_of,
) -> str:
    """Write the description of the model and its graphs; return the class in transformers."""
    parts = graphs(plain_copy(bundle.model))
    architecture = describe(bundle, folder)
    files = folder / GRAPHS_FOLDER
    files.mkdir()
    for number, graph in enumerate(parts):
        progress(number / (len(parts) + 1))
        write_graph(graph, files / f"{graph.name}.onnx")
    progress(len(parts) / (len(parts) + 1))
    return architecture


def _run(bundle: Bundle, folder: Path) -> Iterator[Running]:
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
    names = [path.stem for path in sorted((folder / GRAPHS_FOLDER).glob("*.onnx"))]
    for dtype, suffix in SUFFIXES.items():
        if suffix and names and names[0].endswith(suffix):
            return dtype
    return "float32"


def _convert(bundle: Bundle, folder: Path, dtype: str) -> None:
    """Replace the float32 files by files of other numbers."""
    for plain in _graph_files(folder):
        convert(plain, dtype, plain.with_stem(plain.stem + SUFFIXES[dtype]))
        plain.unlink()


def _graph_files(folder: Path) -> list[Path]:
    return sorted((folder / GRAPHS_FOLDER).glob("*.onnx"))


def is_export(path: Path) -> bool:
    """Return whether a path is a folder that `export_onnx` wrote, or a file in its graphs."""
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
        files = {graph_of(file): file for file in _graph_files(folder)}
        if absent := sorted({graph.name for graph in graphs} - files.keys()):
            raise DataError(f"the graph {absent[0]} is missing", str(folder / GRAPHS_FOLDER))
        return {name: RUNTIMES[runtime].session(file) for name, file in files.items()}

    return open_graphs(folder, load)


ONNX = Target(
    name="as an ONNX graph",
    dtypes=(*SUFFIXES,),
    lacks=_lacks,
    write=_write,
    run=_run,
    compare_files=compare_files,
    convert=_convert,
    weights=_graph_files,
    call=lambda folder, _: f"onnxruntime.InferenceSession({str(_graph_files(folder)[0])!r})",
)
"""ONNX graphs. Outputs must agree to `TOLERANCE`."""
