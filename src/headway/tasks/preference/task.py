"""The task of learning preferences: job, evaluation, output, and the record that names them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from headway.base.chunks import chunks
from headway.base.devices import Machine
from headway.base.settings import override
from headway.base.sharing import Share
from headway.bundle import TextBundle
from headway.data.dialogues import Problem, has_preferences
from headway.data.split import evenly_spaced
from headway.data.stream import Batches, ByLength
from headway.evaluation.scores import Metric, Scores
from headway.tasks.dialogue_store import bundle_of, fitted_length, template_of_bundle, tuned
from headway.tasks.finetuning import Sides, describe_shape
from headway.tasks.job import Emit, Job, Summary, planned_steps, update_size
from headway.tasks.opening import load_as
from headway.tasks.preference.config import (
    LONGEST,
    NO_JUDGE,
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
    prepare_pairs,
    read_pairs,
)
from headway.tasks.rewards import named_reward, rewards_of
from headway.tasks.sampled_answers import ROWS, divergence, mean_length, sampled
from headway.tasks.task import Task
from headway.training import PreferenceObjective
from headway.training.objectives.preference import answer_pairs

PreferenceJob = Job[PreferenceBatch, HeldOutPairs, PreferenceScoring]


def preference_job(
    config: PreferenceRunConfig, prepared: Sides[EncodedPairs], start: TextBundle, machine: Machine
) -> PreferenceJob:
    """Return the job that trains a chat model on pairs of answers."""
    training = config.training
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
        evaluation=config.evaluation,
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
    bundle: TextBundle, held_out: HeldOutPairs, options: PreferenceScoring, share: Share
) -> Scores:
    """Score pairs of answers, and answers of the model's own.

    accuracy is the fraction of pairs whose better answer gained more probability since the
    reference than the worse one; margin is the mean of this difference in nats, chosen and rejected
    are its two parts. A pair that did not change counts as half.

    kl is the mean over sampled answers of log p(y | x) - log p_ref(y | x), an unbiased estimate of
    the divergence from the reference, in nats per answer; length and length_before are the mean
    numbers of tokens of the answers of the model and of the reference. win_rate, if there is a
    judge, is the fraction of prompts whose answer has more reward than that of the reference; equal
    rewards count as half.
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
        after = [answer for (answer,) in sampled(bundle, prompts, options.tokens)]
        before = [answer for (answer,) in sampled(held_out.reference, prompts, options.tokens)]
        metrics += [
            Metric("kl", divergence(bundle, held_out.reference, after), higher_is_better=False),
            Metric("length", mean_length(after)),
            Metric("length_before", mean_length(before)),
        ]
        if options.judge != NO_JUDGE:
            judge, right = named_reward(options.judge), [pairs.answer(i) for i in numbers]
            texts = map(bundle.tokenizer.decode, right)
            problems = [Problem((), text.strip()) for text in texts]
            gain = rewards_of(judge, problems, after) - rewards_of(judge, problems, before)
            metrics.append(Metric("win_rate", float(((gain > 0) + 0.5 * (gain == 0)).mean())))
        for i in range(min(options.sample, len(numbers))):
            samples.append(
                {
                    "prompt": bundle.tokenizer.decode(prompts[i]),
                    "reference": before[i].text,
                    "output": after[i].text,
                }
            )
    return Scores(tuple(metrics), {"pairs": len(pairs), "answers": len(numbers)}, samples)


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
    score=evaluate,
    read=read_pairs,
    held_out=held_out_pairs,
    reads=has_preferences,
    show_scores=score_lines,
    next_commands=("chat {run}", "serve {run}", "eval {run}", "export {run} --to hf"),
)
