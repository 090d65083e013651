"""Writes a model as a folder of ONNX files, runs it there, and only then gives it its name.

The folder has what transformers.js and Optimum read: config.json, tokenizer.json and the like, and
the graphs in `onnx/`. In `headway/` is what Headway knows of the model, without the weights: by it
`headway eval` runs the task of the model on the graphs.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from torch import nn

from headway.base.errors import DataError, UsageError
from headway.base.files import read_json
from headway.base.folders import MANIFEST, new_folder
from headway.bundle import Bundle
from headway.bundle.files import CONFIG_FILE, WEIGHTS_FILE, read_config_file
from headway.exporting.onnx.graphs import GRAPHS, Graph, graphs_of
from headway.exporting.onnx.running import RUNTIMES, Runtime, missing
from headway.exporting.onnx.stand_ins import stand_in
from headway.exporting.onnx.writing import SUFFIXES, convert, write_graph
from headway.exporting.verified import (
    Comparison,
    Measured,
    check_scores,
    check_special_tokens,
    compare_models,
    compare_readers,
    measure,
)
from headway.models import Bert
from headway.models.contracts import set_parameters, shapes_only
from headway.models.registry import MODELS
from headway.tasks.opening import family_and_config, spec_of
from headway.transforms.quantize import float32_copy

GRAPHS_FOLDER, OURS = "onnx", "headway"
FIRST = "onnxruntime"
"""The runtime that every export needs, and that computes the scores."""


@dataclass(frozen=True, kw_only=True)
class ExportedONNX:
    """The result of an export.

    folder: where it is. files: the graphs. dtype: the numbers of the matrices. size: of the graphs,
    in bytes. architecture: the class in transformers whose files are beside the graphs, or why
    there is none. difference: name and version of each runtime -> maximum absolute difference of
    the outputs in float32. rounding: the same for the numbers that were written, in onnxruntime.
    tokens: number of greedy tokens that were compared. texts: number of texts with equal ids.
    here, there: the scores of the model, and of the exported one in onnxruntime.
    """

    folder: Path
    files: Sequence[str]
    dtype: str
    size: int
    architecture: str
    difference: dict[str, float]
    rounding: float
    tokens: int
    texts: int
    here: Measured
    there: Measured


def lacks(model: nn.Module) -> list[str]:
    """Return why a model has no ONNX graph; empty if it may have one."""
    config: Any = model.config
    if type(model) not in GRAPHS:
        return [f"family {config.family}: no runtime has a graph for it"]
    parts = [getattr(config, name) for name in ("gpt", "bert", "vit") if hasattr(config, name)]
    reasons = []
    for part in parts or [config]:
        if getattr(part, "attention", "").startswith("linear"):
            reasons.append(
                f"attention={part.attention} (a loop over chunks, as many as the text needs)"
            )
        for side in ("encoder", "decoder"):
            if getattr(part, side, "") == "rnn":
                reasons.append(f"{side}=rnn (a loop over the tokens)")
    return reasons


def export_onnx(
    bundle: Bundle,
    folder: str | Path,
    dtype: str = "float32",
    run: Path | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
    graphs: Callable[[nn.Module], list[Graph]] = graphs_of,
) -> ExportedONNX:
    """Write a model as ONNX into a new folder, and verify it; on any error no folder is left.

    The graphs are first written in float32. In onnxruntime, and in OpenVINO if it is installed,
    their outputs for sizes that were not traced must be those of the model to 1e-5, and so must
    32 tokens that are written greedily; the tokenizer in the folder must give the same ids; and the
    score on the held-out data of `run` must be the same. dtype: a key of `SUFFIXES`; what it
    changes is measured. progress: called with the fraction that is done. graphs: returns those of
    a model. Raises UsageError for a model that cannot be represented, with the reasons, for a
    folder that exists and if a package is missing; HeadwayError if the verification fails.
    """
    folder = Path(folder)
    _check(bundle, dtype)
    parts, where = graphs(plain_copy(bundle.model)), str(folder)
    model: Any = float32_copy(bundle.model)
    with new_folder(folder) as temporary:
        architecture = _describe(bundle, temporary)
        files = temporary / GRAPHS_FOLDER
        files.mkdir()
        for number, graph in enumerate(parts):
            progress(number / (len(parts) + 1))
            write_graph(graph, files / f"{graph.name}.onnx")
        progress(len(parts) / (len(parts) + 1))
        found = {
            runtime.version: compare_models(model, _stand_in(model, files, runtime), where)
            for runtime in RUNTIMES.values()
            if runtime.is_installed
        }
        texts = _compare_folder(bundle, temporary, where)
        here, there = measure(bundle, run), measure(open_export(temporary), run)
        check_scores(here.scores, there.scores, where)
        first: Comparison = found[RUNTIMES[FIRST].version]
        rounding = first.difference
        if dtype != "float32":
            _convert(parts, files, dtype)
            written = _stand_in(model, files, RUNTIMES[FIRST])
            rounding = compare_models(model, written, where, tolerance=None).difference
            there = measure(open_export(temporary), run)
        names = sorted(path.name for path in files.iterdir())
        size = sum(path.stat().st_size for path in files.iterdir())
    return ExportedONNX(
        folder=folder,
        files=names,
        dtype=dtype,
        size=size,
        architecture=architecture,
        difference={name: one.difference for name, one in found.items()},
        rounding=rounding,
        tokens=first.tokens,
        texts=texts,
        here=here,
        there=there,
    )


def _check(bundle: Bundle, dtype: str) -> None:
    """Raise UsageError for a model or a dtype that cannot be exported, and a missing package."""
    if dtype not in SUFFIXES:
        raise UsageError(f"unknown dtype {dtype}", hint=f"one of: {', '.join(SUFFIXES)}")
    if reasons := lacks(bundle.model):
        raise UsageError(
            f"this model cannot be represented as an ONNX graph: {', '.join(reasons)}",
            hint="keep it as a Headway model, or train one with other settings",
        )
    if not RUNTIMES[FIRST].is_installed:
        raise missing(FIRST)


def plain_copy(model: Any) -> nn.Module:
    """Return a float32 copy of plain classes, without fast twins."""
    source = float32_copy(model)
    family = source.config.family
    with shapes_only():
        copy = MODELS.call(family, MODELS[family].make, nn.Module, deepcopy(source.config))
    values = {n: p.detach().float().cpu().clone() for n, p in source.named_parameters()}
    set_parameters(copy, values)
    return copy.eval()


def _describe(bundle: Bundle, folder: Path) -> str:
    """Write everything but the weights; return the class in transformers, or why there is none."""
    with TemporaryDirectory() as scratch:
        bundle.save(Path(scratch, OURS))
        without = shutil.ignore_patterns(WEIGHTS_FILE, MANIFEST)
        shutil.copytree(Path(scratch, OURS), folder / OURS, ignore=without)
        spec = spec_of(bundle.config.family)
        if spec is None or spec.export is None:
            return "none: transformers has no such model"
        try:
            exported = spec.export(bundle, Path(scratch, "hf"), None)
        except UsageError:
            return "none: transformers has no model with these settings (--to hf says why)"
        shutil.copytree(exported.folder, folder, ignore=without, dirs_exist_ok=True)
        return exported.architecture


def _stand_in(model: Any, files: Path, runtime: Runtime) -> nn.Module:
    """Return the model that a runtime computes from the graphs in a folder."""
    sessions = {graph_of(path): runtime.session(path) for path in sorted(files.glob("*.onnx"))}
    return stand_in(model.config.family, model.config, sessions)


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


def _convert(graphs: Sequence[Graph], files: Path, dtype: str) -> None:
    """Replace the float32 files by files of other numbers."""
    for graph in graphs:
        plain = files / f"{graph.name}.onnx"
        convert(plain, dtype, files / f"{graph.name}{SUFFIXES[dtype]}.onnx")
        plain.unlink()


def _compare_folder(bundle: Bundle, folder: Path, where: str) -> int:
    """Compare the files beside the graphs with the bundle; return the number of texts.

    Headway's description is read, and the files of transformers alone, if there are any.
    """
    reopened = open_export(folder)
    texts = compare_readers(bundle, reopened, where)
    if (folder / CONFIG_FILE).is_file():
        spec = spec_of(bundle.config.family)
        assert spec is not None and spec.foreign is not None
        contents = read_json(folder / CONFIG_FILE)
        assert isinstance(contents, dict)
        theirs = spec.foreign(reopened.model, folder, str(contents["model_type"]))
        texts += compare_readers(bundle, theirs, where)
        check_special_tokens(bundle, folder, where)
    return texts


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
    metadata = read_config_file(folder / OURS)
    spec, config = family_and_config(metadata, folder / OURS / CONFIG_FILE)
    family = str(metadata["family"])
    with shapes_only():
        model: Any = MODELS.call(family, MODELS[family].make, nn.Module, config)
    files = folder / GRAPHS_FOLDER
    written = {graph_of(file) for file in files.glob("*.onnx")}
    if absent := sorted({graph.name for graph in graphs_of(model)} - written):
        raise DataError(f"the graph {absent[0]} is missing", str(files))
    network = _stand_in(model, files, RUNTIMES[runtime])
    bundle: Any = spec.bundle.open(network, folder / OURS, metadata)
    if isinstance(network, Bert) and network.masked_lm_head is not None:
        bundle.pooled = _no_vectors
    opened: Bundle = bundle
    return opened


def _no_vectors(*inputs: object, **options: object) -> NoReturn:
    raise UsageError(
        "the graph of this encoder returns the logits of masked words, and no vectors of texts",
        hint="export an encoder that headway train embed trained",
    )
