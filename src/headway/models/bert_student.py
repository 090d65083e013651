"""A smaller encoder that begins with what it can take from a larger one (lectures 3.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import nn

from headway.blocks.watch import layer_map
from headway.linear import Linear
from headway.models.bert import Bert, BertConfig
from headway.shapes import Float, Tensor

SHAPE = ("num_layers", "model_dim", "num_heads", "ffn_dim", "embedding_dim", "dropout")
"""What a student may have otherwise than its teacher; what it reads stays."""


def student_config(teacher: BertConfig, shape: Mapping[str, int | float | None]) -> BertConfig:
    """The teacher's configuration with another shape; None leaves a value at the teacher's.

    A narrower student without an ffn_dim has one that is as many times its width as the teacher's.
    ValueError for what is no shape, and for a student deeper than its teacher.
    """
    given = {name: value for name, value in shape.items() if value is not None}
    unknown = given.keys() - set(SHAPE)
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: not of a student's shape")
    if "model_dim" in given and "ffn_dim" not in given:
        given["ffn_dim"] = int(given["model_dim"]) * teacher.ffn_dim // teacher.model_dim
    config = replace(teacher, **given)  # type: ignore[arg-type]
    layer_map(config.num_layers, teacher.num_layers)
    return config


def student_of(teacher: Bert, config: BertConfig) -> Bert:
    """A fresh `Bert` of that shape; what fits is the teacher's.

    Embeddings of the same width are copied; narrower ones are the teacher's along the principal
    directions of its token embeddings, and `widen`, where there is one to the teacher's width,
    leads back. Blocks and pooler of the same width are those of the teacher that they will be
    compared with (`layer_map`; Sanh et al. 2019, section 3); heads for words stay fresh.
    """
    student = Bert(config)
    with torch.no_grad():
        basis = _take_embedding(student, teacher)
        same = config.model_dim == teacher.config.model_dim
        leads_back = same and isinstance(teacher.widen, nn.Identity)
        if basis is not None and isinstance(student.widen, Linear) and leads_back:
            student.widen.weight.copy_(basis)
            student.widen.bias.zero_()
        if _alike(config, teacher.config):
            _take_blocks(student, teacher)
    return student


def _take_embedding(student: Bert, teacher: Bert) -> Float[Tensor, "D E"] | None:
    """Fill the student's tables; the basis that they are written in, None for the teacher's own."""
    ours, theirs = (dict(m.embedding.named_parameters()) for m in (student, teacher))
    narrow, wide = student.config.embedding_width, teacher.config.embedding_width
    if narrow == wide:
        for name, table in theirs.items():
            ours[name].copy_(table)
        return None
    if narrow > wide:
        return None
    words = teacher.tokens.weight.double()
    _, directions = torch.linalg.eigh(words.T @ words)  # ascending
    basis: Tensor = directions[:, -narrow:].flip(1).to(teacher.tokens.weight.dtype)  # D E
    for name, table in theirs.items():
        if table.ndim == 2:
            ours[name].copy_(table @ basis)
    return basis


def _alike(a: BertConfig, b: BertConfig) -> bool:
    names = ("model_dim", "num_heads", "ffn_dim", "attention", "norm", "shared_layers")
    return all(getattr(a, name) == getattr(b, name) for name in names)


def _take_blocks(student: Bert, teacher: Bert) -> None:
    places = layer_map(student.config.num_layers, teacher.config.num_layers)
    for block, place in zip(student.encoder.blocks, places, strict=True):
        block.load_state_dict(teacher.encoder.blocks[place - 1].state_dict())
    if student.pooler is not None and teacher.pooler is not None:
        student.pooler.load_state_dict(teacher.pooler.state_dict())
    student.encoder.norm.load_state_dict(teacher.encoder.norm.state_dict())
