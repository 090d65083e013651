"""Initialising a student: copy the teacher's tables and lowest blocks, narrow what is larger.

A distilled model is smaller than its teacher: fewer layers, fewer features, smaller feed-forward
layers. It trains faster if it starts from the teacher's parameters wherever shapes allow, and from
projections of them elsewhere.

>>> import torch
>>> from headway.models import Bert, BertConfig, student_config, student_of
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 3, "vocabulary": 10}
>>> teacher = Bert(BertConfig(**size))
>>> config = student_config(teacher.config, {"num_layers": 1, "ffn_dim": 4})
>>> student = student_of(teacher, config)
>>> torch.equal(student.tokens.weight, teacher.tokens.weight)  # embeddings are copied
True
>>> neurons = student.encoder.blocks[0].feedforward.expand.weight  # 4 of the teacher's 16
>>> teacher_neurons = teacher.encoder.blocks[0].feedforward.expand.weight
>>> (neurons[:, None] == teacher_neurons).all(-1).any(-1)
tensor([True, True, True, True])
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import nn

from headway.base.shapes import Float, Int, Tensor
from headway.blocks import FeedForward, GatedFeedForward
from headway.blocks.hidden_states import stack_of
from headway.models.bert import Bert
from headway.models.bert_config import BertConfig
from headway.models.bert_heads import BertClassifier, BertQuestionAnswering, BertTagger
from headway.models.classifier import TextClassifier
from headway.models.gpt import GPT
from headway.models.gpt_config import GPTConfig

SHAPE = ("num_layers", "model_dim", "num_heads", "ffn_dim", "embedding_dim", "dropout")
"""Settings in which a student may differ from its teacher; vocabulary and inputs stay the same."""

ATTENTION = ("model_dim", "num_heads")
"""Those that must equal the teacher's so that its blocks can be copied."""

C = TypeVar("C", BertConfig, GPTConfig)
B = TypeVar("B", Bert, GPT)

TASKS: dict[type[nn.Module], tuple[str, Callable[[Any, Any], nn.Module]]] = {
    BertClassifier: (
        "bert",
        lambda config, bert: BertClassifier(
            bert, config.num_classes, config.pooling, config.dropout
        ),
    ),
    BertTagger: ("bert", lambda config, bert: BertTagger(bert, config.num_tags, config.dropout)),
    BertQuestionAnswering: ("bert", lambda config, bert: BertQuestionAnswering(bert)),
    TextClassifier: (
        "gpt",
        lambda config, gpt: TextClassifier(gpt, config.num_classes, config.dropout),
    ),
}
"""Class of a model with a head -> the name of its backbone, and a function that makes such a model
from its configuration and another backbone."""


def backbone_of(model: nn.Module) -> Any:
    """Return the backbone of a model with a head; a model without a head is its own backbone."""
    if type(model) not in TASKS:
        return model
    return model.get_submodule(TASKS[type(model)][0])


def with_backbone(model: nn.Module, body: nn.Module) -> nn.Module:
    """Return a model of the class of `model` on the backbone `body`, which is not copied.

    The head is a copy of that of `model` if the shapes agree, else a new one.
    """
    if type(model) not in TASKS:
        return body
    new_model = TASKS[type(model)][1](model.config, body)
    new, old = new_model.get_submodule("head"), model.get_submodule("head")
    if all(a.shape == b.shape for a, b in zip(new.parameters(), old.parameters(), strict=True)):
        new.load_state_dict(old.state_dict())
    return new_model


def student_config(teacher: C, shape: Mapping[str, int | float | None]) -> C:
    """Return the teacher's configuration with the settings in `shape`; None keeps the teacher's.

    If model_dim changes and ffn_dim is not set, their ratio stays that of the teacher. Raises
    ValueError for settings not in `SHAPE`, and for a student with more layers than its teacher.
    """
    changes: dict[str, Any] = {name: value for name, value in shape.items() if value is not None}
    possible = {field.name for field in fields(teacher)} & set(SHAPE)
    unknown = changes.keys() - possible
    if unknown:
        raise ValueError(
            f"a student cannot differ from its teacher in {', '.join(sorted(unknown))}, "
            f"only in {', '.join(name for name in SHAPE if name in possible)}"
        )
    if "model_dim" in changes and "ffn_dim" not in changes:
        changes["ffn_dim"] = int(changes["model_dim"]) * teacher.ffn_dim // teacher.model_dim
    config = replace(teacher, **changes)
    if config.num_layers > teacher.num_layers:
        raise ValueError(
            f"num_layers={config.num_layers} must be at most the teacher's {teacher.num_layers}"
        )
    return config


