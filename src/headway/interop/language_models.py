"""What the families of language models have alike: one architecture, whose head may be the
embedding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from headway.interop.hf_config import Facts
from headway.interop.weight_names import Architecture, Family, Part
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
    settings: Callable[[Facts], dict[str, Any]],
    facts: Callable[[GPTConfig], dict[str, Any]],
    parts: Callable[[GPTConfig], Iterator[Part]],
    lacks: Callable[[GPTConfig], list[str]],
) -> Family:
    """A `Family` of GPTs.

    architecture, bare: the class with its head, and without, as old files name it. embedding: the
    key of the token embedding, the head's too where they are tied. settings: config.json -> fields
    of ours; facts: the way back. parts: all tensors but the head.
    """

    def config(told: Facts, found: object) -> GPTConfig:
        return GPTConfig(**settings(told))

    def all_parts(config: GPTConfig) -> Iterator[Part]:
        yield from parts(config)
        if not config.tie_output:
            yield Part(HEAD, ("output.weight",))

    def tied(config: GPTConfig) -> dict[str, str]:
        return {HEAD: embedding} if config.tie_output else {}

    def all_facts(config: GPTConfig) -> dict[str, Any]:
        return {**facts(config), "tie_word_embeddings": config.tie_output}

    whole = Architecture(
        names=(architecture, bare), kind=GPTConfig, config=config, parts=all_parts, tied=tied
    )
    return Family(
        model_type=model_type,
        prefix=prefix,
        heads=re.escape(HEAD),
        ignored=ignored,
        architectures=(whole,),
        facts=all_facts,
        lacks=lacks,
        generates=True,
    )
