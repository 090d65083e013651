"""Preference learning: the better of two answers becomes more probable than the worse one.

For a prompt x with a better answer y and a worse answer z, the log-probabilities are sums over the
tokens of an answer, and |y| is the number of its tokens. Each objective is a loss of

    r(y) = log p(y | x) - log p_ref(y | x)          the implicit reward, up to the factor beta
    d    = r(y) - r(z)                              the margin

    dpo    -(1 - e) log sigma(beta d) - e log sigma(-beta d)
    ipo    (d - 1 / (2 beta))^2
    simpo  -log sigma(beta (log p(y | x) / |y| - log p(z | x) / |z|) - gamma)
    orpo   -log p(y | x) / |y| - beta log sigma(o(y) - o(z)),   o(y) = log(P / (1 - P)),
           P = exp(log p(y | x) / |y|)

The reference p_ref is the model before training. simpo and orpo have none.

>>> import torch
>>> from headway.training import PreferenceConfig, preference_losses
>>> answers = AnswerPairs(
...     chosen=torch.tensor([-2.0]),
...     rejected=torch.tensor([-2.0]),
...     chosen_lengths=torch.tensor([2]),
...     rejected_lengths=torch.tensor([3]),
...     chosen_reference=torch.tensor([-2.0]),
...     rejected_reference=torch.tensor([-2.0]),
... )
>>> preference_losses(answers, PreferenceConfig())  # log 2: both answers are as probable as before
tensor([0.6931])
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
import torch.nn.functional as F

from headway.base.settings import setting
from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import positions_where
from headway.data.padding import IGNORED
from headway.models import GPT
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import plain_logits


@dataclass(frozen=True, kw_only=True)
class PreferenceConfig:
    """Which loss of two answers is minimised, and its constants."""

    kind: Literal["dpo", "ipo", "simpo", "orpo"] = setting(
        "dpo",
        "loss of a better and a worse answer: dpo and ipo compare with the model before training, "
        "simpo and orpo need no such reference",
    )
    beta: float | None = setting(
        None,
        "strength: of staying near the reference in dpo and ipo, of the length-normalised "
        "log-probabilities in simpo, of the odds ratio in orpo; if unset, 0.1, or 2 for simpo",
        gt=0,
    )
    gamma: float = setting(1.0, "margin between the two answers that simpo aims at", ge=0)
    smoothing: float = setting(
        0.0, "probability that the two answers of a pair are in the wrong order (dpo)", ge=0, lt=0.5
    )

    @property
    def strength(self) -> float:
        """beta, or its default for the kind of loss."""
        return self.beta or (2.0 if self.kind == "simpo" else 0.1)


@dataclass(frozen=True)
class AnswerPairs:
    """The log-probabilities of better and worse answers, and their lengths in tokens.

    chosen_reference, rejected_reference: those of the reference model.
    """

    chosen: Float[Tensor, " B"]
    rejected: Float[Tensor, " B"]
    chosen_lengths: Int[Tensor, " B"]
    rejected_lengths: Int[Tensor, " B"]
    chosen_reference: Float[Tensor, " B"]
    rejected_reference: Float[Tensor, " B"]

    @property
    def margins(self) -> Float[Tensor, " B"]:
        """d: how much the better answer gained on the worse one."""
        return (self.chosen - self.chosen_reference) - (self.rejected - self.rejected_reference)

    @property
    def means(self) -> tuple[Float[Tensor, " B"], Float[Tensor, " B"]]:
        """The mean log-probabilities of a token of the better and of the worse answers."""
        return self.chosen / self.chosen_lengths, self.rejected / self.rejected_lengths


def dpo(answers: AnswerPairs, config: PreferenceConfig) -> Float[Tensor, " B"]:
    """Direct preference optimisation. Rafailov et al. 2023, equation 7; with label smoothing e as
    in Mitchell 2023, equation 3."""
    logits = config.strength * answers.margins
    right, wrong = F.logsigmoid(logits), F.logsigmoid(-logits)
    return -(1 - config.smoothing) * right - config.smoothing * wrong


def ipo(answers: AnswerPairs, config: PreferenceConfig) -> Float[Tensor, " B"]:
    """Identity preference optimisation, whose margin has a target. Azar et al. 2023, equation 17.

    As in the paper, the log-probabilities are sums; TRL divides them by the lengths of the answers.
    """
    return (answers.margins - 1 / (2 * config.strength)).square()


def simpo(answers: AnswerPairs, config: PreferenceConfig) -> Float[Tensor, " B"]:
    """Simple preference optimisation: without a reference, by means over tokens. Meng et al. 2024,
    equation 6."""
    chosen, rejected = answers.means
    return -F.logsigmoid(config.strength * (chosen - rejected) - config.gamma)


def orpo(answers: AnswerPairs, config: PreferenceConfig) -> Float[Tensor, " B"]:
    """Odds-ratio preference optimisation: fine-tuning on the better answer, with a penalty for the
    odds of the worse one. Hong et al. 2024, equations 6 and 7.

    As in the paper, the first term is that of the answer; TRL's is that of prompt and answer.
    """
    chosen, rejected = answers.means
    ratio = _log_odds(chosen) - _log_odds(rejected)
    return -chosen - config.strength * F.logsigmoid(ratio)


def _log_odds(log_p: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
    """Return log(P / (1 - P)) of log P < 0."""
    below = log_p.clamp(max=-torch.finfo(log_p.dtype).eps)
    return below - torch.log(-torch.expm1(below))


LOSSES: Mapping[str, Callable[[AnswerPairs, PreferenceConfig], Tensor]] = {
    "dpo": dpo,
    "ipo": ipo,
    "simpo": simpo,
    "orpo": orpo,
}


def preference_losses(answers: AnswerPairs, config: PreferenceConfig) -> Float[Tensor, " B"]:
    """Return the loss of each pair of answers."""
    return LOSSES[config.kind](answers, config)


class Answers(Protocol):
    """B better answers after their prompts, then B worse ones, padded at the right.

    targets: the next token where it belongs to the answer, else -1. count: of these. reference: the
    log-probabilities of these 2 B answers under the reference model.
    """

    @property
    def tokens(self) -> Int[Tensor, "N T"]: ...

    @property
    def targets(self) -> Int[Tensor, "N T"]: ...

    @property
    def count(self) -> int: ...

    @property
    def reference(self) -> Float[Tensor, " N"]: ...


def answer_log_probabilities(
    model: GPT, tokens: Int[Tensor, "N T"], targets: Int[Tensor, "N T"], count: int | None = None
) -> Float[Tensor, " N"]:
    """Return log p(y | x) of each answer: the sum over its tokens, the targets that are not -1.

    count: the number of these targets. If None they are counted.
    """
    hidden = model.hidden(tokens).flatten(0, 1)
    flat = targets.flatten()
    learned = positions_where(flat != IGNORED, count)
    logits = plain_logits(model, hidden.index_select(0, learned))  # M V
    exact = torch.promote_types(logits.dtype, torch.float32)
    log_p = logits.to(exact).log_softmax(-1).gather(1, flat[learned, None])[:, 0]
    totals = log_p.new_zeros(len(tokens))
    return totals.index_add(0, learned // tokens.shape[1], log_p)


def answer_pairs(model: GPT, batch: Answers) -> AnswerPairs:
    """Compute the log-probabilities of the better and the worse answers of a batch at once."""
    log_p = answer_log_probabilities(model, batch.tokens, batch.targets, batch.count)
    lengths = (batch.targets != IGNORED).sum(1)
    chosen, rejected = log_p.chunk(2)
    chosen_lengths, rejected_lengths = lengths.chunk(2)
    chosen_reference, rejected_reference = batch.reference.to(log_p.dtype).chunk(2)
    return AnswerPairs(
        chosen, rejected, chosen_lengths, rejected_lengths, chosen_reference, rejected_reference
    )


@dataclass(frozen=True)
class PreferenceObjective:
    """The loss of pairs of answers (`LOSSES`); each pair counts as one target."""

    config: PreferenceConfig

    def __call__(self, model: GPT, batch: Answers) -> Loss:
        losses = preference_losses(answer_pairs(model, batch), self.config)
        return Loss(losses.sum(), losses.detach().sum(), len(losses))
