"""How a terminal shows the scores of word vectors."""

from __future__ import annotations

from headway.evaluation.scores import Scores


def score_lines(scores: Scores) -> list[str]:
    """Format the loss, the perplexity of next words, and the number of targets."""
    counts = scores.counts
    perplexity = f"   perplexity {scores['perplexity']:.2f}" if "perplexity" in scores else ""
    return [
        f"loss {scores['loss']:.4f} nats per target{perplexity}",
        f"{counts['targets']:,} targets of a text of {counts['words']:,} words",
    ]
