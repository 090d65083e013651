"""How a terminal shows the scores of a language model."""

from __future__ import annotations

from headway.evaluation.scores import Scores


def score_lines(scores: Scores) -> list[str]:
    """Format perplexity, nats and bits, the number of tokens, and the generated sample if any."""
    counts = scores.counts
    lines = [
        f"perplexity {scores['perplexity']:.2f}   {scores['nats']:.4f} nats per token, "
        f"{scores['bits_per_byte']:.4f} bits per byte",
        f"{counts['tokens']:,} tokens scored in windows of {counts['window']}; the text has "
        f"{counts['bytes']:,} bytes",
    ]
    return [*lines, *(f"{sample['prompt']}{sample['output']}" for sample in scores.samples)]
