"""How good a model is."""

from headway.evaluation.bleu import CorpusScores, score_translations
from headway.evaluation.perplexity import mean_nats

__all__ = ["CorpusScores", "mean_nats", "score_translations"]
