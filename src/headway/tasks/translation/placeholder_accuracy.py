"""The fraction of translations with the placeholders of their source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headway.evaluation.paired import Sums


def placeholder_accuracy(correct: Sequence[bool | None]) -> Sums:
    """Return the fraction of sentences whose placeholders are right, 0 to 1.

    correct / (correct + wrong), over the sentences whose source has placeholders; a sentence
    without any is None and does not count. 1 if no sentence has any, as in some samples of a paired
    bootstrap.
    """
    terms = np.array([(item is True, item is not None) for item in correct], dtype=np.float64)
    return Sums(terms.reshape(-1, 2), lambda sums: sums[0] / sums[1] if sums[1] else 1.0)
