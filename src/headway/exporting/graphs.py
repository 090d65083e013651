"""The graphs of a model: modules that compute with tensors only, and the names of these tensors.

A graph has no state: the keys and values of earlier tokens are inputs, and those of all tokens are
outputs. Names and axes are those of Hugging Face's Optimum, which transformers.js reads, too: an
encoder reads `input_ids` and `attention_mask`; a decoder also `past_key_values.0.key` and so on. A
translator is two graphs: `encoder_model`, and `decoder_model_merged`, which computes the first step
(an empty past) and all others.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import nn

from headway.base.shapes import Tensor
from headway.exporting.traced import Captioning, Decoding, Encoding, Reading, Seeing, Writing
from headway.models import (
    GPT,
    Bert,
    BertQuestionAnswering,
    Captioner,
    Translator,
    ViT,
    ViTClassifier,
)
from headway.models.classifier import TextClassifier

BATCH, LENGTH, PAST = "batch_size", "sequence_length", "past_sequence_length"
TOTAL, SOURCE = "total_sequence_length", "encoder_sequence_length"
PAST_SOURCE = "past_encoder_sequence_length"

Axes = tuple[str | int, ...]
Kind = Literal["token", "type", "keys", "position", "number"]


@dataclass(frozen=True)
class Argument:
    """An input of a graph. kind: of its values. below: the largest integer is one less."""

    name: str
    axes: Axes
    kind: Kind = "number"
    below: int = 2


@dataclass(frozen=True)
class Graph:
    """One ONNX file.

    name: of the file, without its ending. module: computes the outputs from the inputs, in this
    order, as a tuple. outputs: name -> axes.
    """

    name: str
    module: nn.Module
    inputs: tuple[Argument, ...]
    outputs: dict[str, Axes]

    def arguments(self, values: list[Any]) -> tuple[Any, ...]:
        """Return the values of the inputs as the module takes them: keys and values are a list."""
        names = [one.name for one in self.inputs]
        first = next((i for i, name in enumerate(names) if name.startswith("past_")), None)
        return tuple(values) if first is None else (*values[:first], values[first:])

    def example(self, sizes: dict[str, int], generator: torch.Generator) -> list[Tensor]:
        """Return random inputs. sizes: of the axes by name.

        In `attention_mask`, the first tokens of the last sequence are padding: a decoder reads
        padding at the left.
        """
        return [_random(argument, sizes, generator) for argument in self.inputs]


def _random(argument: Argument, sizes: dict[str, int], generator: torch.Generator) -> Tensor:
    shape = [sizes[axis] if isinstance(axis, str) else axis for axis in argument.axes]
    match argument.kind:
        case "number":
            return torch.randn(shape, generator=generator)
        case "position":
            past = sizes[PAST]
            return torch.arange(past, past + shape[1]).expand(shape).contiguous()
        case "keys":
            return torch.ones(shape, dtype=torch.long)
        case "token" | "type":
            return torch.randint(argument.below, shape, generator=generator)


def _text_graph(
    model: nn.Module,
    vocabulary: int,
    types: int,
    outputs: dict[str, Axes],
    compute: Callable[..., tuple[Tensor, ...]],
) -> list[Graph]:
    axes: Axes = (BATCH, LENGTH)
    inputs = [Argument("input_ids", axes, "token", vocabulary), _keys("attention_mask", axes)]
    if types > 1:
        inputs.append(Argument("token_type_ids", axes, "type", types))
    return [Graph("model", Reading(model, compute), tuple(inputs), outputs)]


def _keys(name: str, axes: Axes) -> Argument:
    return Argument(name, axes, "keys")


def bert_graphs(model: Bert) -> list[Graph]:
    """Return the graph of an encoder: logits of words if it has that head, else vectors."""
    config, vectors = model.config, (BATCH, LENGTH, model.config.model_dim)
    if model.masked_lm_head is not None:
        outputs: dict[str, Axes] = {"logits": (BATCH, LENGTH, config.vocabulary)}
        compute: Callable[..., tuple[Tensor, ...]] = _output
        if model.next_sentence is not None:
            outputs["seq_relationship_logits"] = (BATCH, 2)
            compute = _words_and_pairs
    else:
        outputs, compute = {"last_hidden_state": vectors}, _vectors
    return _text_graph(model, config.vocabulary, config.token_types, outputs, compute)


def _output(model: nn.Module, *inputs: Tensor | None) -> tuple[Tensor, ...]:
    return (model(*inputs),)


def _words_and_pairs(model: Bert, tokens: Tensor, *others: Tensor | None) -> tuple[Tensor, ...]:
    hidden = model.encode(tokens, *others)
    return model.words(hidden), model.follows(hidden)


def _vectors(model: Bert, tokens: Tensor, *others: Tensor | None) -> tuple[Tensor, ...]:
    return (model.encode(tokens, *others),)


def _spans(model: BertQuestionAnswering, *inputs: Tensor | None) -> tuple[Tensor, ...]:
    logits: Tensor = model(*inputs)
    return logits.unbind(-1)


def graphs_with_head(axes: Axes, count: str) -> Callable[[Any], list[Graph]]:
    """Return the function from an encoder with a head to its graph. count: of outputs, in the
    configuration."""

    def graphs(model: Any) -> list[Graph]:
        bert, size = model.config.bert, getattr(model.config, count)
        outputs: dict[str, Axes] = {"logits": (*axes, size)}
        return _text_graph(model, bert.vocabulary, bert.token_types, outputs, _output)

    return graphs


def answer_graphs(model: BertQuestionAnswering) -> list[Graph]:
    """Return the graph of a question-answering model: logits of first and last tokens."""
    bert = model.config.bert
    outputs: dict[str, Axes] = dict.fromkeys(("start_logits", "end_logits"), (BATCH, LENGTH))
    return _text_graph(model, bert.vocabulary, bert.token_types, outputs, _spans)


def text_classifier_graphs(model: TextClassifier) -> list[Graph]:
    """Return the graph of a GPT with a classifier."""
    outputs: dict[str, Axes] = {"logits": (BATCH, model.config.num_classes)}
    return _text_graph(model, model.config.gpt.vocabulary, 0, outputs, _output)


def _pixels(vit: Any) -> Argument:
    # the size is fixed: learned positions of another grid are interpolated
    return Argument("pixel_values", (BATCH, vit.channels, *vit.image))


def _tokens_of(vit: ViT) -> int:
    rows, columns = vit.config.grid
    return rows * columns + vit.embedding.num_prefix_tokens


def vit_graphs(model: ViT, name: str = "model") -> list[Graph]:
    """Return the graph of an image encoder: its vectors."""
    axes: Axes = (BATCH, _tokens_of(model), model.config.model_dim)
    pixels = (_pixels(model.config),)
    return [Graph(name, Seeing(model.encode, model), pixels, {"last_hidden_state": axes})]


def vit_classifier_graphs(model: ViTClassifier) -> list[Graph]:
    """Return the graph of an image classifier: the logits of its classes."""
    outputs: dict[str, Axes] = {"logits": (BATCH, model.config.num_classes)}
    return [Graph("model", Seeing(model, model), (_pixels(model.config.vit),), outputs)]


def gpt_graphs(model: GPT) -> list[Graph]:
    """Return the graph of a language model with its cache."""
    config, now = model.config, (BATCH, LENGTH)
    inputs = [
        Argument("input_ids", now, "token", config.vocabulary),
        _keys("attention_mask", (BATCH, TOTAL)),
        Argument("position_ids", now, "position"),
    ]
    outputs: dict[str, Axes] = {"logits": (*now, config.vocabulary)}
    for i in range(config.num_layers):
        for kind in ("key", "value"):
            shape = (config.kv_heads, config.head_width)
            inputs.append(Argument(f"past_key_values.{i}.{kind}", _cached(*shape, PAST)))
            outputs[f"present.{i}.{kind}"] = _cached(*shape, TOTAL)
    return [Graph("model", Writing(model), tuple(inputs), outputs)]


def _cached(heads: int, width: int, length: str) -> Axes:
    return (BATCH, heads, length, width)


def translator_graphs(model: Translator) -> list[Graph]:
    """Return the graphs of encoder and decoder, which keeps the source's keys and values."""
    config, source = model.config, (BATCH, SOURCE)
    ids = Argument("input_ids", source, "token", config.source_vocabulary)
    encoder = Graph(
        "encoder_model",
        Encoding(model),
        (ids, _keys("attention_mask", source)),
        {"last_hidden_state": (*source, config.model_dim)},
    )
    decoder = _decoder_graph(
        model,
        (config.target_vocabulary, config.decoder_layers, config.num_heads, config.head_width),
        (*source, config.model_dim),
        keeps=True,
    )
    return [encoder, decoder]


