"""Hugging Face folders: config.json and safetensors, read and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.errors import DataError, UsageError
from headway.files import read_json, write_file
from headway.interop import (
    albert,
    bert,
    captioner,
    dinov2,
    distilbert,
    gpt2,
    llama,
    openai_gpt,
    qwen3,
    roberta,
    vit,
)
from headway.interop.hf_config import Facts, label_facts
from headway.interop.weight_names import (
    Architecture,
    Family,
    check_present,
    join_copies,
    to_ours,
    to_theirs,
)
from headway.models import (
    GPT,
    Bert,
    BertAnswerer,
    BertAnswererConfig,
    BertClassifier,
    BertClassifierConfig,
    BertConfig,
    BertTagger,
    BertTaggerConfig,
    Captioner,
    CaptionerConfig,
    GPTConfig,
    ViT,
    ViTClassifier,
    ViTClassifierConfig,
    ViTConfig,
    bert_answerer,
    bert_classifier,
    bert_tagger,
    vit_classifier,
)
from headway.models.contracts import set_parameters, shapes_only
from headway.settings import check_limits
from headway.shapes import Tensor
from headway.tensors import read_tensors, write_tensors

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        *(gpt2.FAMILY, openai_gpt.FAMILY, llama.FAMILY, qwen3.FAMILY),
        *(bert.FAMILY, roberta.FAMILY, *roberta.LATER, distilbert.FAMILY, albert.FAMILY),
        *(vit.FAMILY, dinov2.FAMILY, captioner.FAMILY),
    )
}
"""`model_type` in config.json -> what is known of it."""

TextConfig = GPTConfig | BertConfig | BertClassifierConfig | BertTaggerConfig | BertAnswererConfig
TextModel = GPT | Bert | BertClassifier | BertTagger | BertAnswerer
ImageModel = ViT | ViTClassifier
Config = TextConfig | ViTConfig | ViTClassifierConfig | CaptionerConfig
"""The configuration of a `Model`."""
Model = TextModel | ImageModel | Captioner
"""What such a folder can hold."""

_MODELS: dict[type[Config], Callable[[Any], Model]] = {
    GPTConfig: GPT,
    BertConfig: Bert,
    BertClassifierConfig: bert_classifier,
    BertTaggerConfig: bert_tagger,
    BertAnswererConfig: bert_answerer,
    ViTConfig: ViT,
    ViTClassifierConfig: vit_classifier,
    CaptionerConfig: Captioner,
}

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
SPECIALS = ("bos_token_id", "eos_token_id", "pad_token_id")
CHECKED_AGAINST = "5.23.0"  # the transformers whose numbers the tests compare


def read(folder: str | Path, model_type: str | None = None) -> tuple[Config, dict[str, Tensor]]:
    """Configuration and parameters, by our names, in the file's number format.

    model_type: a key of `FAMILIES`, for folders whose config.json does not name it.
    With and without the prefix of a model with a head, in one file or in shards. DataError names
    what is missing, of the wrong shape, not known, or not to be represented by a model of ours.
    """
    folder, where = Path(folder), str(folder)
    facts = Facts.load(folder / CONFIG_FILE, model_type)
    family, architecture = _told(facts)
    tensors = family.named(_tensors(folder), architecture.unused, where)
    try:
        config = architecture.config(facts, tensors.keys())
        check_limits(config, facts.where)
    except DataError:
        raise
    except UsageError as error:
        raise DataError(error.what, facts.where, error.hint) from error
    except ValueError as error:  # sizes that do not go together
        raise DataError(str(error), facts.where) from error
    untie = "set tie_word_embeddings to false in config.json if the head is its own"
    join_copies(architecture.tied(config), tensors, where, untie if family.generates else None)
    check_present(architecture.parts(config), tensors, where)
    try:
        own = {name: p.shape for name, p in _on_meta(config).named_parameters()}
    except (RuntimeError, OverflowError) as error:  # sizes that no tensor can have
        raise DataError(f"these sizes are impossible: {error}", facts.where) from error
    return config, to_ours(architecture.parts(config), tensors, own, where)


def read_labels(folder: str | Path, model_type: str | None = None) -> tuple[str, ...]:
    """The names of a classifier's classes or a tagger's tags, in order; none for other models.
    model_type: as in `read`."""
    facts = Facts.load(Path(folder) / CONFIG_FILE, model_type)
    _, architecture = _told(facts)
    named = architecture.kind in (BertClassifierConfig, BertTaggerConfig, ViTClassifierConfig)
    return facts.labels() if named else ()


def build(config: Config, tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.float32) -> Any:
    """The model of what `read` gave (`Model`: a GPT of a GPTConfig, and so on), with its own copy
    of the numbers, ready to run."""
    model = _on_meta(config)
    set_parameters(model, {name: x.to(dtype, copy=True) for name, x in tensors.items()})
    return model.requires_grad_().eval()


def _on_meta(config: Config) -> Model:
    with shapes_only():
        return _MODELS[type(config)](config)


def write(
    model: Model,
    folder: str | Path,
    family: str | None = None,
    specials: Mapping[str, int] | None = None,
    labels: Sequence[str] | None = None,
) -> str:
    """Save as a folder that transformers opens, and say its class; the first family that can hold
    the model unless named.

    specials: ids of special tokens, by Hugging Face's names (`eos_token_id`). labels: the names of
    a classifier's classes or a tagger's tags. UsageError says what of the model cannot be
    represented, and for a folder that holds a model already. Tokenizers and how pictures are read
    are the caller's.
    """
    folder = Path(folder)
    chosen = _fitting(model.config, family)
    architecture = chosen.architecture(model.config)
    for name in (CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE):
        if (folder / name).exists():
            raise UsageError(f"{folder / name} exists already", hint="choose another folder")
    ids = dict(specials or {})
    facts = _facts(chosen, architecture, model, ids, labels)
    own = {name: p.detach() for name, p in model.named_parameters()}
    bare = to_theirs(architecture.parts(model.config), own)
    folder.mkdir(parents=True, exist_ok=True)
    full = {chosen.full_name(name, architecture): tensor for name, tensor in bare.items()}
    write_tensors(folder / WEIGHTS_FILE, full)
    if chosen.generates:
        generation = {**ids, "transformers_version": CHECKED_AGAINST}
        _write_json(folder / "generation_config.json", generation)
    _write_json(folder / CONFIG_FILE, facts)  # last: with it the folder is a model
    return architecture.names[0]


def _facts(
    family: Family,
    architecture: Architecture,
    model: nn.Module,
    ids: Mapping[str, int],
    labels: Sequence[str] | None,
) -> dict[str, Any]:
    """What config.json is to say. UsageError for what does not go with the model."""
    facts = family.facts(model.config)
    for name in ids.keys() & facts.keys():
        if ids[name] != facts[name]:
            raise UsageError(
                f"{name}={ids[name]}, and a {family.model_type} with these settings needs "
                f"{facts[name]}"
            )
    if labels:
        count = len(facts.get("id2label", ()))
        if len(labels) != count or len(set(labels)) != count:
            raise UsageError(f"{len(labels)} labels, and the model has names for {count}, all new")
        facts |= label_facts(labels)
    number_format = str(next(model.parameters()).dtype).removeprefix("torch.")
    # unless given: the family's own defaults are other tokenizers'
    specials = {} if family.sees else dict.fromkeys(SPECIALS)
    return {
        "architectures": [architecture.names[0]],
        "model_type": family.model_type,
        **specials,
        **facts,
        **ids,
        "dtype": number_format,  # transformers 5
        "torch_dtype": number_format,  # and 4
        "transformers_version": CHECKED_AGAINST,
    }


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    write_file(path, (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode())


def _told(facts: Facts) -> tuple[Family, Architecture]:
    """What config.json says the folder holds."""
    kind = facts.values.get("model_type")
    if kind not in list(FAMILIES):  # a list: what stands there may not even be hashable
        raise DataError(
            f"model_type={kind!r} is not known; known: {', '.join(FAMILIES)}", facts.where
        )
    family = FAMILIES[str(kind)]
    known = {name: each for each in family.architectures for name in each.names}
    named = facts.values.get("architectures", list(known)[:1])
    if not isinstance(named, list) or not named:
        raise facts.refusal("architectures", named, "a list of names")
    if not isinstance(named[0], str) or named[0] not in known:
        raise facts.refusal("architectures", named, " or ".join(known))
    return family, known[named[0]]


def _fitting(config: Config, name: str | None) -> Family:
    """The family asked for, or the first that can; UsageError with the reasons."""
    if name is not None and name not in FAMILIES:
        raise UsageError(f"unknown family {name!r}; known: {', '.join(FAMILIES)}")
    able = [family for family in FAMILIES.values() if type(config) in family.kinds()]
    reasons = {family.model_type: family.lacks(config) for family in able}
    fitting = [family for family in able if not reasons[family.model_type]]
    for family in fitting:
        if name in (None, family.model_type):
            return family
    asked = [name] if name else list(reasons)
    others = f"it holds other models than a {type(config).__name__.removesuffix('Config')}"
    said = "\n".join(f"no {kind}: {', '.join(reasons.get(kind, [others]))}" for kind in asked)
    can = fitting[0].architecture(config).names[0] if fitting else ""
    raise UsageError(
        f"this model cannot be represented:\n{said}",
        hint=f"it can be a {can}" if can else "keep it as a Headway model",
    )


def _tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of the folder, from one file or from the shards that an index names."""
    if (folder / WEIGHTS_FILE).exists():
        return read_tensors(folder / WEIGHTS_FILE)
    index = folder / INDEX_FILE
    if not index.exists():
        pickled = next((p.name for p in folder.glob("*.bin")), None)
        if pickled:
            raise DataError(
                f"{pickled} is a pickle, which can run code when opened; Headway never reads one",
                str(folder),
                "convert it to safetensors with the program that wrote it",
            )
        raise DataError(f"there is no {WEIGHTS_FILE}", str(folder))
    listed = read_json(index)
    places = listed.get("weight_map") if isinstance(listed, dict) else None
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise DataError("weight_map must say which file holds each tensor", str(index))
    found: dict[str, Tensor] = {}
    for name in sorted(set(places.values())):
        if Path(name).name != name or "\\" in name:
            raise DataError(f"a shard outside the folder: {name!r}", str(index))
        for key, tensor in read_tensors(folder / name).items():
            if places.get(key) != name:
                raise DataError(f"{key} is in {name}, and the index says otherwise", str(index))
            found[key] = tensor
    for key in places.keys() - found.keys():
        raise DataError(f"{key} is not in {places[key]}, where the index says it is", str(index))
    return found
