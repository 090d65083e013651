"""Read and write folders of sentence-transformers: the encoder, and the pooling of its vectors.
Reimers and Gurevych 2019."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from headway.base.errors import DataError, UsageError
from headway.base.files import json_bytes, read_json, write_file
from headway.base.shapes import Tensor
from headway.base.tensors import read_tensors, write_tensors
from headway.blocks import Dense, Pooling
from headway.interop.hf_config import LARGEST, HFConfig, Ignored
from headway.interop.ignored_keys import COSINE, POOLING, PROMPTS, SENTENCE_LENGTH
from headway.interop.named_tokens import CONFIG_FILE, read_json_object

FILE = "modules.json"
LENGTH_FILE = "sentence_bert_config.json"
LENGTH_FILES = (
    LENGTH_FILE,
    *(
        f"sentence_{family}_config.json"
        for family in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
    ),
)
"""Names of the file with the maximum length; sentence-transformers reads the first that exists."""
PACKAGE = "sentence_transformers."
FIRST = "0_Transformer"
POOLINGS: dict[str, Pooling] = {"mean": "mean", "cls": "first", "lasttoken": "last"}
LENGTH = "max_seq_length"
SHORTEST = 3  # tokens, of which two are special tokens
DENSE_FILE = "model.safetensors"  # in the folder of a layer after pooling
_TANH = "torch.nn.modules.activation.Tanh"
_FUNCTIONS: Mapping[str, str] = {_TANH: "tanh", "torch.nn.modules.linear.Identity": "none"}
_MODE = "pooling_mode_"
PROMPTS_FILE = "config_sentence_transformers.json"
_MODES = {"mean_tokens": "mean", "cls_token": "cls", "lasttoken": "lasttoken"}


@dataclass(frozen=True, kw_only=True)
class EmbeddedTexts:
    """What sentence-transformers does to texts and vectors besides encoding and pooling.

    lowers: whether texts are converted to lower case. prompts: texts by name, of which one precedes
    each text. prompt: the name of the one that is used if a user names none; None for none.
    pools_prompt: whether a mean contains the vectors of the prompt. dimensions: the number of
    leading components of a vector that are kept; None for all.
    """

    lowers: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    prompt: str | None = None
    pools_prompt: bool = True
    dimensions: int | None = None

    def prefix(self, name: str | None = None) -> str:
        """Return the prompt of a name, or the one that is used without a name; "" for none.

        Raises UsageError for an unknown name.
        """
        if name is None and self.prompt is None:
            return ""
        if name is not None and name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise UsageError(f"the model has no prompt {name!r}; its prompts are: {known}")
        return self.prompts[str(self.prompt if name is None else name)]

    def prepared(self, text: str, prefix: str) -> str:
        """Return a text as it is encoded, after the prompt `prefix`."""
        text = prefix + text
        return text.lower() if self.lowers else text


AS_THEY_ARE = EmbeddedTexts()


@dataclass(frozen=True)
class SentenceFolder:
    """The parts of a sentence-transformers folder.

    encoder: the folder of the Transformer. pooling: reduces its vectors to one per text. length:
    maximum number of tokens of a text, special tokens included; None if not specified. texts: how a
    text is changed before it is encoded, and its vector after. dense: layers after pooling.
    """

    encoder: Path
    pooling: Pooling = "mean"
    length: int | None = None
    texts: EmbeddedTexts = AS_THEY_ARE
    dense: tuple[Dense, ...] = ()


def modules_file(folder: Path) -> Path | None:
    """Return the modules.json of a folder, or of its parent if the folder is 0_Transformer; None if
    it is no folder of sentence-transformers."""
    if folder.name == FIRST and (folder.parent / FILE).is_file():
        folder = folder.parent
    path = folder / FILE
    return path if path.is_file() else None


def read_sentence_folder(folder: Path) -> SentenceFolder:
    """Read modules.json of a folder, or of its parent if the folder is 0_Transformer. A folder
    without modules.json is an encoder alone.

    Raises DataError for a module or a pooling that is not supported.
    """
    path = modules_file(folder)
    if path is None:
        return SentenceFolder(folder)
    folder = path.parent
    modules = read_json(path)
    if not isinstance(modules, list) or not all(isinstance(item, dict) for item in modules):
        raise DataError("must be a list of modules (JSON objects)", str(path))
    encoder, pooling, pools_prompt = folder, POOLINGS["mean"], True
    poolings: list[HFConfig] = []
    dense: list[Dense] = []
    is_normalised = False
    for number, module in enumerate(modules):
        name = str(module.get("type"))
        # a class of the folder's own code may have the name of one of sentence-transformers
        kind = name.rpartition(".")[2] if name.startswith(PACKAGE) else name
        if kind == "Transformer" and number == 0:
            encoder = _inside(folder, module, path)
        elif kind == "Pooling":
            poolings.append(HFConfig.load(_inside(folder, module, path) / "config.json"))
            pooling, pools_prompt = _pooling(poolings[-1])
        elif kind == "Dense" and poolings and not is_normalised:
            dense.append(_dense(_inside(folder, module, path)))
        elif kind == "Normalize":
            is_normalised = True
        else:
            raise DataError(
                f"module {number} is {kind!r}, which is not supported at this position",
                str(path),
                "supported are Transformer (first), Pooling, Dense and Normalize in this order; "
                "remove the file to use the encoder alone",
            )
    for config in poolings:
        modes = {key: Ignored("it is one of the modes") for key in config.values if _MODE in key}
        config.check_all_read({**POOLING, **modes})
    length, lowers = _length(encoder)
    texts = replace(_prompts(folder / PROMPTS_FILE), lowers=lowers, pools_prompt=pools_prompt)
    return SentenceFolder(encoder, pooling, length, texts, tuple(dense))


def write_sentence_folder(folder: Path, width: int, how: SentenceFolder) -> None:
    """Add the files to an encoder's folder with which sentence-transformers computes the same
    vectors, normalised to length 1.

    width: dimension of the vectors. how: pooling and maximum length (its `encoder` is not used).
    """
    kinds = ("Transformer", "Pooling", *("Dense" for _ in how.dense), "Normalize")
    names = ("", *(f"{number}_{kind}" for number, kind in enumerate(kinds[1:], start=1)))
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    pooling: dict[str, object] = {"word_embedding_dimension": width}
    for mode, name in _MODES.items():
        pooling[_MODE + mode] = POOLINGS[name] == how.pooling
    pooling["include_prompt"] = how.texts.pools_prompt
    (folder / names[1]).mkdir()
    write_file(folder / names[1] / "config.json", json_bytes(pooling))
    for number, layer in enumerate(how.dense, start=2):
        _write_dense(layer, folder / names[number])
    write_file(
        folder / LENGTH_FILE, json_bytes({LENGTH: how.length, "do_lower_case": how.texts.lowers})
    )
    prompts = {
        "prompts": dict(how.texts.prompts),
        "default_prompt_name": how.texts.prompt,
        "similarity_fn_name": COSINE,
        "truncate_dim": how.texts.dimensions,
    }
    write_file(folder / PROMPTS_FILE, json_bytes(prompts))
    write_file(folder / FILE, json_bytes(modules))


def _dense(folder: Path) -> Dense:
    """Read a layer after pooling. Raises DataError for tensors that do not fit its config.json."""
    config = HFConfig.load(folder / "config.json")
    for key in ("module_input_name", "module_output_name"):
        config.must_be(key, "sentence_embedding")
    path = folder / DENSE_FILE
    if not path.is_file():
        raise DataError(f"the file {DENSE_FILE} is missing", str(folder), "save it as safetensors")
    activation = config.choice("activation_function", _FUNCTIONS, _TANH)
    layer = dense_of(read_tensors(path), "linear.", activation, str(path))
    config.must_be("in_features", layer.project.in_features)
    config.must_be("out_features", layer.project.out_features)
    config.must_be("bias", layer.project.bias is not None)
    config.check_all_read({})
    return layer


def dense_of(tensors: Mapping[str, Tensor], prefix: str, activation: str, where: str) -> Dense:
    """Return the layer after pooling whose tensors have names with a prefix.

    activation: "tanh" or "none". where: the file, for errors. Raises DataError for tensors that are
    no matrix and bias.
    """
    weight, bias = tensors.get(f"{prefix}weight"), tensors.get(f"{prefix}bias")
    rows = None if weight is None or weight.dim() != 2 else weight.shape[:1]
    if weight is None or rows is None or (bias is not None and bias.shape != rows):
        raise DataError(
            f"{prefix}weight must be a matrix, and {prefix}bias, if there is one, must have one "
            "number for each of its rows",
            where,
        )
    kind: Literal["tanh", "none"] = "tanh" if activation == "tanh" else "none"
    with torch.device("meta"):
        layer = Dense(weight.shape[1], weight.shape[0], kind, bias is not None)
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None:
            layer.project.register_parameter(name, nn.Parameter(tensor.float(), False))
    return layer


def _write_dense(layer: Dense, folder: Path) -> None:
    """Write a layer after pooling as sentence-transformers reads it."""
    project = layer.project
    names = {ours: theirs for theirs, ours in _FUNCTIONS.items()}
    config: dict[str, object] = {
        "in_features": project.in_features,
        "out_features": project.out_features,
        "bias": project.bias is not None,
        "activation_function": names[layer.activation],
    }
    folder.mkdir()
    write_file(folder / "config.json", json_bytes(config))
    tensors = {f"linear.{name}": value.detach() for name, value in project.named_parameters()}
    write_tensors(folder / DENSE_FILE, tensors)


def _inside(folder: Path, module: dict[str, object], path: Path) -> Path:
    """Return the folder of a module: `folder` or a folder in it."""
    name = module.get("path")
    if not isinstance(name, str) or name in (".", "..") or "/" in name or "\\" in name:
        raise DataError(
            f"path {name!r}: must be the name of a folder in the same folder", str(path)
        )
    return folder / name


def _pooling(config: HFConfig) -> tuple[Pooling, bool]:
    """Return the pooling, and whether it contains a prompt."""
    mode = config.values.get("pooling_mode")  # its name, in later versions
    if mode is None:
        keys = [key for key, value in config.values.items() if key.startswith(_MODE) and value]
        names = [key.removeprefix(_MODE) for key in keys]
        mode = "+".join(_MODES.get(name, name) for name in names) or "mean"
    if mode not in POOLINGS:
        known = ", ".join(POOLINGS)
        raise DataError(
            f"pooling {mode!r} is not supported", config.where, f"supported are {known}"
        )
    return POOLINGS[mode], config.flag("include_prompt", True)


def _prompts(path: Path) -> EmbeddedTexts:
    """Read config_sentence_transformers.json: prompts, and the number of components."""
    if not path.is_file():
        return AS_THEY_ARE
    config = HFConfig.load(path)
    texts = _texts(config, "default_prompt_name", "truncate_dim")
    config.check_all_read(PROMPTS)
    return texts


def read_embedded_texts(values: object, where: str) -> EmbeddedTexts:
    """Read `EmbeddedTexts` from the config.json of a saved model, which `where` names."""
    config = HFConfig(values if isinstance(values, dict) else {"texts": values}, where)
    texts = _texts(config, "prompt", "dimensions")
    lowers, pools_prompt = config.flag("lowers", False), config.flag("pools_prompt", True)
    config.check_all_read({})
    return replace(texts, lowers=lowers, pools_prompt=pools_prompt)


def _texts(config: HFConfig, prompt: str, dimensions: str) -> EmbeddedTexts:
    """Read prompts and the number of components. prompt, dimensions: the names of their keys."""
    prompts = config.values.get("prompts", {})
    texts = prompts.values() if isinstance(prompts, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise config.refusal("prompts", prompts, "an object of names and texts")
    name = config.values.get(prompt)
    if name is not None and name not in list(prompts):
        raise config.refusal(prompt, name, "the name of one of the prompts")
    size = config.whole(dimensions) if dimensions in config.values else None
    return EmbeddedTexts(prompts=prompts, prompt=name, dimensions=size)


def _length(encoder: Path) -> tuple[int | None, bool]:
    """Return the maximum length, and whether texts are converted to lower case.

    The length is that of sentence-transformers' file, or else that of the tokenizer.
    """
    found = (encoder / name for name in LENGTH_FILES if (encoder / name).is_file())
    path = next(found, None)
    config = HFConfig({}, str(encoder / LENGTH_FILE)) if path is None else HFConfig.load(path)
    lowers = config.flag("do_lower_case", False)
    config.check_all_read({**SENTENCE_LENGTH, LENGTH: Ignored("it is read below")})
    if LENGTH not in config.values:
        return _length_of_tokenizer(encoder / CONFIG_FILE), lowers
    length = config.whole(LENGTH)
    if length < SHORTEST:
        raise config.refusal(LENGTH, length, f"{SHORTEST} or more, two of which are special tokens")
    return length, lowers


def _length_of_tokenizer(path: Path) -> int | None:
    """Return the maximum length in tokenizer_config.json; None if there is none, or a number that
    stands for none."""
    length = read_json_object(path).get("model_max_length")
    return length if type(length) is int and SHORTEST <= length < LARGEST else None
