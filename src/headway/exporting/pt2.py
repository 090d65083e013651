"""AOTInductor packages (`.pt2`): graphs that are compiled for the processor of this machine.

A package needs torch and no code of Headway: the folder has a loader in Python and one in C++. The
other files are those of an ONNX folder.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.files import write_file
from headway.base.shapes import Tensor
from headway.bundle import Bundle
from headway.exporting.described import (
    compare_files,
    describe,
    graphs_lack,
    open_graphs,
    plain_copy,
)
from headway.exporting.families import graphs_of
from headway.exporting.graphs import Graph
from headway.exporting.methods_by_graphs import Sessions
from headway.exporting.onnx.writing import quietly, traced_inputs
from headway.exporting.pt2_loaders import CPP_FILE, PACKAGE, PYTHON_FILE, cpp_loader, python_loader
from headway.exporting.target import Progress, Running, Runtimes, Target
from headway.exporting.without_weights import Session

COMPILERS = ("g++", "clang++")


def _lacks(bundle: Bundle, family: str | None) -> list[str]:
    reasons = graphs_lack(bundle.model)
    if not reasons and not any(map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))):
        raise UsageError(
            "an AOTInductor package is compiled by a C++ compiler, and none is installed",
            hint=f"install one of {', '.join(COMPILERS)}, or set CXX; --to onnx needs none",
        )
    return reasons


def _write(bundle: Any, folder: Path, family: str | None, progress: Progress) -> str:
    """Write the description of the model, the packages and their loaders."""
    graphs = graphs_of(plain_copy(bundle.model))
    architecture = describe(bundle, folder)
    for number, graph in enumerate(graphs):
        progress(number / (len(graphs) + 1))
        _compile(graph, folder / f"{graph.name}{PACKAGE}")
    progress(len(graphs) / (len(graphs) + 1))
    for name, loader in ((PYTHON_FILE, python_loader), (CPP_FILE, cpp_loader)):
        write_file(folder / name, loader(graphs, _start(bundle)).encode())
    return architecture


def _start(bundle: Any) -> int:
    """Return the first token of a target, for a model that has one."""
    target = getattr(getattr(bundle, "tokenizer", None), "target", None)
    if target is not None:
        return int(target.bos)
    first = getattr(getattr(bundle, "reader", None), "first", None)
    return 0 if first is None else int(first(None))


def _compile(graph: Graph, path: Path) -> None:
    """Trace a graph with free sizes and compile it. HeadwayError if torch cannot."""
    inputs, free = traced_inputs(graph)
    with quietly():
        try:
            program = torch.export.export(graph.module, inputs, dynamic_shapes=free, strict=False)
            torch._inductor.aoti_compile_and_package(program, package_path=str(path))
        except Exception as error:  # of the tracer, of Inductor or of the compiler
            reason = " ".join(str(error).split())[:300]
            raise HeadwayError(
                f"torch cannot compile the model: {reason}", str(path), "use --to onnx"
            ) from error


def _run(bundle: Bundle, folder: Path) -> Runtimes:
    """Yield the folder as its packages compute it."""
    yield Running(runtime(), open_pt2(folder))


def runtime() -> str:
    """Return the name and the version of what runs the packages."""
    return f"AOTInductor of torch {torch.__version__}"


def open_pt2(folder: Path) -> Bundle:
    """Return the bundle of an exported folder, whose network its packages compute.

    Raises DataError if a package is missing or damaged.
    """

    def load(graphs: Sequence[Graph]) -> Sessions:
        return {graph.name: _session(graph, folder / f"{graph.name}{PACKAGE}") for graph in graphs}

    return open_graphs(folder, load)


def _session(graph: Graph, path: Path) -> Session:
    if not path.is_file():
        raise DataError("the package is missing", str(path))
    try:
        model = torch._inductor.aoti_load_package(str(path))
    except RuntimeError as error:
        raise DataError(f"torch cannot load the package: {str(error)[:300]}", str(path)) from error

    def run(inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        values = graph.arguments([inputs[one.name].contiguous() for one in graph.inputs])
        return dict(zip(graph.outputs, model(*values), strict=True))

    return run


PT2 = Target(
    name="as an AOTInductor package",
    lacks=_lacks,
    write=_write,
    run=_run,
    compare_files=compare_files,
    weights=lambda folder: sorted(folder.glob(f"*{PACKAGE}")),
    call=lambda folder, _: f"python {folder / PYTHON_FILE}",
)
"""Packages for torch without Headway. Outputs must agree to `verified.TOLERANCE`."""
