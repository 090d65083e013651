"""How a terminal and an inference server show predicted words, and the scores of an encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.bundle import EncoderBundle, FilledText, FillOptions, WordPrediction
from headway.evaluation.scores import Scores
from headway.tasks.task import Styled

BAR = 30
"""Width in characters of the bar of probability 1."""


def prediction_lines(
    bundle: EncoderBundle, prediction: FilledText, options: FillOptions
) -> list[Styled]:
    """Format the text; then for each [MASK] one line per word with its probability and a bar."""
    lines: list[Styled] = [[(prediction.text, "")]]
    for words in prediction.predictions:
        lines += [*_bars(words), []]
    return lines


def pipeline_form(bundle: EncoderBundle, prediction: FilledText, options: FillOptions) -> Any:
    """Return the words for the only [MASK] with their scores, or a list of such lists."""
    masks = [
        [
            {
                "sequence": bundle.filled(prediction.text, number, word),
                "score": word.probability,
                "token": word.token,
                "token_str": word.word,
            }
            for word in words
        ]
        for number, words in enumerate(prediction.predictions)
    ]
    return masks[0] if len(masks) == 1 else masks


def _bars(words: Sequence[WordPrediction]) -> list[Styled]:
    width = max(len(prediction.word) for prediction in words)
    return [
        [
            (f"  {prediction.word:<{width}}", "bold"),
            (f"  {prediction.probability:.3f}  ", ""),
            ("█" * round(BAR * prediction.probability), "cyan"),
        ]
        for prediction in words
    ]


def score_lines(scores: Scores) -> list[str]:
    """Format the pseudo-perplexity, then the scores of the held-out sequences of each text."""
    lines = []
    if perplexity := scores.details.get("pseudo_perplexity"):
        lines.append(
            f"pseudo-perplexity {perplexity['per_token']:.2f} per token, "
            f"{perplexity['per_word']:.2f} per word   "
            f"{perplexity['fertility']:.3f} tokens per word, "
            f"{scores.counts['sentences']:,} sentences"
        )
    for text, numbers in scores.details["held_out_sequences"].items():
        lines.append(f"{text}: {_of_text(numbers)}")
    return lines


def _of_text(numbers: Mapping[str, float]) -> str:
    masked = (
        f"{numbers['mlm_nats']:.3f} nats per masked token, accuracy {numbers['mlm_accuracy']:.1%}"
    )
    if "nsp_accuracy" not in numbers:
        return masked
    return f"{masked}; next-sentence prediction {numbers['nsp_accuracy']:.1%}"
