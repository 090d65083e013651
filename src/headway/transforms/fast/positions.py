"""Fast twin of rotary positions: cosines and sines are computed once for all layers of a step."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch

from headway.attention.relative import Past, Rotary, positions_after
from headway.base.shapes import Float, Int, Tensor
from headway.transforms.tracing import tracing


class _Known(NamedTuple):
    """The positions that were rotated last, and their cosines and sines."""

    positions: Tensor
    cos: Tensor
    sin: Tensor


class FastRotary(Rotary):
    """`Rotary` that remembers the cosines and sines of the last tensor of positions.

    Queries and keys of all layers get the same one from `step_positions`. It must not be changed.
    """

    _known: _Known | None = None

    def cos_sin(
        self, positions: Int[Tensor, "#B T"], dtype: torch.dtype
    ) -> tuple[Float[Tensor, "#B 1 T P"], Float[Tensor, "#B 1 T P"]]:
        if tracing(positions):
            return super().cos_sin(positions, dtype)
        known = self._known
        if known is None or known.positions is not positions or known.cos.dtype != dtype:
            known = self._known = _Known(positions, *super().cos_sin(positions, dtype))
        return known.cos, known.sin


def step_positions(past: Past, num_tokens: int, device: torch.device) -> Int[Tensor, "#B T"]:
    """Return `positions_after`; all layers of a step get the same tensor."""
    if tracing():
        return positions_after(past, num_tokens, device)
    key = past if isinstance(past, Tensor) else tuple(past)
    # gradients may not use what was made without them
    return _last_positions(key, num_tokens, device, torch.is_inference_mode_enabled())


@lru_cache(maxsize=1)
def _last_positions(
    past: tuple[int, ...] | Tensor, num_tokens: int, device: torch.device, is_inference: bool
) -> Tensor:
    del is_inference  # part of the key only
    return positions_after(past, num_tokens, device)


def forget_last_positions() -> None:
    """Compute the next positions again, even if `past` is the same tensor, with other numbers."""
    _last_positions.cache_clear()
