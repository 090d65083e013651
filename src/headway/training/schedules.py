"""Learning-rate schedules: the rate as a function of the fraction of the budget that is used."""

import math
from dataclasses import dataclass
from typing import Literal

from headway.base.settings import setting


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    kind: Literal["inverse-sqrt", "cosine", "linear", "constant", "warmup-stable-decay"] = setting(
        "cosine", "shape of the learning-rate decay after the warm-up"
    )
    warmup: float = setting(
        0.08,
        "warm-up, in which the learning rate rises linearly from 0: below 1, the fraction of the "
        "budget (steps or time, whichever ends first); else a number of steps, or half of the "
        "budget if it has no more",
        ge=0,
    )
    decay: float = setting(
        0.2,
        "warmup-stable-decay: final fraction of the budget, in which the learning rate falls",
        gt=0,
        le=1,
    )
    final: float = setting(
        0.01,
        "final learning rate of cosine, linear and warmup-stable-decay, relative to the maximum",
        ge=0,
        le=1,
    )


def learning_rate(
    config: ScheduleConfig, highest: float, step: int, total_steps: int | float
) -> float:
    """Return the learning rate of update number `step`, counted from 1.

    total_steps: the number of updates that the budget allows; for a budget of time, its present
    estimate, so that step / total_steps is the fraction of the time that is used
    (`training.budget`; Li, Yumer and Ramanan 2020).

    Warm-up: highest * step / warmup. Then, by `config.kind`:

    inverse-sqrt: highest * sqrt(warmup / step) (Vaswani et al. 2017, equation 3, whose
    D^-1/2 warmup^-1/2 is `highest`);
    cosine: half a cosine from highest to final * highest at `total_steps` (Loshchilov and Hutter
    2017);
    linear: a straight line from highest to final * highest;
    warmup-stable-decay: highest until the last fraction `decay` of the steps, then with
    1 - sqrt(fraction of the decay that is done) to final * highest (Hu et al. 2024, section 4; the
    shape is that of Hägele et al. 2024, section 3, who find it better than a straight line).

    A warm-up that overlaps with the decay shortens the decay.
    """
    if step < 1:
        raise ValueError(f"{step=} must be at least 1")
    warmup = warmup_steps(config, total_steps)
    if step <= warmup:
        return highest * step / warmup
    if config.kind == "constant":
        return highest
    if config.kind == "inverse-sqrt":
        return highest * math.sqrt(max(warmup, 1) / step)
    start = warmup
    if config.kind == "warmup-stable-decay":
        start = max(warmup, total_steps - round(config.decay * total_steps))
    fraction = min(1.0, max(0.0, step - start) / max(1.0, total_steps - start))
    if config.kind == "cosine":
        fall = (1 + math.cos(math.pi * fraction)) / 2
    else:
        fall = 1 - (fraction if config.kind == "linear" else math.sqrt(fraction))
    return highest * (config.final + (1 - config.final) * fall)


def warmup_steps(config: ScheduleConfig, total_steps: int | float) -> float:
    """Return the number of steps of the warm-up: half of all steps if it would take all of them."""
    steps = config.warmup if config.warmup >= 1 else config.warmup * total_steps
    return float(steps if steps < total_steps else total_steps / 2)
