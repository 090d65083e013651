"""Scaled rotary positions: f_i <- r_i f_i + (1 - r_i) f_i / s, lower frequencies for long texts.

A model that was trained with L positions has never seen the angles of later ones. Dividing the
frequencies by a factor s makes s L positions turn as far as L did. Only the slow pairs need it,
which have not made a whole turn in L positions; fast ones keep the distances of near tokens apart.

>>> import torch
>>> from headway.attention import RotaryScaling
>>> plain = torch.tensor([1.0, 0.1, 0.001])  # radians per position
>>> RotaryScaling(kind="linear", factor=4.0).frequencies(plain, base=10_000.0)
tensor([0.2500, 0.0250, 0.0003])
>>> llama = RotaryScaling(kind="llama3", factor=4.0, original_length=100)
>>> llama.frequencies(plain, base=10_000.0) / plain  # of 16, 1.6 and 0.016 turns
tensor([1.0000, 0.3979, 0.2500])
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from headway.base.settings import LENGTH, count, setting
from headway.base.shapes import Float, Tensor


@dataclass(frozen=True, kw_only=True)
class RotaryScaling:
    """How the P frequencies f_i of rotary positions are lowered; n_i = L f_i / 2 pi are turns.

    linear: f_i / s. llama3: f_i (r + (1 - r) / s) with r = (n_i - low) / (high - low), within 0 and
    1 (Llama 3.1). yarn: the same, but r falls linearly with i between the pairs that make `high`
    and `low` turns (Peng et al. 2023, section 3.2). longrope: f_i / pair_factors[i] (Ding et al.
    2024); its factors for longer texts are not used, since the keys of a cache would turn with
    them, so that texts end at L.
    """

    kind: Literal["none", "linear", "llama3", "yarn", "longrope"] = setting(
        "none", "how the frequencies of rotary positions are lowered for long texts"
    )
    factor: float = setting(1.0, "by how much the lowest frequencies are divided", gt=0)
    original_length: int = count(8192, "number of positions of the first training", LENGTH)
    low: float = setting(
        1.0, "pairs with fewer turns in the original length are divided by the factor", gt=0
    )
    high: float = setting(4.0, "pairs with more turns keep their frequency", gt=0)
    whole_pairs: bool = setting(True, "yarn: the pairs between which it changes are whole numbers")
    amplitude: float = setting(1.0, "factor of rotated queries and keys", gt=0)
    pair_factors: tuple[float, ...] = setting((), "longrope: the factor of each pair")

    def __post_init__(self) -> None:
        if self.kind in ("llama3", "yarn") and self.low >= self.high:
            raise ValueError(f"{self.low=} must be below {self.high=}: both are numbers of turns")
        if any(factor <= 0 for factor in self.pair_factors):
            raise ValueError(f"{self.pair_factors=} must be above 0: they divide frequencies")

    def check(self, num_pairs: int) -> None:
        """Raise ValueError unless there is a factor for each pair, where pairs have factors."""
        if self.kind == "longrope" and len(self.pair_factors) != num_pairs:
            raise ValueError(
                f"each of {num_pairs} rotated pairs needs a factor; {len(self.pair_factors)} are "
                "in pair_factors"
            )

    def frequencies(self, plain: Float[Tensor, " P"], base: float) -> Float[Tensor, " P"]:
        """Return the scaled frequencies for those without scaling, base^(-i/P)."""
        if self.kind == "none":
            return plain
        if self.kind == "linear":
            return plain / self.factor
        if self.kind == "longrope":
            return plain / plain.new_tensor(self.pair_factors)
        kept = self._kept_by_turns(plain) if self.kind == "llama3" else self._kept(plain, base)
        return plain * (kept + (1 - kept) / self.factor)

    def _kept_by_turns(self, plain: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        turns = self.original_length * plain / (2 * math.pi)
        return ((turns - self.low) / (self.high - self.low)).clamp(0, 1)

    def _kept(self, plain: Float[Tensor, " P"], base: float) -> Float[Tensor, " P"]:
        pairs = len(plain)
        first, last = (self._pair_with(turns, pairs, base) for turns in (self.high, self.low))
        if self.whole_pairs:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * pairs - 1)
        last = last if last != first else first + 1e-3
        pair = torch.arange(pairs, dtype=plain.dtype, device=plain.device)
        return 1 - ((pair - first) / (last - first)).clamp(0, 1)

    def _pair_with(self, turns: float, pairs: int, base: float) -> float:
        """Return the number of the pair that makes this number of turns, as a real number."""
        return pairs * math.log(self.original_length / (turns * 2 * math.pi)) / math.log(base)
