"""Verifiable rewards: plain functions of a prompt and an answer.

    reward(problem, answer) -> a number, usually from 0 (wrong) to 1 (right)

Another package adds one by an entry point in the group `headway.rewards`.
"""

import re
from collections.abc import Callable, Sequence
from numbers import Real

import torch

from headway.base.extensions import Extended
from headway.base.shapes import Float, Tensor
from headway.data.dialogues import Problem
from headway.tasks.sampled_answers import SampledAnswer

Reward = Callable[[Problem, str], float]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def exact(problem: Problem, answer: str) -> float:
    """1 if the answer is the right one, without a difference."""
    return float(answer.strip() == problem.answer.strip())


def number(problem: Problem, answer: str) -> float:
    """1 if the last number in the answer is the last number in the right one."""
    found, right = _NUMBER.findall(answer), _NUMBER.findall(problem.answer)
    return float(bool(found) and bool(right) and float(found[-1]) == float(right[-1]))


def contains(problem: Problem, answer: str) -> float:
    """1 if the right answer occurs in the answer."""
    return float(problem.answer.strip() in answer)


def words(problem: Problem, answer: str) -> float:
    """The fraction of positions at which the words of both answers are equal: a reward for a part
    of the way."""
    found, right = answer.split(), problem.answer.split()
    equal = sum(a == b for a, b in zip(found, right, strict=False))
    return equal / max(len(found), len(right), 1)


def short(problem: Problem, answer: str) -> float:
    """1 for an answer with at most as many words as the right one, and less for a longer one."""
    limit = max(len(problem.answer.split()), 1)
    return min(1.0, limit / max(len(answer.split()), 1))


REWARDS: Extended[Reward] = Extended(
    {"exact": exact, "number": number, "contains": contains, "words": words, "short": short},
    "headway.rewards",
)
"""Name -> function: Headway's rewards, and those of installed packages."""


def named_reward(name: str) -> Reward:
    """Return the reward of that name. UsageError if it fails, or does not return a number."""
    function = REWARDS[name]
    return lambda problem, answer: float(REWARDS.call(name, function, Real, problem, answer))


def rewards_of(
    reward: Reward, problems: Sequence[Problem], answers: Sequence[SampledAnswer]
) -> Float[Tensor, " N"]:
    """Return the reward of each answer to its problem: 0 for an answer that was cut at the maximum
    number of tokens."""
    return torch.tensor(
        [
            reward(problem, answer.text) if answer.is_complete else 0.0
            for problem, answer in zip(problems, answers, strict=True)
        ]
    )
