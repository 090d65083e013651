"""Learning from rewards: of the answers to a prompt, those with more reward become more probable.

For each of P prompts x, the model samples a group of G answers y_1 ... y_G with the rewards r_i:

    R_i = r_i - kl (log p(y_i | x) - log p_ref(y_i | x))
    A_i = R_i - mean_j R_j                              the advantage
    A_i = (R_i - mean_j R_j) / (std_j R_j + 1e-4)       if `scale`, as in GRPO

    loss = -1/N sum_i A_i sum_t log p(y_it | x, y_i1 ... y_i,t-1)

N is the number of tokens of all answers, so that a token counts the same in short and long answers.
The gradient is that of REINFORCE (Williams 1992) with the mean of the group as the baseline; GRPO
is equation 3 of Shao et al. 2024, the division by N equation 8 of Yu et al. 2025 (DAPO). Both clip
the ratio of the probabilities at the update and at the sampling. Here every update samples anew, so
that this ratio is 1, and there is nothing to clip.

>>> import torch
>>> advantages(torch.tensor([[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]))  # the second group
tensor([[ 0.5000, -0.5000, -0.5000,  0.5000],
        [ 0.0000,  0.0000,  0.0000,  0.0000]])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain

import torch

from headway.base.shapes import Float, Tensor
from headway.data.dialogues import Problem
from headway.data.padding import IGNORED
from headway.data.stream import Batch
from headway.models import GPT
from headway.tasks.reward.config import RewardConfig
from headway.tasks.rewards import Reward, rewards_of
from headway.tasks.sampled_answers import SampledAnswer, padded_answers, sampled_groups
from headway.text import TextTokenizer
from headway.training import Loss
from headway.training.objectives.preference import answer_log_probabilities

SMALL = 1e-4
"""Added to a standard deviation before the division, as in TRL."""


@dataclass(frozen=True)
class RewardBatch(Batch):
    """Prompts as tokens, and the problems that they state.

    seeds: of the first answer to each prompt; the next answers have the numbers after it.
    """

    examples = "prompts"
    prompts: tuple[tuple[int, ...], ...]
    problems: tuple[Problem, ...]
    seeds: tuple[int, ...]
    indices: tuple[int, ...]


def seed_of(seed: int, epoch: int, index: int) -> int:
    """Return the random seed of the answers to a prompt, which differs in each epoch."""
    digest = blake2b(f"{seed} {epoch} {index}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") << 14  # room for the numbers of the answers of a group


def advantages(rewards: Float[Tensor, "P G"], scale: bool = False) -> Float[Tensor, "P G"]:
    """Return how much better each answer is than the mean of its group."""
    above = rewards - rewards.mean(1, keepdim=True)
    return above / (rewards.std(1, keepdim=True) + SMALL) if scale else above


def policy_loss(
    model: GPT,
    groups: Sequence[Sequence[SampledAnswer]],
    rewards: Float[Tensor, "P G"],
    config: RewardConfig,
    reference: GPT | None = None,
) -> Loss:
    """Return the loss of sampled answers with their rewards; each token of an answer counts.

    reference: the model at the start, which a penalty (`config.kl`) needs.
    """
    answers = list(chain.from_iterable(groups))
    device = next(model.parameters()).device
    tokens, targets = padded_answers([answer.sequence for answer in answers])
    count = int((targets != IGNORED).sum())
    tokens, targets = tokens.to(device), targets.to(device)
    log_p = answer_log_probabilities(model, tokens, targets, count)  # the answers of all groups
    rewards = rewards.to(log_p)
    if config.kl and reference is not None:
        with torch.no_grad():
            before = answer_log_probabilities(reference, tokens, targets, count)
        rewards = rewards - config.kl * (log_p.detach() - before).view_as(rewards)
    total = -(advantages(rewards, config.scale).flatten() * log_p).sum()
    return Loss(total, -log_p.detach().sum(), count)


@dataclass(frozen=True)
class RewardObjective:
    """Samples a group of answers to each prompt of a batch, and computes their loss.

    `Loss.nats` per target is an estimate of the entropy of the model for a token.
    """

    config: RewardConfig
    tokenizer: TextTokenizer
    reward: Reward
    reference: GPT | None = None

    def __call__(self, model: GPT, batch: RewardBatch) -> Loss:
        groups = self.answers(model, batch)
        problems = [problem for problem in batch.problems for _ in range(self.config.samples)]
        rewards = rewards_of(self.reward, problems, list(chain.from_iterable(groups)))
        per_group = rewards.view(len(groups), self.config.samples)
        return policy_loss(model, groups, per_group, self.config, self.reference)

    def answers(self, model: GPT, batch: RewardBatch) -> list[list[SampledAnswer]]:
        """Sample the answers of a batch from the present weights."""
        seeds = [range(seed, seed + self.config.samples) for seed in batch.seeds]
        was_training = model.training
        model.eval()
        try:
            return sampled_groups(model, self.tokenizer, batch.prompts, seeds, self.config.tokens)
        finally:
            model.train(was_training)
            torch.clear_autocast_cache()  # weights that were converted without a gradient
