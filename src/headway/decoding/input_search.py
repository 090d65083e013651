"""The search for the outputs of one input: its finished outputs, and when it is settled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from headway.base.errors import UsageError
from headway.decoding.search import Hypothesis


@dataclass(frozen=True)
class Candidate:
    """A continuation that was scored: `token` after the prefix `before`, for input `item`.

    log_probability: of prefix and token together. ends: whether the token ends the output.
    continued: whether the continuation stayed in the beam or ended; the others were dropped.
    """

    item: int
    before: tuple[int, ...]
    token: int
    log_probability: float
    ends: bool
    continued: bool


Observer = Callable[[Candidate], None]
"""Called with each candidate after it was scored, step by step, the best first."""


def end_of(tokens: Sequence[int], candidates: Sequence[Candidate]) -> tuple[int, ...]:
    """Return the token that ended a finished output: of several, the most probable one."""
    ends = [c for c in candidates if c.ends and c.before == tuple(tokens)]
    return tuple(c.token for c in sorted(ends, key=lambda c: -c.log_probability)[:1])


@dataclass
class InputSearch:
    """The search for the outputs of one input by one group of beams. pool: the finished ones."""

    item: int
    max_length: int
    group: int = 0
    pool: list[Hypothesis] = field(default_factory=list)

    def add(self, hypothesis: Hypothesis, width: int) -> None:
        self.pool.append(hypothesis)
        self.pool.sort(key=lambda h: -h.score)
        del self.pool[width:]

    def is_settled(self, best_live: float, num_best: int, penalty: float) -> bool:
        """Return whether no live prefix can still enter the best `num_best`.

            best_live / penalty <= score of the worst of the best num_best

        best_live: log-probability of the most probable live prefix. penalty: the length penalty of
        the longest output, max_length + 1 tokens with its </s>. The log-probability of a prefix
        only falls, and this is the largest number that it can be divided by, so the left side is an
        upper bound of all further scores. The coverage penalty is never positive.
        """
        if len(self.pool) < num_best:
            return best_live == -torch.inf
        return best_live / penalty <= self.pool[num_best - 1].score

    def stops_early(self, best_live: float, width: int, penalty: float) -> bool:
        """Return whether W outputs are finished, and no live prefix is better than the worst.

            best_live / penalty <= score of the worst of the W finished outputs

        penalty: the length penalty of t tokens, the present length of the live prefixes, without
        the </s> that they do not have yet. A longer output may still have a better score.

        This is how `generate` of transformers ends by default (early_stopping=False;
        `_check_early_stop_heuristic`): its penalty is t^alpha (`average`), and its worst score is
        that of all W = num_beams outputs, however few it returns.
        """
        return len(self.pool) >= width and best_live / penalty <= self.pool[width - 1].score

    def ends_as_transformers(
        self, best_live: float, width: int, penalty: float, *, at_first: bool
    ) -> bool:
        """Return whether `generate` of transformers ends the search for this input.

        at_first: its early_stopping=True, which ends at W outputs, whatever their scores. penalty:
        as in `stops_early`; for its "never" that of the longest output.
        """
        if best_live == -torch.inf or (at_first and len(self.pool) >= width):
            return True
        return self.stops_early(best_live, width, penalty)


def best_of_groups(
    searches: list[InputSearch], count: int, num_best: int
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each input. Raises UsageError if the rules allowed none."""
    results: list[list[Hypothesis]] = []
    for item in range(count):
        pools = [search.pool for search in searches if search.item == item]
        if not any(pools):
            raise UsageError(f"no output for input {item + 1} satisfies all decoding rules")
        distinct: dict[tuple[int, ...], Hypothesis] = {}
        for rank in range(max(map(len, pools))):
            of_rank = [pool[rank] for pool in pools if rank < len(pool)]
            for hypothesis in sorted(of_rank, key=lambda h: -h.score):
                distinct.setdefault(hypothesis.tokens, hypothesis)
        results.append(list(distinct.values())[:num_best])
    return results
