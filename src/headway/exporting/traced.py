"""Modules that compute with tensors only, as a graph does: keys and values go in and come out.

They call the blocks of the model as its own methods do. What differs is what a graph cannot have: a
cache that grows in place, and lengths that are numbers of Python.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import nn

from headway.attention import (
    AttentionPositions,
    CappedDot,
    Kernel,
    KeyValues,
    LayerCache,
    Mask,
    MultiHeadAttention,
    SinkDot,
    SlidingWindow,
    Step,
)
from headway.attention.kernel import (
    Bias,
    Contexts,
    Keys,
    Queries,
    SoftmaxKernel,
    Values,
    Weights,
    spread,
)
from headway.base.shapes import Float, Int, Tensor
from headway.blocks import Decoder, DecoderBlock, DecoderOnlyBlock, Embeddings
from headway.models import GPT, Captioner, Translator


class FiniteScores(Kernel):
    """The twin of a kernel with a softmax, in which hidden scores are finite.

    OpenVINO 2026.4 cannot compile the test for queries without any key. Here their weights are
    equal, and then 0 as those of all hidden keys.
    """

    def __init__(self, kernel: SoftmaxKernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, q: Queries, k: Keys, v: Values, mask: Mask, bias: Bias = None) -> Contexts:
        return self.weights(q, k, mask, bias) @ spread(v, q.shape[1])

    def weights(self, q: Queries, k: Keys, mask: Mask, bias: Bias = None) -> Weights:
        if isinstance(self.kernel, SlidingWindow | CappedDot):
            mask = self.kernel.narrowed(mask)
        scores = self.kernel.scores(q, spread(k, q.shape[1]))
        scores = scores if bias is None else scores + bias
        allowed = mask.dense(q.shape[2], k.shape[2], q.device)
        keys = k.shape[2]
        if isinstance(self.kernel, SinkDot):
            scores, allowed = self.kernel.with_sinks(scores, allowed)
        lowest = torch.finfo(scores.dtype).min
        weights = torch.where(allowed, scores, lowest).softmax(-1) * allowed.to(scores.dtype)
        return weights[..., :keys]


class Reading(nn.Module):
    """An encoder of texts, and what is computed from its vectors.

    outputs: returns the outputs from the model, the tokens, the mask and the types.
    """

    def __init__(self, model: nn.Module, outputs: Callable[..., tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.model, self.outputs = model, outputs

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Int[Tensor, "B T"],
        token_type_ids: Int[Tensor, "B T"] | None = None,
    ) -> tuple[Tensor, ...]:
        return self.outputs(self.model, input_ids, attention_mask.bool(), token_type_ids)


class Seeing(nn.Module):
    """A model of images."""

    def __init__(self, compute: Callable[[Tensor], Tensor], model: nn.Module) -> None:
        super().__init__()
        self.compute, self.model = compute, model  # as a submodule, its weights are known

    def forward(self, pixel_values: Float[Tensor, "B C Y X"]) -> tuple[Tensor, ...]:
        return (self.compute(pixel_values),)


class _Appended(LayerCache):
    """Keys and values of one layer: those of earlier tokens are inputs, those of all outputs."""

    def __init__(self, past: Sequence[Tensor]) -> None:
        self.stores = [*past]

    def append(self, step: Step, *new: Float[Tensor, "N H T _"]) -> list[Float[Tensor, "N H S _"]]:
        pairs = zip(self.stores, new, strict=True)
        self.stores = [torch.cat((past, x), dim=2) for past, x in pairs]
        return self.stores


@dataclass(frozen=True, eq=False)
class _Placed(Step):
    """A step whose tokens have other positions than places: sequences are padded at the left.

    places: of the tokens among the keys. Rotary positions follow `positions`; distances between
    tokens (ALiBi, relative positions) are those of places.
    """

    places: Int[Tensor, "1 T"] | None = None

    def placed(self, scheme: AttentionPositions | None, dtype: torch.dtype) -> Step:
        if scheme is None or scheme is self.scheme:
            return self
        assert self.places is not None
        angles = scheme.cos_sin(self.positions, dtype)
        bias = scheme.bias(self.places, self.num_keys)
        return replace(self, scheme=scheme, cos_sin=angles, bias=bias)


def _step(
    positions: Int[Tensor, "#B T"], past: int, keys: Tensor | None = None
) -> tuple[_Placed, Mask]:
    """Return the step of T tokens after `past` others. keys: True = a real token."""
    tokens = positions.shape[1]
    mask = Mask(causal=True, keys=keys)
    places = torch.arange(past, past + tokens, device=positions.device)[None]
    return _Placed(positions, mask, past + tokens, places=places), mask


def _embedded(
    embedding: Embeddings, tokens: Int[Tensor, "B T"], positions: Int[Tensor, "#B T"]
) -> Float[Tensor, "B T D"]:
    x = embedding.positions(embedding.tokens(tokens) * embedding.scale, positions)
    return cast("Tensor", embedding.norm(x))


class Writing(nn.Module):
    """One or more tokens of a language model after those whose keys and values are known."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Int[Tensor, "B S"],
        position_ids: Int[Tensor, "B T"],
        past: list[Float[Tensor, "B G P K"]],
    ) -> tuple[Tensor, ...]:
        model = self.model
        step, _ = _step(position_ids, past[0].shape[2], attention_mask.bool())
        caches = [_Appended(past[2 * i : 2 * i + 2]) for i in range(len(past) // 2)]
        x = _embedded(model.embedding, input_ids, position_ids)
        for block, cache in zip(model.decoder.blocks, caches, strict=True):
            x = cast("DecoderOnlyBlock", block).step(x, step, cache)
        present = [store for cache in caches for store in cache.stores]
        return (model.logits(model.decoder.norm(x)), *present)


class Encoding(nn.Module):
    """The encoder of a translator."""

    def __init__(self, model: Translator) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Int[Tensor, "B S"], attention_mask: Int[Tensor, "B S"]
    ) -> tuple[Tensor, ...]:
        return (self.model.encode(input_ids, attention_mask.bool()),)


class Decoding(nn.Module):
    """One or more target tokens after those whose keys and values are known.

    keeps: whether the keys and values of the source are inputs and outputs, too. They are computed
    for the positions that are not yet known: for all in the first step, later for none.
    """

    def __init__(self, model: Translator | Captioner, keeps: bool) -> None:
        super().__init__()
        self.model, self.keeps = model, keeps

    def forward(
        self,
        encoder_attention_mask: Int[Tensor, "B S"] | None,
        input_ids: Int[Tensor, "B T"],
        encoder_hidden_states: Float[Tensor, "B S D"],
        past: list[Float[Tensor, "B H _ _"]],
    ) -> tuple[Tensor, ...]:
        model, stride = self.model, 4 if self.keeps else 2
        known = past[0].shape[2]
        positions = torch.arange(known, known + input_ids.shape[1])[None]
        step, _ = _step(positions, known)
        keys = None if encoder_attention_mask is None else encoder_attention_mask.bool()
        if isinstance(model, Translator):
            embedding, scale = model.target_embedding, model.output_scale
        else:
            embedding, scale = model.embedding, 1.0
        x, present = _embedded(embedding, input_ids, positions), []
        decoder = cast("Decoder", model.decoder)
        for i, block in enumerate(cast("Iterable[DecoderBlock]", decoder.blocks)):
            here = past[stride * i : stride * (i + 1)]
            cache = _Appended(here[:2])
            source = _source(block.cross, encoder_hidden_states, here[2:])
            x = block.step(x, source, Mask(keys=keys), step, cache)
            present += [*cache.stores, *(source if self.keeps else ())]
        return (model.output(decoder.norm(x) * scale), *present)


class Captioning(Decoding):
    """The decoder of a captioner: its source, an image, has no padding."""

    def forward(  # type: ignore[override]
        self,
        input_ids: Int[Tensor, "B T"],
        encoder_hidden_states: Float[Tensor, "B S D"],
        past: list[Float[Tensor, "B H _ _"]],
    ) -> tuple[Tensor, ...]:
        return super().forward(None, input_ids, encoder_hidden_states, past)


def _source(
    cross: MultiHeadAttention, hidden: Float[Tensor, "B S E"], past: Sequence[Tensor]
) -> KeyValues:
    """Return keys and values of the source. past: those that are known; empty: none is kept."""
    if not past:
        return cross.keys_values(hidden)
    rest = hidden[:, past[0].shape[2] :]  # all positions or none
    # sizes are named, since none can be inferred from a tensor without elements
    k = cross.key(rest).unflatten(-1, (cross.num_heads, cross.head_dim)).transpose(1, 2)
    v = cross.value(rest).unflatten(-1, (cross.num_heads, cross.value_dim)).transpose(1, 2)
    return KeyValues(torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2))
