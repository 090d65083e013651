"""Answers that a chat model samples from its own distribution, and their probabilities under other
models."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headway.base.shapes import Int, Tensor
from headway.bundle import TextBundle
from headway.data.padding import IGNORED
from headway.data.store import Array
from headway.decoding import GenerationConfig, sample, sampling_of
from headway.models import GPT
from headway.text import TextTokenizer
from headway.training.objectives.preference import answer_log_probabilities

ROWS = 16
"""Number of prompts whose answers are computed at once in an evaluation."""
SEED = 1
"""The random seed of the first answer, the same in all evaluations."""


@dataclass(frozen=True)
class SampledAnswer:
    """An answer of a model: its prompt, its tokens with the one that ends it, and its text.

    is_complete: whether the model ended it, before the maximum number of tokens.
    """

    prompt: list[int]
    tokens: list[int]
    text: str
    is_complete: bool

    @property
    def sequence(self) -> tuple[Array, Array]:
        """The tokens of prompt and answer, and which of them belong to the answer."""
        is_answer = [False] * len(self.prompt) + [True] * len(self.tokens)
        return np.array([*self.prompt, *self.tokens]), np.array(is_answer)


def sampled_groups(
    model: GPT,
    tokenizer: TextTokenizer,
    prompts: Sequence[Sequence[int]],
    seeds: Sequence[Sequence[int]],
    max_tokens: int,
    temperature: float = 1.0,
) -> list[list[SampledAnswer]]:
    """Return len(seeds[i]) answers to prompt i, by default sampled from the model's own
    distribution, in one batch, in which a prompt is read once, and which an answer leaves when it
    ends."""
    config = GenerationConfig(temperature=temperature, max_tokens=max_tokens)
    sampling = sampling_of(model, tokenizer, config, len(prompts))
    groups = []
    for rows in sample(model, prompts, sampling, seeds):
        group = []
        for row in rows:
            is_complete = row.reason == "end"
            tokens = [*row.tokens, *([tokenizer.eos] if is_complete else [])]
            text = tokenizer.decode(row.tokens).strip()
            group.append(SampledAnswer([*row.prompt], tokens, text, is_complete))
        groups.append(group)
    return groups


def sampled(
    bundle: TextBundle,
    prompts: Sequence[list[int]],
    max_tokens: int,
    samples: int = 1,
    temperature: float = 1.0,
) -> list[list[SampledAnswer]]:
    """Return `samples` answers to each prompt, with the random numbers of every evaluation.

    Each answer has random numbers of its own: those of equal ones would make one sample of many.
    """
    groups = []
    for first in range(0, len(prompts), ROWS):
        chunk = prompts[first : first + ROWS]
        starts = (SEED + samples * (first + i) for i in range(len(chunk)))
        seeds = [range(start, start + samples) for start in starts]
        model, tokenizer = bundle.model, bundle.tokenizer
        groups += sampled_groups(model, tokenizer, chunk, seeds, max_tokens, temperature)
    return groups


def padded_answers(
    answers: Sequence[tuple[Array, Array]],
) -> tuple[Int[Tensor, "N T"], Int[Tensor, "N T"]]:
    """Return the inputs of prompts with answers, and the next tokens, -1 outside of answers."""
    width = max(len(tokens) for tokens, _ in answers) - 1
    inputs = np.zeros((len(answers), width), np.int64)
    targets = np.full((len(answers), width), IGNORED, np.int64)
    for number, (tokens, is_target) in enumerate(answers):
        inputs[number, : len(tokens) - 1] = tokens[:-1]
        targets[number, : len(tokens) - 1] = np.where(is_target[1:], tokens[1:], IGNORED)
    return torch.from_numpy(inputs), torch.from_numpy(targets)


@torch.inference_mode()
def log_probabilities(
    model: GPT, answers: Sequence[tuple[Array, Array]], device: torch.device | str
) -> list[float]:
    """Return the log-probability of each answer after its prompt."""
    tokens, targets = padded_answers(answers)
    log_p: list[float] = answer_log_probabilities(
        model, tokens.to(device), targets.to(device)
    ).tolist()
    return log_p


def divergence(
    bundle: TextBundle, reference: TextBundle, answers: Sequence[SampledAnswer]
) -> float:
    """Return the mean over the model's answers of log p(y | x) - log p_ref(y | x), in nats."""
    differences: list[float] = []
    for first in range(0, len(answers), ROWS):
        group = [answer.sequence for answer in answers[first : first + ROWS]]
        own = log_probabilities(bundle.model, group, bundle.device)
        theirs = log_probabilities(reference.model, group, reference.device)
        differences += [a - b for a, b in zip(own, theirs, strict=True)]
    return float(np.mean(differences))


def mean_length(answers: Sequence[SampledAnswer]) -> float:
    """Return the mean number of tokens of answers."""
    return float(np.mean([len(answer.tokens) for answer in answers]))
