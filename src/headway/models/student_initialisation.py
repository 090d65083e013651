"""A smaller model that begins with what it can take from a larger one (lectures 3.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import nn

from headway.blocks import FeedForward, GatedFeedForward
from headway.blocks.hidden_states import stack_of
from headway.models.bert import Bert, BertConfig
from headway.models.bert_heads import BertAnswerer, BertClassifier, BertTagger
from headway.models.classifier import TextClassifier
from headway.models.gpt import GPT, GPTConfig
from headway.shapes import Float, Int, Tensor

SHAPE = ("num_layers", "model_dim", "num_heads", "ffn_dim", "embedding_dim", "dropout")
"""What a student may have otherwise than its teacher; what it reads stays."""

ATTENTION = ("model_dim", "num_heads")
"""Of these, what must be the teacher's for its blocks to be of use."""

C = TypeVar("C", BertConfig, GPTConfig)
B = TypeVar("B", Bert, GPT)

TASKS: dict[type[nn.Module], tuple[str, Callable[[Any, Any], nn.Module]]] = {
    BertClassifier: (
        "bert",
        lambda own, bert: BertClassifier(bert, own.num_classes, own.pooling, own.dropout),
    ),
    BertTagger: ("bert", lambda own, bert: BertTagger(bert, own.num_tags, own.dropout)),
    BertAnswerer: ("bert", lambda own, bert: BertAnswerer(bert)),
    TextClassifier: ("gpt", lambda own, gpt: TextClassifier(gpt, own.num_classes, own.dropout)),
}
"""A model with a head -> the name of what the head stands on, and such a model on another one, from
its configuration."""


def body_of(model: nn.Module) -> Any:
    """What a model's head stands on; of one without a head the model itself."""
    if type(model) not in TASKS:
        return model
    return model.get_submodule(TASKS[type(model)][0])


def with_body(model: nn.Module, body: nn.Module) -> nn.Module:
    """A model as `model`, on `body`, which it takes over; its head is a copy where that fits."""
    if type(model) not in TASKS:
        return body
    found = TASKS[type(model)][1](model.config, body)
    ours, theirs = found.get_submodule("head"), model.get_submodule("head")
    if all(a.shape == b.shape for a, b in zip(ours.parameters(), theirs.parameters(), strict=True)):
        ours.load_state_dict(theirs.state_dict())
    return found


def student_config(teacher: C, shape: Mapping[str, int | float | None]) -> C:
    """The teacher's configuration with another shape; None leaves a value at the teacher's.

    A narrower student without an ffn_dim has one that is as many times its width as the teacher's.
    ValueError for what is no shape, and for a student deeper than its teacher.
    """
    given: dict[str, Any] = {name: value for name, value in shape.items() if value is not None}
    known = {field.name for field in fields(teacher)}
    unknown = given.keys() - (known & set(SHAPE))
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: not of a student's shape")
    if "model_dim" in given and "ffn_dim" not in given:
        given["ffn_dim"] = int(given["model_dim"]) * teacher.ffn_dim // teacher.model_dim
    config = replace(teacher, **given)
    if config.num_layers > teacher.num_layers:
        raise ValueError(
            f"num_layers={config.num_layers} must be at most the teacher's {teacher.num_layers}"
        )
    return config


def student_of(teacher: B, config: BertConfig | GPTConfig) -> B:
    """A fresh model of the teacher's kind and of that shape; what fits is the teacher's.

    Tables, norms, pooler and heads of the same width are copied. Narrower tables are the teacher's
    along the principal directions of its token embeddings; and `widen`, where there is one to the
    teacher's width, leads back. Blocks of the same shape are the teacher's lowest, which are used
    to reading what the embeddings give them (Sajjad et al. 2020, section 3).
    """
    student = type(teacher)(config)  # type: ignore[arg-type]
    theirs = dict(_beside_blocks(teacher))
    with torch.no_grad():
        basis = _narrowing(student, teacher)
        for name, values in _beside_blocks(student):
            taken = _taken(theirs.get(name), values.shape, basis)
            if taken is not None:
                values.copy_(taken)
        widen = getattr(student, "widen", None)
        if basis is not None and isinstance(widen, nn.Linear) and widen.weight.shape == basis.shape:
            widen.weight.copy_(basis)
            widen.bias.zero_()
    same = all(getattr(config, name) == getattr(teacher.config, name) for name in ATTENTION)
    if same and config.ffn_dim <= teacher.config.ffn_dim:
        _take_blocks(student, teacher)
    return student


def _beside_blocks(model: nn.Module) -> list[tuple[str, Tensor]]:
    inside = {id(value) for value in stack_of(model).blocks.parameters()}
    return [(name, value) for name, value in model.named_parameters() if id(value) not in inside]


def _taken(
    known: Tensor | None, shape: torch.Size, basis: Float[Tensor, "D E"] | None
) -> Tensor | None:
    """The teacher's values as the student can hold them; None where they do not fit."""
    if known is None or known.shape == shape:
        return known
    is_table = basis is not None and known.ndim == 2 and known.shape[1] == len(basis)
    if basis is None or not is_table or shape != (known.shape[0], basis.shape[1]):
        return None
    return known @ basis


def _narrowing(student: nn.Module, teacher: nn.Module) -> Float[Tensor, "D E"] | None:
    """The principal directions of the teacher's token embeddings, as many as the student's are
    wide; None where these are no narrower."""
    ours, words = _tokens(student), _tokens(teacher)
    narrow, wide = ours.shape[1], words.shape[1]
    if narrow >= wide:
        return None
    exact = words.double()
    _, directions = torch.linalg.eigh(exact.T @ exact)  # ascending
    basis: Tensor = directions[:, -narrow:].flip(1).to(words.dtype)
    return basis


def _tokens(model: nn.Module) -> Float[Tensor, "V E"]:
    place = "embedding.words.tokens" if isinstance(model, Bert) else "embedding.tokens"
    return model.get_parameter(f"{place}.weight")


def _take_blocks(student: nn.Module, teacher: nn.Module) -> None:
    for ours, theirs in zip(stack_of(student).blocks, stack_of(teacher).blocks, strict=False):
        known = theirs.state_dict()
        for name, module in theirs.named_modules():
            if isinstance(module, FeedForward | GatedFeedForward):
                wanted = ours.get_submodule(name).get_parameter("contract.weight").shape[1]
                known |= _cut(module, _heaviest(module, wanted), f"{name}.")
        ours.load_state_dict(known)


def _heaviest(layer: FeedForward | GatedFeedForward, count: int) -> Int[Tensor, " F"]:
    """The places of the `count` neurons of greatest |w_in| |w_out|, in order: what a neuron adds is
    at most that, times the length of what it reads."""
    weight = layer.expand.weight.norm(dim=1) * layer.contract.weight.norm(dim=0)
    if isinstance(layer, GatedFeedForward):
        weight = weight * layer.gate.weight.norm(dim=1)
    found: Tensor = weight.topk(count).indices.sort().values
    return found


def _cut(
    layer: FeedForward | GatedFeedForward, kept: Int[Tensor, " F"], prefix: str
) -> dict[str, Tensor]:
    """The layer's values with these neurons alone."""
    found = {
        name: values[kept] for name, values in layer.state_dict().items() if "contract" not in name
    }
    found["contract.weight"] = layer.contract.weight[:, kept]
    if layer.contract.bias is not None:
        found["contract.bias"] = layer.contract.bias
    return {prefix + name: values.detach() for name, values in found.items()}
