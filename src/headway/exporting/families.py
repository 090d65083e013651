"""Every class of models that can be exported: its inputs, its graphs, and who computes them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.attention import MultiHeadAttention
from headway.attention.kernel import SoftmaxKernel
from headway.base.shapes import Tensor
from headway.exporting import graphs, inputs, methods_by_graphs, transformers_runtime
from headway.exporting.graphs import BATCH, LENGTH, Graph
from headway.exporting.inputs import Inputs
from headway.exporting.methods_by_graphs import Sessions
from headway.exporting.traced import FiniteScores
from headway.exporting.without_weights import Method, computed_model
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
    methods by name, computed by the sessions of its graphs. sessions: returns these for a model of
    transformers. start: makes what a model that writes starts from, and first tokens.
    """

    inputs: Callable[[Any, int, int, torch.Generator], Inputs]
    graphs: Callable[[Any], list[Graph]] | None
    methods: Callable[[Any, Sessions], dict[str, Method]]
    sessions: Callable[[Any], Sessions] = transformers_runtime.reading
    start: Callable[[Any, torch.Generator], tuple[Inputs, Tensor]] | None = None


FAMILIES: dict[type[nn.Module], Family] = {
    GPT: Family(
        inputs=inputs.language_inputs,
        graphs=graphs.gpt_graphs,
        methods=methods_by_graphs.gpt_methods,
        sessions=transformers_runtime.writing,
        start=inputs.prompts,
    ),
    Bert: Family(
        inputs=inputs.text_inputs, graphs=graphs.bert_graphs, methods=methods_by_graphs.bert_methods
    ),
    BertClassifier: Family(
        inputs=inputs.text_inputs,
        graphs=graphs.graphs_with_head((BATCH,), "num_classes"),
        methods=methods_by_graphs.head_methods,
    ),
    BertTagger: Family(
        inputs=inputs.text_inputs,
        graphs=graphs.graphs_with_head((BATCH, LENGTH), "num_tags"),
        methods=methods_by_graphs.head_methods,
    ),
    BertQuestionAnswering: Family(
        inputs=inputs.text_inputs,
        graphs=graphs.answer_graphs,
        methods=methods_by_graphs.answer_methods,
    ),
    TextClassifier: Family(
        inputs=inputs.text_inputs,
        graphs=graphs.text_classifier_graphs,
        methods=methods_by_graphs.head_methods,
    ),
    # without padding, at which vectors differ, and no text depends on them
    TextEmbedder: Family(
        inputs=inputs.language_inputs,
        graphs=None,
        methods=methods_by_graphs.embedder_methods,
        sessions=transformers_runtime.embedding,
    ),
    ViT: Family(
        inputs=inputs.image_inputs, graphs=graphs.vit_graphs, methods=methods_by_graphs.vit_methods
    ),
    ViTClassifier: Family(
        inputs=inputs.image_inputs,
        graphs=graphs.vit_classifier_graphs,
        methods=methods_by_graphs.vit_classifier_methods,
    ),
    Translator: Family(
        inputs=inputs.pair_inputs,
        graphs=graphs.translator_graphs,
        methods=methods_by_graphs.translator_methods,
        sessions=transformers_runtime.translating,
        start=inputs.sources_of_texts,
    ),
    Captioner: Family(
        inputs=inputs.caption_inputs,
        graphs=graphs.captioner_graphs,
        methods=methods_by_graphs.captioner_methods,
        sessions=transformers_runtime.describing,
        start=inputs.images_and_tokens,
    ),
    Transcriber: Family(
        inputs=inputs.speech_inputs,
        graphs=None,
        methods=methods_by_graphs.transcriber_methods,
        sessions=transformers_runtime.describing,
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


def computed_by(config: Any, sessions: Callable[[Family], Sessions]) -> Any:
    """Return a model without weights whose methods call the sessions of its graphs."""

    def methods(model: nn.Module) -> dict[str, Method]:
        family = FAMILIES[type(model)]
        return family.methods(model, sessions(family))

    return computed_model(config, methods)
