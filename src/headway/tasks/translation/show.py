"""How a terminal shows translations and the scores of a translator."""

from __future__ import annotations

from headway.evaluation.scores import Scores
from headway.tasks.task import Styled
from headway.tasks.translation.bundle import Translated, TranslateOptions


def prediction_lines(prediction: Translated, options: TranslateOptions) -> list[Styled]:
    """Format one line per translation, then the alignment if there is one.

    Line breaks in a translation become spaces. With several translations per input, a line starts
    with the number of the input and the score.
    """
    lines: list[Styled] = []
    for translation in prediction.translations:
        number = f"{prediction.line}\t" if options.nbest > 1 else ""
        score = f"{translation.score:.4f}\t" if options.scores or options.nbest > 1 else ""
        lines.append([(number + score + " ".join(translation.text.split("\n")), "")])
    if prediction.alignment is not None:
        from headway.inspection import heat_map

        words = prediction.alignment
        drawn = heat_map(words["target"], words["source"], words["weights"])
        lines.append([("\n" + drawn + "\n", "")])
    return lines


def score_lines(scores: Scores) -> list[str]:
    """Format the data and the search, BLEU and chrF with their signatures, and nats."""
    details, bleu, chrf = scores.details, scores.metric("bleu"), scores.metric("chrf")
    return [
        f"{details['pairs']}: {scores.counts['sentences']:,} sentences, beam {details['beam']}, "
        f"length penalty {details['length_penalty']:g}",
        f"BLEU {bleu.value:.2f}   {bleu.signature}",
        f"chrF {chrf.value:.2f}   {chrf.signature}",
        f"nats {scores['nats']:.4f} per token of {scores.counts['target_tokens']:,} reference "
        "tokens",
    ]
