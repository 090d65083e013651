"""A folder with a page that computes a model: that of `onnx`, and `index.html`.

The page is complete by itself. The graphs have the attention weights as further outputs, and are
for transformers.js and `headway eval`, too.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from headway.base.files import write_file
from headway.bundle import Bundle
from headway.exporting.described import plain_copy
from headway.exporting.onnx import export as onnx
from headway.exporting.target import Target
from headway.exporting.web import description
from headway.exporting.web.attention import graphs_with_attention
from headway.exporting.web.in_node import compare_in_node
from headway.exporting.web.packages import RUNTIME, find_packages, node
from headway.exporting.web.page import page

PAGE, LICENCES = "index.html", "licences.txt"


def web_page(
    runtime: Path | None = None, examples: Sequence[str] = (), title: str | None = None
) -> Target:
    """Return the target of a page.

    Besides what is compared for ONNX, Node runs the code of the page: ids and texts must be those
    of the tokenizer, logits and attention weights those of the model to 1e-5 (in float32), and the
    tokens that it writes greedily the most probable ones.

    runtime: the folder with the packages that compute in the page (`packages.FILES`). examples:
    inputs that the page offers; it answers the first one when it is opened. title: None is the kind
    of the model.
    """

    def lacks(bundle: Bundle, family: str | None) -> list[str]:
        reasons = description.lacks(bundle) or onnx.lacks(bundle, family)
        if not reasons:
            find_packages(runtime)
            node()
        return reasons

    def finish(bundle: Any, folder: Path, where: str, tolerance: float | None) -> str:
        """Write the page of the graphs in a folder, and compare its code with the model in Node."""
        packages = find_packages(runtime)
        graphs = graphs_with_attention(plain_copy(bundle.model))
        described = description.describe(bundle, graphs, title or bundle.kind, examples)
        described["facts"]["computed by"] = packages[RUNTIME].version
        files = {onnx.graph_of(path): path for path in onnx.graph_files(folder)}
        model = plain_copy(bundle.model)
        found = compare_in_node(bundle, model, described, files, packages, where, tolerance)
        contents = {name: path.read_bytes() for name, path in files.items()}
        write_file(folder / PAGE, page(packages, described, contents))
        licences = "\n\n".join(package.licence for package in packages.values())
        write_file(folder / LICENCES, licences.encode())
        return (
            f"in {found.version} logits differ at most by {found.difference:.1e}, attention "
            f"weights by {found.of_attention:.1e}, {found.tokens} greedy tokens and {found.texts} "
            "texts are the same"
        )

    return replace(
        onnx.ONNX,
        name="as a web page",
        hint="--to onnx writes a folder for your own program with transformers.js",
        lacks=lacks,
        write=partial(onnx.write, graphs=graphs_with_attention),
        finish=finish,
        weights=lambda folder: [folder / PAGE],
        call=lambda folder, _: f"open {folder / PAGE} in a browser",
    )
