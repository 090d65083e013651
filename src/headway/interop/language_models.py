"""Code shared by the families of language models: one architecture, whose head may be tied to
the embedding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headway.base.shapes import Tensor
from headway.interop.hf_config import HFConfig
from headway.interop.weight_names import Architecture, Family, Part, none_absent
from headway.models import GPTConfig

HEAD = "lm_head.weight"


def language_family(
    *,
    model_type: str,
    architecture: str,
    bare: str,
    prefix: str,
    embedding: str,
    ignored: str,
    settings: Callable[[HFConfig], dict[str, Any]],
    to_hf_config: Callable[[GPTConfig], dict[str, Any]],
    parts: Callable[[GPTConfig], Iterator[Part]],
    lacks: Callable[[GPTConfig], list[str]],
    absent: Callable[[HFConfig, Mapping[str, Tensor]], dict[str, Tensor]] = none_absent,
) -> Family:
    """Return a `Family` of GPTs.

    architecture: the class name of the model with its head; bare: without, in old files. embedding:
    the key of the token embedding, which is also the head if they are tied. settings: config.json
    -> fields of `GPTConfig`; to_hf_config: the inverse. parts: yields all tensors but the head.
    absent: see `Architecture`. See `Family` for the others.
    """

    def config(hf_config: HFConfig, keys: object) -> GPTConfig:
        return GPTConfig(**settings(hf_config))

    def all_parts(config: GPTConfig) -> Iterator[Part]:
        yield from parts(config)
        if not config.tie_output:
            yield Part(HEAD, ("output.weight",))

    def tied(config: GPTConfig) -> dict[str, str]:
        return {HEAD: embedding} if config.tie_output else {}

    def all_to_hf(config: GPTConfig) -> dict[str, Any]:
        return {**to_hf_config(config), "tie_word_embeddings": config.tie_output}

    whole = Architecture(
        names=(architecture, bare),
        kind=GPTConfig,
        config=config,
        parts=all_parts,
        tied=tied,
        absent=absent,
    )
    return Family(
        model_type=model_type,
        prefix=prefix,
        heads=re.escape(HEAD),
        ignored=ignored,
        architectures=(whole,),
        to_hf_config=all_to_hf,
        lacks=lacks,
        generates=True,
    )
