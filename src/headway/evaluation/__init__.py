"""How good a model is."""

from headway.evaluation.answers import AnswerScores, score_answers
from headway.evaluation.bleu import CorpusScores, score_translations
from headway.evaluation.perplexity import bits_per_byte, mean_nats
from headway.evaluation.spans import SpanScores, score_spans

__all__ = [
    "AnswerScores",
    "CorpusScores",
    "SpanScores",
    "bits_per_byte",
    "mean_nats",
    "score_answers",
    "score_spans",
    "score_translations",
]
