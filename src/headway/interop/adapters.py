"""Read adapters of PEFT (LoRA) and merge them into the weights of their base model.

A folder has adapter_config.json and adapter_model.safetensors, and the base model beside them or in
the folder that `base_model_name_or_path` names. Hu et al. 2021; Kalajdzievski 2023 (rsLoRA).
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.base.shapes import Tensor
from headway.base.tensors import read_tensors
from headway.interop.hf_config import HFConfig
from headway.interop.ignored_keys import ADAPTER

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
BASE = "base_model_name_or_path"
_PREFIX = "base_model.model."
_MATRICES = ("lora_A.weight", "lora_B.weight")
_EMBEDDINGS = ("lora_embedding_A", "lora_embedding_B")
_SAVED = ".modules_to_save"
CONV1D = ("gpt2", "openai-gpt")


@dataclass(frozen=True)
class Adapter:
    """An adapter and its base model. folder: of the adapter. base: of the base model."""

    folder: Path
    base: Path


def find_adapter(folder: Path) -> Adapter | None:
    """Return the adapter in a folder; None if there is none.

    Raises DataError if its base model is neither beside it nor in a folder on this disk.
    """
    path = folder / CONFIG_FILE
    if not path.is_file():
        return None
    if (folder / "config.json").is_file():
        return Adapter(folder, folder)
    name = HFConfig.load(path).values.get(BASE)
    bases = [] if not isinstance(name, str) or not name else [Path(name), folder / name]
    for base in bases:
        if (base / "config.json").is_file():
            return Adapter(folder, base)
    raise DataError(
        f"this folder holds an adapter without its base model, and {BASE}={name!r} is no folder "
        "with a config.json on this disk",
        str(path),
        f"download the base model, and write the path of its folder to {BASE}",
    )


def merged(tensors: Mapping[str, Tensor], adapter: Path, model_type: str) -> dict[str, Tensor]:
    """Return the tensors of a base model with the adapter in a folder merged into them.

        W + scale B A,  scale = alpha / r, or alpha / sqrt(r) for rsLoRA

    Biases and modules that were trained as a whole replace those of the base model. model_type: of
    the base model; the matrices of GPT-1 and GPT-2 are stored transposed. Raises DataError for an
    adapter of another kind, and for a tensor that belongs to no layer of the model.
    """
    config = HFConfig.load(adapter / CONFIG_FILE)
    kind = str(config.values.get("peft_type", "LORA")).upper()
    if kind != "LORA":
        raise config.refusal("peft_type", kind, "LORA; other adapters cannot be merged")
    path = adapter / WEIGHTS_FILE
    if not path.exists():
        raise DataError(
            f"there is no {WEIGHTS_FILE}",
            str(adapter),
            "save the adapter as safetensors: Headway never reads a pickle",
        )
    changes = _Changes(config, tensors, str(path), model_type in CONV1D)
    config.check_all_read(ADAPTER)
    changes.apply(read_tensors(path))
    return changes.tensors


class _Changes:
    """The tensors of the base model, while the adapter is merged into them."""

    def __init__(
        self, config: HFConfig, tensors: Mapping[str, Tensor], where: str, is_transposed: bool
    ) -> None:
        self.tensors, self.where, self.is_transposed = dict(tensors), where, is_transposed
        self.rank, self.alpha = config.whole("r", 8), config.number("lora_alpha", 8.0)
        self.is_rank_stabilised = config.flag("use_rslora", False)
        self.ranks, self.alphas = (
            _pattern(config, key) for key in ("rank_pattern", "alpha_pattern")
        )
        config.values.get(BASE)  # read by `find_adapter`

    def apply(self, changes: Mapping[str, Tensor]) -> None:
        pairs: dict[str, dict[str, Tensor]] = {}
        for key, tensor in changes.items():
            name = key.removeprefix(_PREFIX)
            name = name.replace(".default.weight", ".weight").removesuffix(".default")
            name = name.replace(".base_layer.", ".")
            for ending in (*_MATRICES, *_EMBEDDINGS):
                if name.endswith(f".{ending}"):
                    layer = name.removesuffix(f".{ending}")
                    pairs.setdefault(layer, {})[ending] = tensor
                    break
            else:
                self._replace(name.replace(_SAVED, ""), tensor)
        for layer, pair in pairs.items():
            self._merge(layer, pair)

    def _replace(self, name: str, tensor: Tensor) -> None:
        target = self._known(name)
        if target.shape != tensor.shape:
            raise self._wrong(name, tensor, target)
        self.tensors[self._name(name)] = tensor.to(target.dtype)

    def _merge(self, layer: str, pair: Mapping[str, Tensor]) -> None:
        is_embedding = _EMBEDDINGS[0] in pair or _EMBEDDINGS[1] in pair
        names = _EMBEDDINGS if is_embedding else _MATRICES
        if set(pair) != set(names):
            raise DataError(f"{layer} has only one of the two matrices of LoRA", self.where)
        down, up = (pair[name].float() for name in names)
        if down.ndim != 2 or up.ndim != 2 or down.shape[0] != up.shape[1]:
            raise DataError(
                f"{layer}: the matrices of LoRA have shapes {tuple(down.shape)} and "
                f"{tuple(up.shape)}, which cannot be multiplied",
                self.where,
            )
        rank = int(_of_layer(self.ranks, layer, float(self.rank)))
        if rank != down.shape[0]:
            raise DataError(
                f"{layer} has rank {down.shape[0]}, but r={rank} in {CONFIG_FILE}", self.where
            )
        alpha = _of_layer(self.alphas, layer, self.alpha)
        scale = alpha / (math.sqrt(rank) if self.is_rank_stabilised else rank)
        change = up @ down * scale
        target = self._known(f"{layer}.weight")
        if is_embedding or self.is_transposed:
            change = change.T
        if change.shape != target.shape:
            raise self._wrong(layer, change, target)
        self.tensors[self._name(f"{layer}.weight")] = (target.float() + change).to(target.dtype)

    def _name(self, name: str) -> str:
        """Return the key in the base model, which may lack the prefix of a model with a head."""
        if name in self.tensors:
            return name
        shorter = name.partition(".")[2]
        longer = [key for key in self.tensors if key.endswith(f".{name}")]
        if shorter in self.tensors:
            return shorter
        return longer[0] if len(longer) == 1 else name

    def _known(self, name: str) -> Tensor:
        key = self._name(name)
        if key not in self.tensors:
            raise DataError(f"the adapter has {name}, which the base model lacks", self.where)
        return self.tensors[key]

    def _wrong(self, name: str, tensor: Tensor, target: Tensor) -> DataError:
        return DataError(
            f"the adapter changes {name} by shape {tuple(tensor.shape)}, but the base model has "
            f"{tuple(target.shape)}",
            self.where,
            "use the base model that the adapter was trained with",
        )


def _pattern(config: HFConfig, key: str) -> dict[str, float]:
    """Return the values of layers that differ from the others: a pattern of names -> value."""
    values = config.values.get(key, {})
    valid = isinstance(values, dict) and all(
        type(value) in (int, float) and value > 0 for value in values.values()
    )
    if not valid:
        raise config.refusal(key, values, "an object of patterns of names and numbers above 0")
    return {name: float(value) for name, value in values.items()}


def _of_layer(pattern: Mapping[str, float], layer: str, default: float) -> float:
    """Return the value of a layer: that of the first pattern that its name ends with."""
    for key, value in pattern.items():
        try:
            found = re.match(rf"(.*\.)?({key})$", layer)
        except re.error as error:
            raise UsageError(f"{key!r} is not a pattern of names: {error}") from error
        if found:
            return value
    return default
