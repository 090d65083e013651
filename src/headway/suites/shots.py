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
    same for all. is_held_out: whether the pool is apart from the questions; if not, a question is
    never among its own examples.
    """

    def __init__(
        self, pool: Sequence[Question], sampling: Sampling, seed: int, *, is_held_out: bool
    ) -> None:
        self._pool, self._sampling, self._random = list(pool), sampling, Random(seed)
        self._is_held_out = is_held_out

    def before(self, question: Question, shots: int) -> str:
        """Return the text before a question: its description, and `shots` solved examples.

        Raises UsageError if there are not as many.
        """
        if not shots:
            return question.description
        drawn = self._drawn(question, shots)
        return question.description + "".join(example.solved for example in drawn)

    def _drawn(self, question: Question, shots: int) -> Sequence[Question]:
        least = shots if self._is_held_out else shots + 1
        if len(self._pool) < least:
            raise UsageError(
                f"{shots} examples per prompt: the suite has only {len(self._pool)} rows to take "
                "them from" + ("" if self._is_held_out else ", the question itself included"),
                hint="choose fewer with --shots, or add the training part of the suite",
            )
        if self._sampling == "random" and self._is_held_out:
            return self._random.sample(self._pool, shots)
        if self._sampling == "random":
            drawn = [row for row in self._random.sample(self._pool, least) if row != question]
            if len(drawn) >= shots:
                return drawn[:shots]
        pool = [row for row in self._pool if self._is_held_out or row != question]
        if self._sampling == "random":  # copies of the question were drawn
            return self._random.sample(pool, min(shots, len(pool)))
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
