"""Learning rate as a function of the step, and of nothing else: so resuming is exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from headway.settings import setting


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    kind: Literal["inverse-sqrt", "cosine", "linear", "constant", "warmup-stable-decay"] = setting(
        "inverse-sqrt", "how the learning rate falls after the warm-up"
    )
    warmup: int = setting(400, "steps over which the learning rate rises from 0", ge=0)
    decay: float = setting(
        0.2, "of kind=warmup-stable-decay: it falls over this last share of the steps", gt=0, le=1
    )
    final: float = setting(
        0.0,
        "cosine, linear and warmup-stable-decay end at this share of the highest rate",
        ge=0,
        le=1,
    )


def learning_rate(config: ScheduleConfig, highest: float, step: int, total_steps: int) -> float:
    """Rate of update number `step`, counted from 1.

    Warm-up: highest * step / warmup. Then
    inverse-sqrt: highest * sqrt(warmup / step) (Vaswani et al. 2017, equation 3, whose
    D^-1/2 warmup^-1/2 is `highest`); cosine: half a cosine from highest to final * highest at
    `total_steps` (Loshchilov and Hutter 2017); linear: a straight line to the same;
    warmup-stable-decay: highest until the last `decay` of the steps, where it falls by
    1 - sqrt(share of the fall that is over) to the same (Hu et al. 2024, section 4; the shape is
    Hägele et al. 2024's, section 3, who find it better than a straight line). A warm-up that
    reaches into the fall shortens the fall.
    """
    warmup = config.warmup
    if step < 1:
        raise ValueError(f"{step=} must be at least 1")
    if step <= warmup:
        return highest * step / warmup
    if config.kind == "constant":
        return highest
    if config.kind == "inverse-sqrt":
        return highest * math.sqrt(max(warmup, 1) / step)
    start = warmup
    if config.kind == "warmup-stable-decay":
        start = max(warmup, total_steps - round(config.decay * total_steps))
    share = min(1.0, max(0, step - start) / max(1, total_steps - start))
    if config.kind == "cosine":
        fall = (1 + math.cos(math.pi * share)) / 2
    else:
        fall = 1 - (share if config.kind == "linear" else math.sqrt(share))
    return highest * (config.final + (1 - config.final) * fall)
