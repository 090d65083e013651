"""The prompts of a run as tokens, which are made anew and compared when a run is resumed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import UsageError
from headway.bundle import TextBundle
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.dialogues import Problem, read_problems
from headway.data.stream import Indices
from headway.tasks.dialogue_store import TRAIN, VALID, template_of_bundle
from headway.tasks.finetuning import Sides, check_adapters, check_unchanged, require_start
from headway.tasks.job import Emit
from headway.tasks.opening import load_as
from headway.tasks.reward.config import AUTOMATIC, RewardConfig, RewardRunConfig, RewardScoring
from headway.tasks.reward.objective import RewardBatch, seed_of
from headway.tasks.reward.problems import check_problems, problem_set
from headway.tasks.rewards import Reward, exact, named_reward
from headway.tasks.sections import RunSettings
from headway.tasks.target_mask import renderer_of

FILE = "problems.json"


@dataclass(frozen=True)
class EncodedProblems:
    """Problems, and the tokens of each prompt up to the beginning of the answer."""

    problems: Sequence[Problem]
    prompts: Sequence[list[int]]

    def __len__(self) -> int:
        """The number of problems."""
        return len(self.problems)

    def batch(self, indices: Indices, epoch: int, seed: int) -> RewardBatch:
        """Return the problems with these indices. seed: the random seed of the run."""
        chosen = [int(i) for i in indices]
        return RewardBatch(
            tuple(tuple(self.prompts[i]) for i in chosen),
            tuple(self.problems[i] for i in chosen),
            tuple(seed_of(seed, epoch, i) for i in chosen),
            tuple(chosen[:8]),
        )


@dataclass(frozen=True)
class HeldOutProblems:
    """Held-out problems, the reward of their answers, the settings of groups, and the model at the
    start, if it is at hand."""

    problems: EncodedProblems
    reward: Reward
    config: RewardConfig
    reference: TextBundle | None

    def __len__(self) -> int:
        """The number of problems."""
        return len(self.problems)


def check_rewards(config: RewardRunConfig) -> None:
    """Raise UsageError if prompts or the chat model are missing, or if settings conflict."""
    require_start(
        config.training.start,
        "a model that learns from rewards",
        "a chat model",
        "--from RUN; headway train chat CONVERSATIONS --from MODEL trains a chat model",
    )
    check_problems(config)
    check_adapters(config)


def encoded(problems: Sequence[Problem], bundle: TextBundle, bad_rows: BadRows) -> EncodedProblems:
    """Encode prompts in the chat template of a model. bad_rows: the policy for those that cannot be
    rendered. Raises UsageError for a prompt that leaves no room for an answer."""
    longest = bundle.model.max_length
    pairs = []
    with renderer_of(bundle.tokenizer, template_of_bundle(bundle)) as renderer:
        for problem, prompt in bad_rows.parsed(
            problems, lambda problem: (problem, renderer.prompt(problem.prompt))
        ):
            if longest is not None and len(prompt) >= longest:
                raise UsageError(
                    f"the prompt has {len(prompt)} tokens, but the model has positions for "
                    f"{longest} tokens of prompt and answer",
                    problem.where,
                    "shorten the prompt, or use a model with more positions",
                )
            pairs.append((problem, prompt))
    return EncodedProblems([problem for problem, _ in pairs], [prompt for _, prompt in pairs])


def prepare_problems(
    config: RewardRunConfig, start: TextBundle, folder: Path, emit: Emit
) -> tuple[Sides[EncodedProblems], Reward]:
    """Read or generate the prompts, and encode them. Raises DataError if they are not those of the
    beginning of the run."""
    bad_rows = BadRows.of(config.data.bad_rows)
    problems = problem_set(config.data, bad_rows, emit)
    sides = Sides(
        encoded(problems.train, start, bad_rows), encoded(problems.held_out, start, bad_rows)
    )
    for name, side in zip((TRAIN, VALID), sides, strict=True):
        emit({"kind": "prepared", "what": name, "count": len(side), "unit": "prompts"})
    contents = [
        [[problem.answer, prompt] for problem, prompt in zip(s.problems, s.prompts, strict=True)]
        for s in sides
    ]
    check_unchanged(folder / FILE, start.tokenizer.fingerprint, contents)
    bad_rows.announce(emit)
    return sides, problems.reward


def held_out_problems(
    bundle: TextBundle, run: Path, config: RewardRunConfig, options: RewardScoring
) -> HeldOutProblems:
    """Return the held-out problems of a run."""
    bad_rows = BadRows.of(config.data.bad_rows)
    problems = problem_set(config.data, bad_rows)
    side = encoded(problems.held_out, bundle, bad_rows)
    reference = load_as(TextBundle, str(config.training.start))
    return HeldOutProblems(side, problems.reward, config.objective, reference)


def read_held_out(
    bundle: TextBundle,
    paths: Sequence[Path],
    config: RunSettings | None,
    options: RewardScoring,
) -> HeldOutProblems:
    """Read the problems of files, for any chat model; its run, if by rewards, has the reward."""
    side = encoded(list(read_problems(paths)), bundle, NONE_LEFT_OUT)
    if not isinstance(config, RewardRunConfig):
        return HeldOutProblems(side, exact, RewardConfig(), None)
    name = config.data.reward
    reward = exact if name == AUTOMATIC else named_reward(name)
    reference = load_as(TextBundle, str(config.training.start))
    return HeldOutProblems(side, reward, config.objective, reference)