def student_of(teacher: B, config: BertConfig | GPTConfig) -> B:
    """Return a new model of the teacher's class, initialised from the teacher where shapes allow.

    Tables, norms, pooler and heads of the same width are copied. Narrower tables are the teacher's
    projected on the principal components of its token embeddings; a projection `widen` to the
    teacher's width is initialised with the inverse. Blocks of the same width are copies of the
    teacher's lowest ones, whose inputs are the embeddings (Sajjad et al. 2020, section 3).
    """
    student = type(teacher)(config)  # type: ignore[arg-type]
    teacher_parameters = dict(_parameters_outside_blocks(teacher))
    with torch.no_grad():
        basis = _principal_components(student, teacher)
        for name, parameter in _parameters_outside_blocks(student):
            value = _fitted(teacher_parameters.get(name), parameter.shape, basis)
            if value is not None:
                parameter.copy_(value)
        widen = getattr(student, "widen", None)
        if basis is not None and isinstance(widen, nn.Linear) and widen.weight.shape == basis.shape:
            widen.weight.copy_(basis)
            widen.bias.zero_()
    same = all(getattr(config, name) == getattr(teacher.config, name) for name in ATTENTION)
    if same and config.ffn_dim <= teacher.config.ffn_dim:
        _copy_blocks(student, teacher)
    return student


def _parameters_outside_blocks(model: nn.Module) -> list[tuple[str, Tensor]]:
    inside = {id(value) for value in stack_of(model).blocks.parameters()}
    return [(name, value) for name, value in model.named_parameters() if id(value) not in inside]


def _fitted(
    value: Tensor | None, shape: torch.Size, basis: Float[Tensor, "D E"] | None
) -> Tensor | None:
    """Return a parameter of the teacher in the student's shape, or None if it does not fit.

    A table whose rows are wider than the student's is projected on `basis`.
    """
    if value is None or value.shape == shape:
        return value
    is_table = basis is not None and value.ndim == 2 and value.shape[1] == len(basis)
    if basis is None or not is_table or shape != (value.shape[0], basis.shape[1]):
        return None
    return value @ basis


def _principal_components(student: nn.Module, teacher: nn.Module) -> Float[Tensor, "D E"] | None:
    """Return the E principal components of the teacher's token embeddings.

    E is the width of the student's embeddings; the result is None if these are not narrower.
    """
    embeddings = _token_embeddings(teacher)
    narrow, wide = _token_embeddings(student).shape[1], embeddings.shape[1]
    if narrow >= wide:
        return None
    exact = embeddings.double()
    _, directions = torch.linalg.eigh(exact.T @ exact)  # ascending
    return directions[:, -narrow:].flip(1).to(embeddings.dtype)


def _token_embeddings(model: nn.Module) -> Float[Tensor, "V E"]:
    module = "embedding.words.tokens" if isinstance(model, Bert) else "embedding.tokens"
    return model.get_parameter(f"{module}.weight")


def _copy_blocks(student: nn.Module, teacher: nn.Module) -> None:
    """Copy the teacher's lowest blocks, with the most important neurons of feed-forward layers."""
    for block, source in zip(stack_of(student).blocks, stack_of(teacher).blocks, strict=False):
        parameters = source.state_dict()
        for name, module in source.named_modules():
            if isinstance(module, FeedForward | GatedFeedForward):
                ffn_dim = block.get_submodule(name).get_parameter("contract.weight").shape[1]
                parameters |= _select(module, _largest_neurons(module, ffn_dim), f"{name}.")
        block.load_state_dict(parameters)


def _largest_neurons(layer: FeedForward | GatedFeedForward, count: int) -> Int[Tensor, " F"]:
    """Return the indices of the `count` neurons of greatest |w_in| |w_out|, in ascending order.

    The output of a neuron has at most this norm, times that of its input.
    """
    bound = layer.expand.weight.norm(dim=1) * layer.contract.weight.norm(dim=0)
    if isinstance(layer, GatedFeedForward):
        bound = bound * layer.gate.weight.norm(dim=1)
    return bound.topk(count).indices.sort().values


def _select(
    layer: FeedForward | GatedFeedForward, neurons: Int[Tensor, " F"], prefix: str
) -> dict[str, Tensor]:
    """Return the parameters of the layer with these neurons only; names start with `prefix`."""
    selected = {
        name: values[neurons]
        for name, values in layer.state_dict().items()
        if "contract" not in name
    }
    selected["contract.weight"] = layer.contract.weight[:, neurons]
    if layer.contract.bias is not None:
        selected["contract.bias"] = layer.contract.bias
    return {prefix + name: values.detach() for name, values in selected.items()}
