"""Writes a model as a web page, runs the page's code, and only then gives the folder its name.

The folder has `index.html`, which is complete by itself, and what `--to onnx` writes, whose graphs
have the attention weights as further outputs: for transformers.js and `headway eval`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headway.base.errors import UsageError
from headway.base.files import check_new, write_file
from headway.base.folders import new_folder
from headway.bundle import Bundle
from headway.exporting.described import plain_copy
from headway.exporting.onnx.export import GRAPHS_FOLDER, export_onnx, graph_of
from headway.exporting.target import Exported, Progress
from headway.exporting.verified import TOLERANCE
from headway.exporting.web.attention import graphs_with_attention
from headway.exporting.web.description import describe, lacks
from headway.exporting.web.in_node import InNode, compare_in_node
from headway.exporting.web.packages import RUNTIME, find_packages, node
from headway.exporting.web.page import page

PAGE, LICENCES = "index.html", "licences.txt"


@dataclass(frozen=True, kw_only=True)
class ExportedWeb:
    """The result of an export. size: of the page, in bytes. onnx: of the graphs in it. in_node: the
    page's code against the model."""

    folder: Path
    size: int
    onnx: Exported
    in_node: InNode


def export_web(
    bundle: Bundle,
    folder: str | Path,
    dtype: str = "float32",
    run: Path | None = None,
    progress: Progress = lambda fraction: None,
    *,
    runtime: Path | None = None,
    examples: Sequence[str] = (),
) -> ExportedWeb:
    """Write a model as a web page into a new folder, and verify it; on any error no folder is left.

    Besides what `export_onnx` verifies, Node runs the code of the page: ids and texts must be those
    of the tokenizer, logits and attention weights those of the model to 1e-5 (in float32), and the
    tokens that it writes greedily the most probable ones. runtime: the folder with the packages
    that compute in the page (`packages.FILES`). examples: inputs that the page offers; it answers
    the first one when it is opened. Raises UsageError for a model that cannot become a page, with
    the reasons, for a folder that exists and if a package is missing; HeadwayError if the
    verification fails.
    """
    folder = Path(folder)
    check_new(folder)
    if reasons := lacks(bundle):
        raise UsageError(
            f"this model cannot become a web page: {', '.join(reasons)}",
            hint="--to onnx writes a folder for your own program with transformers.js",
        )
    packages = find_packages(runtime)
    node()
    with TemporaryDirectory() as scratch, new_folder(folder) as temporary:
        model = plain_copy(bundle.model)
        graphs = graphs_with_attention(plain_copy(bundle.model))
        description = describe(bundle, graphs, _title(run, bundle), examples)
        description["facts"]["computed by"] = packages[RUNTIME].version
        exported = export_onnx(
            bundle, Path(scratch, "onnx"), dtype, run, progress, graphs=graphs_with_attention
        )
        shutil.copytree(exported.folder, temporary, dirs_exist_ok=True)
        files = {graph_of(path): path for path in sorted((temporary / GRAPHS_FOLDER).iterdir())}
        tolerance = TOLERANCE if dtype == "float32" else None
        in_node = compare_in_node(
            bundle, model, description, files, packages, str(folder), tolerance
        )
        contents = {name: path.read_bytes() for name, path in files.items()}
        written = page(packages, description, contents)
        write_file(temporary / PAGE, written)
        licences = "\n\n".join(package.licence for package in packages.values())
        write_file(temporary / LICENCES, licences.encode())
    return ExportedWeb(folder=folder, size=len(written), onnx=exported, in_node=in_node)


def _title(run: Path | None, bundle: Any) -> str:
    return bundle.kind if run is None else run.resolve().name