def captioner_graphs(model: Captioner) -> list[Graph]:
    """Return the graphs of encoder and decoder, which reads the image at each step."""
    gpt, vit = model.config.gpt, model.config.vit
    source: Axes = (BATCH, _tokens_of(model.vit), vit.model_dim)
    encoder = replace(vit_graphs(model.vit, "encoder_model")[0], module=Seeing(model.encode, model))
    sizes = (gpt.vocabulary, gpt.num_layers, gpt.kv_heads, gpt.head_width)
    return [encoder, _decoder_graph(model, sizes, source, keeps=False)]


def _decoder_graph(
    model: Translator | Captioner, sizes: tuple[int, int, int, int], source: Axes, keeps: bool
) -> Graph:
    """Return the graph of a decoder with a source. sizes: vocabulary, layers, heads, head width.

    source: axes of the encoder's vectors.
    """
    vocabulary, layers, heads, width = sizes
    now = (BATCH, LENGTH)
    inputs = [
        Argument("input_ids", now, "token", vocabulary),
        Argument("encoder_hidden_states", source),
    ]
    if keeps:
        inputs.insert(0, _keys("encoder_attention_mask", source[:2]))
    outputs: dict[str, Axes] = {"logits": (*now, vocabulary)}
    for i in range(layers):
        for kind in ("key", "value") if not keeps else DECODER_KINDS:
            is_source = kind.startswith("encoder")
            before, after = (PAST_SOURCE, SOURCE) if is_source else (PAST, TOTAL)
            name = f"past_key_values.{i}.{kind}"
            inputs.append(Argument(name, _cached(heads, width, before)))
            outputs[f"present.{i}.{kind}"] = _cached(heads, width, after)
    module = Decoding(model, keeps) if keeps else Captioning(model, keeps)
    return Graph("decoder_model_merged", module, tuple(inputs), outputs)


DECODER_KINDS = ("decoder.key", "decoder.value", "encoder.key", "encoder.value")
