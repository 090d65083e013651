"""Few-shot prompts: solved examples before a question. Brown et al. 2020 (GPT-3), section 2."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Literal

from headway.base.errors import UsageError
from headway.suites.questions import Question

Sampling = Literal["random", "balanced", "first"]


class Examples:
    """Draws the solved examples of each question, in the order of the questions.

    sampling: random draws uniformly without replacement, anew for each question, with the generator
    of the Language Model Evaluation Harness. balanced draws in turn from each class, in a random
    order of classes, so that their numbers differ by at most 1. first takes the first ones, the
    same for all. one_more: draw one more than needed, and leave out the question itself, as the
    harness does for benchmarks without a test part; otherwise the pool is apart from the questions.
    """

    def __init__(
        self, pool: Sequence[Question], sampling: Sampling, seed: int, *, one_more: bool
    ) -> None:
        self._pool, self._sampling, self._random = list(pool), sampling, Random(seed)
        self._one_more = one_more

    def before(self, question: Question, shots: int) -> str:
        """Return the text before a question: its description, and `shots` solved examples.

        Raises UsageError if there are not as many.
        """
        if not shots:
            return question.description
        drawn = self._drawn(question, shots)
        return question.description + "".join(example.solved for example in drawn)

    def _drawn(self, question: Question, shots: int) -> Sequence[Question]:
        pool = [row for row in self._pool if row != question] if self._one_more else self._pool
        if len(pool) < shots:
            raise UsageError(
                f"{shots} examples per prompt: the suite has only {len(pool)} other rows to take "
                "them from",
                hint="choose fewer with --shots, or add the training part of the suite",
            )
        if self._sampling == "random":
            count = min(shots + self._one_more, len(self._pool))
            sampled = self._random.sample(self._pool, count)
            drawn = [row for row in sampled if row != question] if self._one_more else sampled
            # without enough, copies of the question were drawn
            return drawn[:shots] if len(drawn) >= shots else self._random.sample(pool, shots)
        return pool[:shots] if self._sampling == "first" else self._balanced(pool, shots)

    def _balanced(self, pool: Sequence[Question], shots: int) -> list[Question]:
        by_label: dict[str, list[Question]] = {}
        for example in pool:
            by_label.setdefault(example.label, []).append(example)
        queues = [self._random.sample(rows, min(len(rows), shots)) for rows in by_label.values()]
        self._random.shuffle(queues)
        rounds = max(map(len, queues))
        in_turn = [queue[i] for i in range(rounds) for queue in queues if i < len(queue)][:shots]
        self._random.shuffle(in_turn)
        return in_turn
