"""Read and write Hugging Face folders: config.json and safetensors."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.base.errors import DataError, UsageError
from headway.base.files import json_bytes, read_json, write_file
from headway.base.settings import check_limits
from headway.base.shapes import Tensor
from headway.base.tensors import read_tensors, tensor_names, write_tensors
from headway.interop import bart, captioner, decoders, encoders, image_text, t5, vit, whisper
from headway.interop.adapters import find_adapter, merged
from headway.interop.embedders import (
    PREFIX,
    as_decoder,
    embedder_config,
    embeds_texts,
    without_head,
)
from headway.interop.folder_settings import NO_SETTINGS, FolderSettings
from headway.interop.generation_config import FILE as GENERATION_FILE
from headway.interop.hf_config import HFConfig, hf_labels
from headway.interop.ignored_keys import CONFIG
from headway.interop.weight_names import (
    AnyArchitecture,
    AnyFamily,
    check_present,
    join_copies,
    to_ours,
    to_theirs,
)
from headway.interop.wrappers import text_half, text_tensors
from headway.models import (
    GPT,
    Bert,
    BertClassifier,
    BertClassifierConfig,
    BertConfig,
    BertQuestionAnswering,
    BertQuestionAnsweringConfig,
    BertTagger,
    BertTaggerConfig,
    Captioner,
    CaptionerConfig,
    GPTConfig,
    ImageText,
    ImageTextConfig,
    TextEmbedder,
    TextEmbedderConfig,
    Transcriber,
    TranscriberConfig,
    Translator,
    TranslatorConfig,
    ViT,
    ViTClassifier,
    ViTClassifierConfig,
    ViTConfig,
    bert_classifier,
    bert_question_answering,
    bert_tagger,
    vit_classifier,
)
from headway.models.contracts import set_parameters, shapes_only
from headway.transforms.quantize import float32_copy

_ALL: tuple[AnyFamily, ...] = (
    *decoders.FAMILIES,
    *encoders.FAMILIES,
    *vit.FAMILIES,
    captioner.FAMILY,
    *image_text.FAMILIES,
    *bart.FAMILIES,
    *t5.FAMILIES,
    whisper.FAMILY,
)
FAMILIES = {family.model_type: family for family in _ALL}
"""`model_type` in config.json -> the description of the model family."""
LANGUAGE_MODELS = frozenset(family.model_type for family in decoders.FAMILIES)

TextConfig = (
    GPTConfig | BertConfig | BertClassifierConfig | BertTaggerConfig | BertQuestionAnsweringConfig
)
TextModel = GPT | Bert | BertClassifier | BertTagger | BertQuestionAnswering
ImageModel = ViT | ViTClassifier
Config = (
    TextConfig
    | ViTConfig
    | ViTClassifierConfig
    | CaptionerConfig
    | ImageTextConfig
    | TranslatorConfig
    | TranscriberConfig
    | TextEmbedderConfig
)
"""The configuration of a `Model`."""
Model = TextModel | ImageModel | Captioner | ImageText | Translator | Transcriber | TextEmbedder
"""The models that such a folder can contain."""

_MODELS: dict[type[Config], Callable[[Any], Model]] = {
    GPTConfig: GPT,
    BertConfig: Bert,
    BertClassifierConfig: bert_classifier,
    BertTaggerConfig: bert_tagger,
    BertQuestionAnsweringConfig: bert_question_answering,
    ViTConfig: ViT,
    ViTClassifierConfig: vit_classifier,
    CaptionerConfig: Captioner,
    ImageTextConfig: ImageText,
    TranslatorConfig: Translator,
    TranscriberConfig: Transcriber,
    TextEmbedderConfig: TextEmbedder,
}

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
SPECIALS = ("bos_token_id", "eos_token_id", "pad_token_id")
CHECKED_AGAINST = "5.23.0"  # the version of transformers that the tests compare with


def read(
    folder: str | Path, model_type: str | None = None, adapter: Path | None = None
) -> tuple[Config, dict[str, Tensor]]:
    """Read the configuration and the parameters, by our names, in the dtype of the file.

    model_type: a key of `FAMILIES`, for folders whose config.json does not name it. Names may have
    the prefix of a model with a head or not; the weights may be in one file or in shards. adapter:
    the folder of an adapter that is merged into the weights; if unset, `folder` if it has one.
    Raises DataError for anything that is missing, unknown, of the wrong shape or not supported.
    """
    folder = Path(folder)
    whole = HFConfig.load(folder / CONFIG_FILE, model_type)
    half = text_half(whole, FAMILIES)
    hf_config = whole if half is None else half
    family, _ = _architecture_of(hf_config)
    stored = _tensors(folder)
    if half is not None:
        stored = text_tensors(whole, stored)
    embeds = embeds_texts(hf_config, folder, LANGUAGE_MODELS)
    if adapter is None and (found := find_adapter(folder)) is not None:
        adapter = found.folder
    if adapter is not None:
        stored = merged(stored, adapter, family.model_type)
    if not embeds:
        return configured(hf_config, stored, str(folder))
    config, tensors = configured(as_decoder(hf_config), without_head(stored), str(folder))
    assert isinstance(config, GPTConfig)
    named = {f"{PREFIX}{name}": tensor for name, tensor in tensors.items()}
    return embedder_config(hf_config, config), named


def configured(
    hf_config: HFConfig, stored: Mapping[str, Tensor], where: str
) -> tuple[Config, dict[str, Tensor]]:
    """Return the configuration and the parameters, by our names, for a config.json and tensors.

    stored: the tensors by the names in the file. Raises DataError as `read` does.
    """
    family, architecture = _architecture_of(hf_config, stored.keys())
    tensors = family.named(architecture.unpacked(stored, where), architecture.unused, where)
    try:
        tensors = {**architecture.absent(hf_config, tensors), **tensors}
        config = architecture.config(hf_config, tensors.keys())
        check_limits(config, hf_config.where)
    except DataError:
        raise
    except UsageError as error:
        raise DataError(error.what, hf_config.where, error.hint) from error
    except ValueError as error:  # inconsistent sizes
        raise DataError(str(error), hf_config.where) from error
    hf_config.check_all_read(CONFIG)
    untie = "if the head has its own weights, set tie_word_embeddings to false in config.json"
    join_copies(architecture.tied(config), tensors, where, untie if family.generates else None)
    check_present(architecture.parts(config), tensors, where)
    try:
        shapes = {name: p.shape for name, p in on_meta(config).named_parameters()}
    except (RuntimeError, OverflowError) as error:  # sizes that no tensor can have
        raise DataError(f"no tensor can have these sizes: {error}", hf_config.where) from error
    return config, to_ours(architecture.parts(config), tensors, shapes, where)


def expected_tensors(hf_config: HFConfig) -> list[str]:
    """Return the names of all tensors of the model that a config.json describes."""
    family, architecture = _architecture_of(hf_config)
    parts = architecture.parts(architecture.config(hf_config, ()))
    return [family.full_name(part.theirs, architecture) for part in parts]


def read_config(folder: str | Path) -> tuple[AnyFamily, AnyArchitecture, Config]:
    """Read the family, the class and our configuration, but not the weights. Errors: see `read`."""
    folder = Path(folder)
    whole = HFConfig.load(folder / CONFIG_FILE)
    hf_config = text_half(whole, FAMILIES) or whole
    keys = [key for file in sorted(folder.glob("*.safetensors")) for key in tensor_names(file)]
    if not embeds_texts(hf_config, folder, LANGUAGE_MODELS):
        return described(hf_config, keys)
    family, architecture, config = described(as_decoder(hf_config), keys)
    assert isinstance(config, GPTConfig)
    return family, architecture, embedder_config(hf_config, config)


def described(
    hf_config: HFConfig, keys: Collection[str]
) -> tuple[AnyFamily, AnyArchitecture, Config]:
    """Return what `read_config` does, for a config.json and the names of the tensors."""
    family, architecture = _architecture_of(hf_config, keys)
    names = (key.removeprefix(family.prefix) for key in keys)
    used = [name for name in names if not re.fullmatch(architecture.unused, name)]
    try:
        config = architecture.config(hf_config, used)
    except ValueError as error:  # inconsistent sizes
        raise DataError(str(error), hf_config.where) from error
    hf_config.check_all_read(CONFIG)
    return family, architecture, config


def read_labels(folder: str | Path, model_type: str | None = None) -> tuple[str, ...]:
    """Return the names of a classifier's classes or a tagger's tags; empty for other models.

    model_type: as in `read`.
    """
    hf_config = HFConfig.load(Path(folder) / CONFIG_FILE, model_type)
    hf_config = text_half(hf_config, FAMILIES) or hf_config
    _, architecture = _architecture_of(hf_config)
    has_labels = architecture.kind in (BertClassifierConfig, BertTaggerConfig, ViTClassifierConfig)
    return hf_config.labels() if has_labels else ()


def build(config: Config, tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.float32) -> Any:
    """Return the model for a configuration and parameters from `read`, with copies of the tensors.

    Its class follows from the configuration: a GPT for a GPTConfig, and so on.
    """
    model = on_meta(config)
    set_parameters(model, {name: x.to(dtype, copy=True) for name, x in tensors.items()})
    return model.requires_grad_().eval()


def on_meta(config: Config) -> Model:
    """Return the model for a configuration, with shapes and no values."""
    with shapes_only():
        return _MODELS[type(config)](config)


def write(
    model: Model,
    folder: str | Path,
    family: str | None = None,
    specials: Mapping[str, int] | None = None,
    labels: Sequence[str] | None = None,
    settings: Mapping[str, object] | None = None,
) -> str:
    """Write a folder for transformers; return the name of its class there.

    family: a key of `FAMILIES`; if None, the first that can represent the model. specials: ids of
    special tokens, by Hugging Face's names (`eos_token_id`). labels: the names of a classifier's
    classes or a tagger's tags. settings: keys of config.json that differ from those of the
    architecture. Raises UsageError for a model that cannot be represented, with the
    reasons, and for a folder that already contains a model. Tokenizer and image preprocessing are
    written by the caller.
    """
    folder = Path(folder)
    chosen = fitting(model.config, family)
    architecture = chosen.architecture(model.config)
    for name in (CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE):
        if (folder / name).exists():
            raise UsageError(
                f"{folder / name} exists already", hint="choose a new or an empty folder"
            )
    ids = dict(specials or {})
    model = float32_copy(model)
    values = {**_to_hf_config(chosen, architecture, model, ids, labels), **(settings or {})}
    tensors = {name: p.detach() for name, p in model.named_parameters()}
    bare = architecture.packed(to_theirs(architecture.parts(model.config), tensors))
    bare |= architecture.computed(model.config)
    folder.mkdir(parents=True, exist_ok=True)
    full = {chosen.full_name(name, architecture): tensor for name, tensor in bare.items()}
    write_tensors(folder / WEIGHTS_FILE, full)
    if chosen.generates:
        write_generation_config(ids, (), NO_SETTINGS, folder)
    write_file(folder / CONFIG_FILE, json_bytes(values))  # last: it makes the folder a model
    return architecture.names[0]


def write_generation_config(
    ids: Mapping[str, int], ends: Sequence[int], settings: FolderSettings, folder: Path
) -> None:
    """Write generation_config.json.

    ids: of special tokens, as in `write`. ends: all tokens that end an output, if there are
    several. settings: those of the pretrained folder that the model is from.
    """
    values = {} if settings.generation is None else dict(settings.generation.values)
    values |= {**ids, "transformers_version": CHECKED_AGAINST}
    if len(ends) > 1:
        values["eos_token_id"] = list(ends)
    write_file(folder / GENERATION_FILE, json_bytes(values))


def _to_hf_config(
    family: AnyFamily,
    architecture: AnyArchitecture,
    model: nn.Module,
    ids: Mapping[str, int],
    labels: Sequence[str] | None,
) -> dict[str, object]:
    """Return the contents of config.json. Raises UsageError for ids or labels that do not match the
    model."""
    values = family.to_hf_config(model.config)
    for name in ids.keys() & values.keys():
        if ids[name] != values[name]:
            raise UsageError(
                f"{name}={ids[name]}, but a {family.model_type} model with these settings requires "
                f"{values[name]}"
            )
    if labels:
        count = len(values.get("id2label", ()))
        if len(labels) != count or len(set(labels)) != count:
            raise UsageError(
                f"expected {count} different labels, one for each class of the model, got "
                f"{len(labels)}, of which {len(set(labels))} are different"
            )
        values |= hf_labels(labels)
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    # None if there are no ids: the family's defaults are those of other tokenizers
    specials = {} if family.sees else dict.fromkeys(SPECIALS)
    return {
        "architectures": [architecture.names[0]],
        "model_type": family.model_type,
        **specials,
        **values,
        **ids,
        "dtype": dtype,  # transformers 5
        "torch_dtype": dtype,  # and 4
        "transformers_version": CHECKED_AGAINST,
    }


def _architecture_of(
    hf_config: HFConfig, keys: Collection[str] = ()
) -> tuple[AnyFamily, AnyArchitecture]:
    """Return the family and the class that config.json names.

    keys: of the tensors in the file. If it was saved without heads of pretraining, it is the class
    without heads, whatever config.json names: so are many folders of sentence-transformers.
    """
    kind = hf_config.values.get("model_type")
    if kind not in list(FAMILIES):  # a list: the value may not be hashable
        raise DataError(
            f"model_type={kind!r} is not supported; supported: {', '.join(FAMILIES)}",
            hf_config.where,
        )
    family = FAMILIES[str(kind)]
    known = {
        name: architecture for architecture in family.architectures for name in architecture.names
    }
    names = hf_config.values.get("architectures", list(known)[:1])
    if not isinstance(names, list) or not names:
        raise hf_config.refusal("architectures", names, "a list of names")
    if not isinstance(names[0], str) or names[0] not in known:
        raise hf_config.refusal("architectures", names, " or ".join(known))
    architecture = known[names[0]]
    has_head = any(key.startswith(family.prefix) or re.match(family.heads, key) for key in keys)
    if keys and not has_head:
        alike = (a for a in family.architectures if a.bare and a.kind is architecture.kind)
        architecture = next(alike, architecture)
    return family, architecture


NEAREST = 3
"""Families that an error names with their reasons: those with the fewest."""


def fitting(config: Config, name: str | None) -> AnyFamily:
    """Return the family of this name, or the first that can represent the configuration.

    Raises UsageError with the reasons if there is none.
    """
    if name is not None and name not in FAMILIES:
        raise UsageError(f"unknown family {name!r}; known: {', '.join(FAMILIES)}")
    candidates = [family for family in FAMILIES.values() if type(config) in family.kinds()]
    reasons = {family.model_type: family.lacks(config) for family in candidates}
    fitting = [family for family in candidates if not reasons[family.model_type]]
    for family in fitting:
        if name in (None, family.model_type):
            return family
    mismatch = f"cannot represent a {type(config).__name__.removesuffix('Config')}"
    nearest = sorted(reasons, key=lambda kind: len(reasons[kind]))
    kinds = [name] if name else nearest[:NEAREST]
    shown = [f"{kind}: {', '.join(reasons.get(kind, [mismatch]))}" for kind in kinds]
    if further := 0 if name else len(nearest) - len(kinds):
        shown.append(f"{further} further families differ in as many settings or more")
    lines = "\n".join(shown)
    can = fitting[0].architecture(config).names[0] if fitting else ""
    raise UsageError(
        f"this model cannot be represented in Hugging Face's format:\n{lines}",
        hint=f"it can be represented as a {can}" if can else "keep it as a Headway model",
    )


def _tensors(folder: Path) -> dict[str, Tensor]:
    """Read all tensors of the folder, from one file or from the shards that the index names."""
    if (folder / WEIGHTS_FILE).exists():
        return read_tensors(folder / WEIGHTS_FILE)
    index = folder / INDEX_FILE
    if not index.exists():
        pickled = next((p.name for p in folder.glob("*.bin")), None)
        if pickled:
            raise DataError(
                f"{pickled} is a pickle, which can run code when loaded; Headway never reads one",
                str(folder),
                "convert it to safetensors with the program that wrote it",
            )
        raise DataError(f"there is no {WEIGHTS_FILE}", str(folder))
    contents = read_json(index)
    files = contents.get("weight_map") if isinstance(contents, dict) else None
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise DataError("weight_map must be an object of tensor names and files", str(index))
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(files.values())):
        if Path(name).name != name or "\\" in name:
            raise DataError(f"the shard {name!r} is not in the folder of the index", str(index))
        for key, tensor in read_tensors(folder / name).items():
            if files.get(key) != name:
                raise DataError(f"{key} is in {name}, but the index says otherwise", str(index))
            tensors[key] = tensor
    for key in files.keys() - tensors.keys():
        raise DataError(f"{key} is not in {files[key]}, as the index says", str(index))
    return tensors
