"""Claims of the lectures as experiments: each is measured, plotted and judged by its numbers.

A claim is a module with `TITLE`, `CLAIM`, `measure()` and `plot(result, path)` (`Claim`);
`headway lecture NAME` runs it.
"""

from headway.lectures import few_shot, gradients, growing_keys, order, scaling
from headway.lectures.claim import Claim, Result

CLAIMS: dict[str, Claim] = {
    "scaling": scaling,
    "order": order,
    "growing-keys": growing_keys,
    "gradients": gradients,
    "few-shot": few_shot,
}

__all__ = ["CLAIMS", "Claim", "Result"]
