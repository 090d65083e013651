"""Every kernel and every model that the property tests run over. A new one joins by one line."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.attention import (
    Additive,
    Bilinear,
    Dot,
    FlexDot,
    FusedDot,
    Kernel,
    LinearDot,
    LinearElu,
    MultiHeadAttention,
    ScaledDot,
    SlidingWindow,
)
from headway.decoding import Forbidden, Limits
from headway.models import (
    GPT,
    Captioner,
    CaptionerConfig,
    GPTConfig,
    Translator,
    TranslatorConfig,
    ViT,
    ViTConfig,
)

PAD, BOS, EOS = 0, 1, 2
VOCABULARY = 11

KERNELS: dict[str, Callable[[int, int, int], Kernel]] = {
    "scaled dot": lambda heads, query, key: ScaledDot(),
    "fused dot": lambda heads, query, key: FusedDot(),
    "flex dot": lambda heads, query, key: FlexDot(),
    "dot": lambda heads, query, key: Dot(),
    "bilinear": Bilinear,
    "additive": lambda heads, query, key: Additive(heads, query, key, 5),
    "linear": lambda heads, query, key: LinearDot(),
    "linear elu": lambda heads, query, key: LinearElu(),
    "window": lambda heads, query, key: SlidingWindow(3),
}
"""Made for so many heads, and queries and keys of these widths."""
BUILT_WITH = "fused dot"
"""The kernel of a model whose configuration names none."""

_tiny = TranslatorConfig(
    model_dim=24,
    num_heads=3,
    ffn_dim=40,
    encoder_layers=2,
    decoder_layers=2,
    dropout=0.1,
    source_vocabulary=VOCABULARY,
    target_vocabulary=VOCABULARY,
)


@dataclass(frozen=True)
class Family:
    """A kind of model, and how to feed it.

    inputs(rows, pad, extra): what `start` takes, for a list of source (or prompt) id lists, padded
    by `pad` and `extra` columns more than need be. full(model, rows, read, pad, extra): logits of
    all positions of `read` at once. width(rows, length): positions that the decoder then sees.
    keys(rows): which places of what the encoder reads are real.
    """

    build: Callable[[], nn.Module]
    inputs: Callable[..., tuple[Any, ...]]
    full: Callable[..., Tensor]
    width: Callable[[list[list[int]], int], int]
    keys: Callable[[list[list[int]]], Tensor | None] = lambda rows: sources(rows)[1]


def sources(rows: list[list[int]], pad: int = PAD, extra: int = 0) -> tuple[Tensor, Tensor | None]:
    """Padded ids and their mask; `extra` columns of padding nobody needs."""
    longest = max(map(len, rows)) + extra
    ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    keys = torch.arange(longest) < torch.tensor([[len(row)] for row in rows])
    return ids, None if bool(keys.all()) else keys


def _translator(**changes: Any) -> Family:
    def full(
        model: Translator, rows: list[list[int]], read: Tensor, pad: int = PAD, extra: int = 0
    ) -> Tensor:
        ids, keys = sources(rows, pad, extra)
        return model(ids, read, keys)

    def build() -> nn.Module:
        return Translator(replace(_tiny, **changes)).eval()

    return Family(build, sources, full, lambda rows, length: length)


_tiny_gpt = GPTConfig(
    model_dim=24,
    num_heads=6,
    ffn_dim=40,
    num_layers=2,
    dropout=0.1,
    max_length=32,
    vocabulary=VOCABULARY,
)
_modern = {
    "num_kv_heads": 2,
    "norm_kind": "rms",
    "qk_norm": True,
    "activation": "swiglu",
    "bias": False,
    "positions": "rotary",
}


def _gpt(**changes: Any) -> Family:
    """What a translator reads as its source stands here before the target, in the same row."""

    def full(
        model: GPT, rows: list[list[int]], read: Tensor, pad: int = PAD, extra: int = 0
    ) -> Tensor:
        together = [row + written for row, written in zip(rows, read.tolist(), strict=True)]
        logits = model(sources(together, pad, extra)[0])
        starts = torch.tensor([[len(row)] for row in rows])
        return logits[torch.arange(len(rows))[:, None], starts + torch.arange(read.shape[1])]

    def build() -> nn.Module:
        return GPT(replace(_tiny_gpt, **changes)).eval()

    return Family(build, sources, full, lambda rows, length: max(map(len, rows)) + length)


_tiny_vit = ViTConfig(
    model_dim=24,
    num_heads=3,
    ffn_dim=40,
    num_layers=2,
    dropout=0.1,
    image_size=8,
    image_width=12,
    patch_size=4,
    patch_width=2,
    channels=3,
)


def pictures(rows: list[list[int]], pad: int = PAD, extra: int = 0) -> tuple[Tensor]:
    """What a captioner looks at where a translator reads `rows`: another picture for each row.
    Pictures are of one size, so there is no padding."""
    drawn = [
        torch.randn(3, 8, 12, generator=torch.Generator().manual_seed(hash(tuple(row)) % 2**31))
        for row in rows
    ]
    return (torch.stack(drawn),)


def _captioner(vit: dict[str, Any], **changes: Any) -> Family:
    """Its encoder is narrower than its decoder."""
    sees = replace(_tiny_vit, **{"model_dim": 12, **vit})
    config = CaptionerConfig(vit=sees, gpt=replace(_tiny_gpt, **changes))

    def full(
        model: Captioner, rows: list[list[int]], read: Tensor, pad: int = PAD, extra: int = 0
    ) -> Tensor:
        return model(*pictures(rows), read)

    return Family(
        lambda: Captioner(config).eval(),
        pictures,
        full,
        lambda rows, length: length,
        lambda rows: torch.ones(len(rows), 12 + sees.class_token, dtype=torch.bool),
    )


MODELS: dict[str, Family] = {
    "translator": _translator(),
    "translator post-norm": _translator(norm="post", activation="gelu"),
    "translator learned positions": _translator(positions="learned", max_length=32),
    "translator concatenated positions": _translator(
        position_dim=6, tie_output=False, share_embeddings=False, target_vocabulary=13
    ),
    "translator rotary": _translator(positions="rotary"),
    "translator alibi": _translator(positions="alibi"),
    "translator relative": _translator(positions="relative"),
    "rnn": _translator(encoder="rnn", decoder="rnn"),
    "rnn lstm input feeding": _translator(
        encoder="rnn", decoder="rnn", cell="lstm", input_feeding=True, bidirectional=False
    ),
    "rnn without attention": _translator(
        encoder="rnn", decoder="rnn", attention="none", cell="lstm"
    ),
    "transformer under rnn": _translator(decoder="rnn"),
    "rnn under transformer": _translator(encoder="rnn"),
    "feed-forward under transformer": _translator(encoder="feed-forward"),
    "feed-forward under rnn without attention": _translator(
        encoder="feed-forward", decoder="rnn", attention="none"
    ),
    "translator without positions": _translator(positions="none", share_embeddings=False),
    "gpt": _gpt(),
    "gpt modern": _gpt(**_modern),
    "gpt post-norm": _gpt(norm="post", activation="gelu", tie_output=False),
    "gpt alibi, one key head": _gpt(positions="alibi", num_kv_heads=1),
    "captioner": _captioner({}),
    "captioner modern": _captioner({"class_token": False}, **_modern),
}


VITS: dict[str, Callable[[], ViT]] = {
    name: lambda changes=changes: ViT(replace(_tiny_vit, **changes)).eval()
    for name, changes in {
        "vit": {},
        "vit sinusoidal": {"positions": "sinusoidal"},
        "vit without positions": {"positions": "none"},
        "vit with registers": {"registers": 2},
        "vit without a class token": {"class_token": False},
        "dinov2": {"layer_scale": 0.3, "mask_token": True, "activation": "swiglu"},
    }.items()
}
"""Encoders of images of 8 x 12 pixels of 3 channels, in 2 x 6 patches."""


def with_kernel(model: nn.Module, name: str) -> nn.Module:
    """The same weights, every attention computed by another kernel.

    A window has no meaning between two sequences: there the kernel stays.
    """
    for place, module in model.named_modules():
        across = place.endswith("cross")
        if isinstance(module, MultiHeadAttention) and not (name == "window" and across):
            head_dim = module.query.out_features // module.num_heads
            module.kernel = KERNELS[name](module.num_heads, head_dim, head_dim)
    return model


def limits(rows: list[list[int]], longest: int = 9) -> Limits:
    return Limits(BOS, EOS, [longest] * len(rows), [Forbidden([[PAD], [BOS]])])


def some_rows(count: int, seed: int = 0) -> list[list[int]]:
    """Sources of different lengths, ended by EOS."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 8, (count,), generator=generator).tolist()
    return [
        [*torch.randint(3, VOCABULARY, (n,), generator=generator).tolist(), EOS] for n in lengths
    ]
