"""The task of learning from rewards: job, evaluation, output, and the record that names them."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import torch

from headway.base.chunks import chunks
from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.ranks import Ranks
from headway.base.settings import override
from headway.base.sharing import Share
from headway.bundle import TextBundle
from headway.data.dialogues import has_problems
from headway.data.split import evenly_spaced
from headway.data.stream import Batches, Shuffled
from headway.evaluation.by_kind import KINDS, by_kind, kind_lines
from headway.evaluation.scores import Metric, Scores
from headway.tasks.dialogue_store import bundle_of, template_of_bundle, tuned
from headway.tasks.finetuning import Sides, describe_shape
from headway.tasks.job import Emit, Job, Summary, planned_steps, update_size
from headway.tasks.opening import load_as
from headway.tasks.reward.config import RewardRunConfig, RewardScoring, reward
from headway.tasks.reward.data import (
    EncodedProblems,
    HeldOutProblems,
    check_rewards,
    held_out_problems,
    prepare_problems,
    read_held_out,
)
from headway.tasks.reward.objective import RewardBatch, RewardObjective
from headway.tasks.rewards import Reward, rewards_of
from headway.tasks.sampled_answers import ROWS, divergence, mean_length, sampled
from headway.tasks.task import Task

RewardJob = Job[RewardBatch, HeldOutProblems, RewardScoring]


def with_whole_models(config: RewardRunConfig, ranks: Ranks) -> RewardRunConfig:
    """Return the settings with which each of several processes holds the whole model.

    Processes with parts of a model must call it equally often, but one whose answers end early
    calls it less often. UsageError if parts were asked for.
    """
    if ranks.is_alone:
        return config
    if config.machine.shard == "shard":
        raise UsageError(
            "machine.shard=shard: processes that sample answers of different lengths cannot each "
            "have a part of the model",
            hint="leave out --machine.shard: each process then has the whole model",
        )
    return override(config, {"machine.shard": "replicate"}, "several processes")


def reward_job(
    config: RewardRunConfig,
    prepared: Sides[EncodedProblems],
    verify: Reward,
    start: TextBundle,
    machine: Machine,
) -> RewardJob:
    """Return the job that trains a chat model by rewards."""
    config = with_whole_models(config, machine.ranks)
    training, evaluation, objective = config.training, config.evaluation, config.objective
    order = Shuffled(len(prepared.train), training.batch_size, training.seed)
    batches = Batches(
        order,
        lambda chosen, epoch: prepared.train.batch(chosen, epoch, training.seed),
        machine.device,
    )
    steps = planned_steps(training, batches.batches_per_epoch, least=100, passes=1.0)
    config = override(config, steps, "the prompts")
    reference = start.model.to(machine.device) if objective.kl else None
    prompts = update_size(training, batches.examples_per_epoch)
    return Job(
        config=config,
        build=tuned(start, config),
        batches=batches,
        objective=RewardObjective(objective, start.tokenizer, verify, reference),
        held_out=HeldOutProblems(prepared.held_out, verify, objective, start),
        evaluation=RewardScoring(
            prompts=evaluation.prompts, groups=evaluation.groups, sample=evaluation.sample
        ),
        bundle=lambda trained: bundle_of(trained, start, config),
        summary=Summary(
            model=describe_shape(start),
            batches=f"{prompts:,} prompts with {objective.samples} answers each",
            unit="tok",
        ),
    )


def prepare(config: RewardRunConfig, folder: Path, machine: Machine, emit: Emit) -> RewardJob:
    """Load the chat model, and read or generate the prompts."""
    start = load_as(TextBundle, str(config.training.start))
    template_of_bundle(start)
    prepared, verify = prepare_problems(config, start, folder, emit)
    return reward_job(config, prepared, verify, start, machine)


@torch.inference_mode()
def evaluate(
    bundle: TextBundle, held_out: HeldOutProblems, options: RewardScoring, share: Share
) -> Scores:
    """Score the answers to held-out prompts.

    reward is the mean reward of greedy answers. The others are of groups of sampled answers:
    sampled_reward is their mean reward, no_signal the fraction of groups whose rewards are all
    equal, from which nothing would be learned, length the mean number of tokens.

    If the model at the start is at hand: kl is the mean of log p(y | x) - log p_start(y | x), an
    unbiased estimate of the divergence from it, in nats per answer; reward_before and length_before
    are those of one sampled answer of it to each of these prompts.
    """
    problems, prompts = held_out.problems.problems, held_out.problems.prompts
    chosen = evenly_spaced(len(problems), options.prompts)
    grouped = evenly_spaced(len(problems), options.groups)
    share = share.in_examples(len(problems), len(chosen) + len(grouped))

    def compute(part: Sequence[int]) -> list[float]:
        asked = [prompts[i] for i in part]
        answers = chain.from_iterable(
            sampled(bundle, asked, held_out.config.tokens, temperature=0.0)
        )
        rewards: list[float] = rewards_of(
            held_out.reward, [problems[i] for i in part], list(answers)
        ).tolist()
        return rewards

    rewards = torch.tensor(
        list(chain.from_iterable(share.each(chunks(chosen, ROWS), compute, len)))
    )
    metrics = [Metric("reward", rewards.mean().item())]
    shown: list[Mapping[str, str]] = []
    if grouped:
        share.progress(len(chosen))
        of_groups, shown = _of_groups(bundle, held_out, grouped, options.sample)
        metrics += of_groups
    counts = {"prompts": len(chosen), "groups": len(grouped)}
    table = by_kind([problems[i].kind for i in chosen], rewards.tolist())
    return Scores(tuple(metrics), counts, shown, details={KINDS: table} if table else {})


def _of_groups(
    bundle: TextBundle, held_out: HeldOutProblems, grouped: Sequence[int], sample: int
) -> tuple[list[Metric], list[Mapping[str, str]]]:
    """Return the metrics of groups of sampled answers, and `sample` answers before and after.

    grouped: the indices of the problems that are answered.
    """
    problems, prompts = held_out.problems.problems, held_out.problems.prompts
    tokens, samples = held_out.config.tokens, held_out.config.samples
    shown: list[Mapping[str, str]] = []
    asked = [prompts[i] for i in grouped]
    groups = sampled(bundle, asked, tokens, samples)
    answers = list(chain.from_iterable(groups))
    of_answers = [problems[i] for i in grouped for _ in range(samples)]
    after = rewards_of(held_out.reward, of_answers, answers).view(len(grouped), samples)
    is_flat = after.amax(1) == after.amin(1)
    metrics = [
        Metric("sampled_reward", after.mean().item()),
        Metric("no_signal", is_flat.float().mean().item(), higher_is_better=False),
        Metric("length", mean_length(answers)),
    ]
    if held_out.reference is not None:
        before = [one for (one,) in sampled(held_out.reference, asked, tokens)]
        rewards_before = rewards_of(held_out.reward, of_answers[::samples], before)
        metrics += [
            Metric("kl", divergence(bundle, held_out.reference, answers), False),
            Metric("reward_before", rewards_before.mean().item()),
            Metric("length_before", mean_length(before)),
        ]
        for i in range(min(sample, len(grouped))):
            shown.append(
                {
                    "prompt": problems[grouped[i]].question,
                    "start": before[i].text,
                    "output": groups[i][0].text,
                    "reference": problems[grouped[i]].answer,
                }
            )
    return metrics, shown


def score_lines(scores: Scores) -> list[str]:
    """Format the metrics, the rewards by kind, and the samples before and after, if any."""
    numbers = "   ".join(f"{name} {value:.3f}" for name, value in scores.numbers().items())
    counts = scores.counts
    lines = [
        numbers.replace("_", " "),
        f"{counts['prompts']:,} prompts, {counts['groups']:,} groups of answers",
        *kind_lines(scores.details.get(KINDS, {})),
    ]
    for sample in scores.samples:
        lines += [f"{name:<10} {text}" for name, text in sample.items()]
    return lines


REWARD = Task(
    name="reward",
    config=RewardRunConfig,
    recipes={"reward": reward},
    check=check_rewards,
    prepare=prepare,
    evaluation=RewardScoring,
    score=evaluate,
    read=read_held_out,
    held_out=held_out_problems,
    reads=has_problems,
    show_scores=score_lines,
    next_commands=("chat {run}", "serve {run}", "eval {run}", "export {run} --to hf"),
)
