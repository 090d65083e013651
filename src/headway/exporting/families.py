"""Every class of models that can be exported: its inputs, its graphs, and what replaces them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.attention import MultiHeadAttention
from headway.attention.kernel import SoftmaxKernel
from headway.base.shapes import Tensor
from headway.exporting import graphs, inputs, stand_ins
from headway.exporting.graphs import BATCH, LENGTH, Graph
from headway.exporting.inputs import Inputs
from headway.exporting.stand_in import Method, without_weights
from headway.exporting.stand_ins import Sessions
from headway.exporting.traced import FiniteScores
from headway.models import (
    GPT,
    Bert,
    BertClassifier,
    BertQuestionAnswering,
    BertTagger,
    Captioner,
    TextEmbedder,
    Transcriber,
    Translator,
    ViT,
    ViTClassifier,
)
from headway.models.classifier import TextClassifier


@dataclass(frozen=True, kw_only=True)
class Family:
    """How models of one class are exported and compared.

    inputs: makes inputs, from the model, the number and the length of the sequences and a
    generator. graphs: returns the graphs of a model; None if it has none yet. methods: returns its
    methods by name, computed by the sessions of its graphs. start: makes what a model that writes
    starts from, and first tokens.
    """

    inputs: Callable[[Any, int, int, torch.Generator], Inputs]
    graphs: Callable[[Any], list[Graph]] | None
    methods: Callable[[Any, Sessions], dict[str, Method]]
    start: Callable[[Any, torch.Generator], tuple[Inputs, Tensor]] | None = None


FAMILIES: dict[type[nn.Module], Family] = {
    GPT: Family(
        inputs=inputs.language_inputs,
        graphs=graphs.gpt_graphs,
        methods=stand_ins.gpt_methods,
        start=inputs.prompts,
    ),
    Bert: Family(
        inputs=inputs.text_inputs, graphs=graphs.bert_graphs, methods=stand_ins.bert_methods
    ),
    BertClassifier: Family(
        inputs=inputs.text_inputs,
        graphs=graphs.graphs_with_head((BATCH,), "num_classes"),
        methods=stand_ins.head_methods,
    ),
    BertTagger: Family(
        inputs=inputs.text_inputs,
        graphs=graphs.graphs_with_head((BATCH, LENGTH), "num_tags"),
        methods=stand_ins.head_methods,
    ),
    BertQuestionAnswering: Family(
        inputs=inputs.text_inputs, graphs=graphs.answer_graphs, methods=stand_ins.answer_methods
    ),
    TextClassifier: Family(
        inputs=inputs.text_inputs,
        graphs=graphs.text_classifier_graphs,
        methods=stand_ins.head_methods,
    ),
    # without padding, at which vectors differ, and no text depends on them
    TextEmbedder: Family(
        inputs=inputs.language_inputs, graphs=None, methods=stand_ins.embedder_methods
    ),
    ViT: Family(
        inputs=inputs.image_inputs, graphs=graphs.vit_graphs, methods=stand_ins.vit_methods
    ),
    ViTClassifier: Family(
        inputs=inputs.image_inputs,
        graphs=graphs.vit_classifier_graphs,
        methods=stand_ins.vit_classifier_methods,
    ),
    Translator: Family(
        inputs=inputs.pair_inputs,
        graphs=graphs.translator_graphs,
        methods=stand_ins.translator_methods,
        start=inputs.sources_of_texts,
    ),
    Captioner: Family(
        inputs=inputs.caption_inputs,
        graphs=graphs.captioner_graphs,
        methods=stand_ins.captioner_methods,
        start=inputs.images_and_tokens,
    ),
    Transcriber: Family(
        inputs=inputs.speech_inputs,
        graphs=None,
        methods=stand_ins.transcriber_methods,
        start=inputs.sounds_and_tokens,
    ),
}
"""Class of a model -> how it is exported; every other class is refused."""


def graphs_of(model: nn.Module) -> list[Graph]:
    """Return the graphs of a model of plain classes, whose kernels it replaces.

    The class must have graphs.
    """
    for attention in [one for one in model.modules() if isinstance(one, MultiHeadAttention)]:
        if isinstance(attention.kernel, SoftmaxKernel):
            attention.kernel = FiniteScores(attention.kernel)
    graphs = FAMILIES[type(model)].graphs
    assert graphs is not None
    return graphs(model)


def stand_in(family: str, config: object, sessions: Sessions) -> nn.Module:
    """Return a model of a family whose methods call the sessions of its graphs."""
    model: nn.Module = without_weights(family, config)
    for name, method in FAMILIES[type(model)].methods(model, sessions).items():
        setattr(model, name, method)
    return model
