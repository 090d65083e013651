"""Hugging Face folders: config.json and safetensors, read and written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from headway.errors import DataError, UsageError
from headway.files import read_json, write_file
from headway.interop import gpt2, llama, openai_gpt, qwen3
from headway.interop.facts import Facts
from headway.interop.family import HEAD, Family, check_present, to_ours, to_theirs
from headway.models import GPT, GPTConfig
from headway.shapes import Tensor
from headway.tensors import read_tensors, write_tensors

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (gpt2.FAMILY, openai_gpt.FAMILY, llama.FAMILY, qwen3.FAMILY)
}
"""`model_type` in config.json -> what is known of it."""

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
CHECKED_AGAINST = "5.23.0"  # the transformers whose numbers the tests compare


def read(folder: str | Path) -> tuple[GPTConfig, dict[str, Tensor]]:
    """Configuration and parameters, by our names, in the file's number format.

    With and without the head model's prefix, in one file or in shards. DataError names what is
    missing, of the wrong shape, not known, or not to be represented by a `GPT`.
    """
    folder = Path(folder)
    facts = Facts.load(folder / CONFIG_FILE)
    family = _family(facts)
    try:
        config = GPTConfig(**family.settings(facts))
    except DataError:
        raise
    except ValueError as error:  # sizes that do not go together
        raise DataError(str(error), facts.where) from error
    where = str(folder)
    tensors = family.named(_tensors(folder), where)
    if config.tie_output and HEAD in tensors:
        _check_tied(tensors, family, where)
        del tensors[HEAD]
    check_present(family.all_parts(config), tensors, where)
    try:
        with torch.device("meta"):
            own = {name: p.shape for name, p in GPT(config).named_parameters()}
    except (RuntimeError, OverflowError) as error:  # sizes that no tensor can have
        raise DataError(f"these sizes are impossible: {error}", facts.where) from error
    return config, to_ours(family.all_parts(config), tensors, own, where)


def build(
    config: GPTConfig, tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.float32
) -> GPT:
    """The model of what `read` gave, with its own copy of the numbers, ready to run."""
    with torch.device("meta"):
        model = GPT(config)
    values = {name: tensor.to(dtype, copy=True) for name, tensor in tensors.items()}
    if config.tie_output:
        values["output.weight"] = values["embedding.tokens.weight"]
    model.load_state_dict(values, assign=True)
    model.tie_weights()
    return model.requires_grad_().eval()


def write(
    model: GPT,
    folder: str | Path,
    family: str | None = None,
    specials: Mapping[str, int] | None = None,
) -> Family:
    """Save as a folder that transformers opens; the first family that can hold it unless named.

    specials: ids of special tokens, by Hugging Face's names (`eos_token_id`). UsageError says what
    of the model cannot be represented, and for a folder that holds a model already. Tokenizers
    are the caller's.
    """
    folder = Path(folder)
    chosen = _fitting(model.config, family)
    for name in (CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE):
        if (folder / name).exists():
            raise UsageError(f"{folder / name} exists already", hint="choose another folder")
    parameters = dict(model.named_parameters())
    bare = to_theirs(chosen.all_parts(model.config), {n: p.detach() for n, p in parameters.items()})
    number_format = str(next(iter(parameters.values())).dtype).removeprefix("torch.")
    ids = dict(specials or {})
    facts: dict[str, Any] = {
        "architectures": [chosen.architecture],
        "model_type": chosen.model_type,
        **chosen.facts(model.config),
        "bos_token_id": None,  # unless given: the family's own defaults are other tokenizers'
        "eos_token_id": None,
        "pad_token_id": None,
        **ids,
        "tie_word_embeddings": model.config.tie_output,
        "dtype": number_format,  # transformers 5
        "torch_dtype": number_format,  # and 4
        "transformers_version": CHECKED_AGAINST,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / WEIGHTS_FILE, {chosen.full_name(n): t for n, t in bare.items()})
    generation = {**ids, "transformers_version": CHECKED_AGAINST}
    _write_json(folder / "generation_config.json", generation)
    _write_json(folder / CONFIG_FILE, facts)  # last: with it the folder is a model
    return chosen


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    write_file(path, (json.dumps(values, indent=2) + "\n").encode())


def _family(facts: Facts) -> Family:
    kind = facts.values.get("model_type")
    if kind not in list(FAMILIES):  # a list: what stands there may not even be hashable
        raise DataError(
            f"model_type={kind!r} is not known; known: {', '.join(FAMILIES)}", facts.where
        )
    family = FAMILIES[str(kind)]
    named = facts.values.get("architectures", [family.architecture])
    if not isinstance(named, list) or not named:
        raise facts.refusal("architectures", named, "a list of names")
    if named[0] not in (family.architecture, family.bare):
        raise facts.refusal("architectures", named, f"{family.architecture} or {family.bare}")
    return family


def _fitting(config: GPTConfig, name: str | None) -> Family:
    """The family asked for, or the first that can; UsageError with the reasons."""
    if name is not None and name not in FAMILIES:
        raise UsageError(f"unknown family {name!r}; known: {', '.join(FAMILIES)}")
    asked = [FAMILIES[name]] if name else list(FAMILIES.values())
    reasons = {family.architecture: family.lacks(config) for family in FAMILIES.values()}
    for family in asked:
        if not reasons[family.architecture]:
            return family
    said = "\n".join(f"no {f.architecture}: {', '.join(reasons[f.architecture])}" for f in asked)
    fitting = [architecture for architecture, why in reasons.items() if not why]
    raise UsageError(
        f"this model cannot be represented:\n{said}",
        hint=f"it can be a {fitting[0]}" if fitting else "keep it as a Headway model",
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


def _check_tied(tensors: Mapping[str, Tensor], family: Family, where: str) -> None:
    """Old files hold the tied head a second time."""
    embedding = tensors.get(family.embedding)
    if embedding is not None and not torch.equal(tensors[HEAD], embedding):
        raise DataError(
            f"{HEAD} differs from {family.embedding}, and tie_word_embeddings says they are one",
            where,
            "set tie_word_embeddings to false in config.json if the head is its own",
        )
