"""What is beside the graphs of an exported model: Headway's description, files of transformers."""

import shutil
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from torch import nn

from headway.base.errors import UsageError
from headway.base.folders import MANIFEST
from headway.bundle import Bundle
from headway.bundle.files import CONFIG_FILE, WEIGHTS_FILE, read_config_file
from headway.exporting.families import FAMILIES, computed_by, graphs_of
from headway.exporting.graphs import Graph
from headway.exporting.hugging_face import read_back
from headway.exporting.methods_by_graphs import Sessions
from headway.exporting.verified import check_special_tokens, compare_readers
from headway.models import Bert
from headway.models.contracts import set_parameters, shapes_only
from headway.models.registry import MODELS
from headway.tasks.opening import family_and_config, spec_of
from headway.transforms.quantize import float32_copy

OURS = "headway"
"""The folder with what Headway knows of the model, without the weights."""


def graphs_lack(model: nn.Module) -> list[str]:
    """Return why a model has no graph; empty if it may have one."""
    config: Any = model.config
    if type(model) not in FAMILIES or FAMILIES[type(model)].graphs is None:
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


def plain_copy(model: Any) -> nn.Module:
    """Return a float32 copy of plain classes, without fast twins."""
    source = float32_copy(model)
    family = source.config.family
    with shapes_only():
        copy = MODELS.call(family, MODELS[family].make, nn.Module, deepcopy(source.config))
    values = {n: p.detach().float().cpu().clone() for n, p in source.named_parameters()}
    set_parameters(copy, values)
    return copy.eval()


WEIGHTS = shutil.ignore_patterns(WEIGHTS_FILE, MANIFEST)


def describe_here(bundle: Bundle, folder: Path) -> None:
    """Write what Headway knows of the model, without the weights: `headway eval` reads it."""
    with TemporaryDirectory() as scratch:
        bundle.save(Path(scratch, OURS))
        shutil.copytree(Path(scratch, OURS), folder / OURS, ignore=WEIGHTS)


def open_described(folder: Path, network: Callable[[str, Any], Any]) -> Bundle:
    """Return the bundle that a folder describes. network: returns it, for family and config."""
    metadata = read_config_file(folder / OURS)
    spec, config = family_and_config(metadata, folder / OURS / CONFIG_FILE)
    opened: Bundle = spec.bundle.open(
        network(str(metadata["family"]), config), folder / OURS, metadata
    )
    return opened


def describe(bundle: Bundle, folder: Path) -> str:
    """Write everything but the weights; return the class in transformers, or why there is none."""
    describe_here(bundle, folder)
    with TemporaryDirectory() as scratch:
        spec = spec_of(bundle.config.family)
        if spec is None or spec.export is None:
            return "none: transformers has no such model"
        try:
            architecture = spec.export(bundle, Path(scratch, "hf"), None)
        except UsageError:
            return "none: transformers has no model with these settings (--to hf says why)"
        shutil.copytree(Path(scratch, "hf"), folder, ignore=WEIGHTS, dirs_exist_ok=True)
        return architecture


def compare_files(bundle: Bundle, reopened: Bundle, folder: Path, where: str) -> int:
    """Compare the files beside the graphs with the bundle; return the number of texts.

    Headway's description is read, and the files of transformers alone, if there are any.
    """
    texts = compare_readers(bundle, reopened, where)
    if (folder / CONFIG_FILE).is_file():
        texts += compare_readers(bundle, read_back(folder, reopened.model), where)
        check_special_tokens(bundle, folder, where)
    return texts


def open_graphs(folder: Path, load: Callable[[Sequence[Graph]], Sessions]) -> Bundle:
    """Return the bundle of an exported folder, whose network a runtime computes.

    load: returns the sessions of the graphs of the model.
    """

    def network(family: str, config: Any) -> Any:
        with shapes_only():
            model: Any = MODELS.call(family, MODELS[family].make, nn.Module, config)
        return computed_by(config, lambda _: load(graphs_of(model)))

    bundle: Any = open_described(folder, network)
    if isinstance(bundle.model, Bert) and bundle.model.masked_lm_head is not None:
        bundle.pooled = _no_vectors
    opened: Bundle = bundle
    return opened


def _no_vectors(*inputs: object, **options: object) -> NoReturn:
    raise UsageError(
        "the graph of this encoder returns the logits of masked words, and no vectors of texts",
        hint="export an encoder that headway train embed trained",
    )
