"""The task of learning preferences: job, evaluation, output, and the record that names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from headway.base.chunks import chunks
from headway.base.devices import Machine
from headway.base.settings import override
from headway.base.sharing import WHOLE, Share
from headway.bundle import TextBundle
from headway.data.dialogues import has_preferences
from headway.data.split import evenly_spaced
from headway.data.stream import Batches, ByLength
from headway.decoding import GenerationConfig, sample, sampling_of
from headway.evaluation.scores import Metric, Scores
from headway.tasks.dialogue_store import bundle_of, fitted_length, template_of_bundle, tuned
from headway.tasks.finetuning import Sides, describe_shape
from headway.tasks.job import Emit, Job, Summary, planned_steps, update_size
from headway.tasks.opening import load_as
from headway.tasks.preference.config import (
    LONGEST,
    PreferenceRunConfig,
    PreferenceScoring,
    prefer,
)
from headway.tasks.preference.data import (
    EncodedPairs,
    HeldOutPairs,
    PreferenceBatch,
    check_preferences,
    held_out_pairs,
    log_probabilities,
    prepare_pairs,
    read_pairs,
)
from headway.tasks.task import Task
from headway.training import PreferenceObjective
from headway.training.objectives.preference import answer_pairs

ROWS = 16
"""Number of pairs, and of prompts, that are computed at once in an evaluation."""
SEED = 1
"""The random seed of the first answer, the same in all evaluations."""

USUAL = PreferenceScoring()
PreferenceJob = Job[PreferenceBatch, HeldOutPairs, PreferenceScoring]


def preference_job(
    config: PreferenceRunConfig, prepared: Sides[EncodedPairs], start: TextBundle, machine: Machine
) -> PreferenceJob:
    """Return the job that trains a chat model on pairs of answers."""
    training, evaluation = config.training, config.evaluation
    batches = Batches(
        ByLength(prepared.train.lengths, training.batch_size, training.seed),
        lambda chosen, epoch: prepared.train.batch(chosen),
        machine.device,
    )
    steps = planned_steps(training, batches.batches_per_epoch, least=100, passes=1.0)
    config = override(config, steps, "the pairs")

    return Job(
        config=config,
        build=tuned(start, config),
        batches=batches,
        objective=PreferenceObjective(config.objective),
        held_out=HeldOutPairs(prepared.held_out, start),
        evaluation=PreferenceScoring(
            answers=evaluation.answers, sample=evaluation.sample, tokens=evaluation.tokens
        ),
        bundle=lambda trained: bundle_of(trained, start, config),
        summary=Summary(
            model=f"{describe_shape(start)}, {config.objective.kind}",
            batches=f"{update_size(training, batches.examples_per_epoch):,} pairs",
            unit="pairs",
        ),
    )


def prepare(
    config: PreferenceRunConfig, folder: Path, machine: Machine, emit: Emit
) -> PreferenceJob:
    """Load the chat model, and encode the pairs."""
    start = load_as(TextBundle, str(config.training.start))
    template_of_bundle(start)
    length = fitted_length(config.training.length, LONGEST, start.model.max_length)
    config = override(config, {"training.length": length}, "the chat model")
    prepared = prepare_pairs(config, start, length, folder, emit)
    return preference_job(config, prepared, start, machine)


@torch.inference_mode()
def evaluate(
    bundle: TextBundle,
    held_out: HeldOutPairs,
    options: PreferenceScoring = USUAL,
    share: Share = WHOLE,
) -> Scores:
    """Score pairs of answers, and answers of the model's own.

    accuracy is the fraction of pairs whose better answer gained more probability since the
    reference than the worse one; margin is the mean of this difference in nats, chosen and rejected
    are its two parts. A pair that did not change counts as half.

    kl is the mean over sampled answers of log p(y | x) - log p_ref(y | x), an unbiased estimate of
    the divergence from the reference, in nats per answer; length and length_before are the mean
    numbers of tokens of the answers of the model and of the reference.
    """
    pairs = held_out.pairs

    def compute(numbers: Sequence[int]) -> list[list[float]]:
        answers = answer_pairs(bundle.model, pairs.batch(numbers).to(str(bundle.device)))
        gained: list[float] = answers.margins.tolist()
        return [gained, (answers.chosen - answers.chosen_reference).tolist()]

    parts = share.each(chunks(range(len(pairs)), ROWS), compute, len)
    gained = np.array([margin for margins, _ in parts for margin in margins])
    chosen = [gain for _, gains in parts for gain in gains]
    metrics = [
        Metric("accuracy", float(((gained > 0) + 0.5 * (gained == 0)).mean())),
        Metric("margin", float(gained.mean())),
        Metric("chosen", float(np.mean(chosen))),
        Metric("rejected", float(np.mean(chosen) - gained.mean())),
    ]
    numbers = evenly_spaced(len(pairs), options.answers)
    samples: list[Mapping[str, str]] = []
    if numbers and held_out.reference is not None:
        prompts = [pairs.prompt(i) for i in numbers]
        after = sampled(bundle, prompts, options.tokens)
        before = sampled(held_out.reference, prompts, options.tokens)
        metrics += [
            Metric("kl", divergence(bundle, held_out.reference, after), higher_is_better=False),
            Metric("length", _mean_length(after)),
            Metric("length_before", _mean_length(before)),
        ]
        for i in range(min(options.sample, len(numbers))):
            samples.append(
                {
                    "prompt": bundle.tokenizer.decode(prompts[i]),
                    "reference": before[i].text,
                    "output": after[i].text,
                }
            )
    return Scores(tuple(metrics), {"pairs": len(pairs), "answers": len(numbers)}, samples)


@dataclass(frozen=True)
class SampledAnswer:
    """An answer of a model: its prompt, its tokens with the one that ends it, and its text."""

    prompt: list[int]
    tokens: list[int]
    text: str


def sampled(
    bundle: TextBundle, prompts: Sequence[list[int]], max_tokens: int
) -> list[SampledAnswer]:
    """Return an answer to each prompt, sampled from the model's own distribution.

    Each has random numbers of its own: those of equal ones would make one sample of many.
    """
    model, tokenizer = bundle.model, bundle.tokenizer
    config = GenerationConfig(temperature=1.0, max_tokens=max_tokens)
    answers = []
    for first in range(0, len(prompts), ROWS):
        group = prompts[first : first + ROWS]
        seeds = [[SEED + first + i] for i in range(len(group))]
        sampling = sampling_of(model, tokenizer, config, len(group))
        for (row,) in sample(model, group, sampling, seeds):
            end = [tokenizer.eos] if row.reason == "end" else []
            text = tokenizer.decode(row.tokens).strip()
            answers.append(SampledAnswer([*row.prompt], [*row.tokens, *end], text))
    return answers


def divergence(
    bundle: TextBundle, reference: TextBundle, answers: Sequence[SampledAnswer]
) -> float:
    """Return the mean over the model's answers of log p(y | x) - log p_ref(y | x), in nats."""
    encoded = [
        (
            np.array([*answer.prompt, *answer.tokens]),
            np.array([False] * len(answer.prompt) + [True] * len(answer.tokens)),
        )
        for answer in answers
    ]
    differences: list[float] = []
    for first in range(0, len(encoded), ROWS):
        group = encoded[first : first + ROWS]
        own = log_probabilities(bundle.model, group, bundle.device)
        theirs = log_probabilities(reference.model, group, reference.device)
        differences += [a - b for a, b in zip(own, theirs, strict=True)]
    return float(np.mean(differences))


def _mean_length(answers: Sequence[SampledAnswer]) -> float:
    return float(np.mean([len(answer.tokens) for answer in answers]))


def score_lines(scores: Scores) -> list[str]:
    """Format the metrics, and the samples before and after if any."""
    numbers = "   ".join(f"{name} {value:.3f}" for name, value in scores.numbers().items())
    lines = [numbers.replace("_", " "), f"{scores.counts['pairs']:,} pairs of answers"]
    for shown in scores.samples:
        lines += [f"{name:<10} {text}" for name, text in shown.items()]
    return lines


PREFERENCE = Task(
    name="preference",
    config=PreferenceRunConfig,
    recipes={"prefer": prefer},
    check=check_preferences,
    prepare=prepare,
    evaluation=PreferenceScoring,
    evaluate=evaluate,
    read=read_pairs,
    held_out=held_out_pairs,
    reads=has_preferences,
    show_scores=score_lines,
    next_commands=("chat {run}", "serve {run}", "eval {run}", "export {run} --to hf"),
)
