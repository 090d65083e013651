"""How a terminal shows predicted words and the scores of a text encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headway.bundle import Filled, Guess
from headway.evaluation.scores import Scores
from headway.tasks.task import Styled

BAR = 30  # cells of a word that is certain


def prediction_lines(prediction: Filled) -> list[Styled]:
    """The text; then for each [MASK] a line for each word: the word, how probable it is, and that
    as a bar."""
    lines: list[Styled] = [[(prediction.text, "")]]
    for guesses in prediction.guesses:
        lines += [*_bars(guesses), []]
    return lines


def _bars(guesses: Sequence[Guess]) -> list[Styled]:
    width = max(len(guess.word) for guess in guesses)
    return [
        [
            (f"  {guess.word:<{width}}", "bold"),
            (f"  {guess.probability:.3f}  ", ""),
            ("█" * round(BAR * guess.probability), "cyan"),
        ]
        for guess in guesses
    ]


def score_lines(scores: Scores) -> list[str]:
    """Pseudo-perplexity; then what is right about the held-out rows of each text."""
    lines = []
    if perplexity := scores.details.get("pseudo_perplexity"):
        lines.append(
            f"pseudo-perplexity {perplexity['a_token']:.2f} a token, {perplexity['a_word']:.2f} a "
            f"word   {perplexity['fertility']:.3f} tokens a word, "
            f"{scores.counts['sentences']:,} sentences"
        )
    for text, numbers in scores.details["held_out_rows"].items():
        lines.append(f"{text}: {_of_text(numbers)}")
    return lines


def _of_text(numbers: Mapping[str, float]) -> str:
    words = f"{numbers['mlm_nats']:.3f} nats a hidden word, {numbers['mlm_accuracy']:.1%} guessed"
    if "nsp_accuracy" not in numbers:
        return words
    return f"{words}; {numbers['nsp_accuracy']:.1%} of the next sentences told"
