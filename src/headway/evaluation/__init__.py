"""How good a model is."""

from headway.evaluation.bleu import CorpusScores, score_translations
from headway.evaluation.perplexity import bits_per_byte, mean_nats

__all__ = ["CorpusScores", "bits_per_byte", "mean_nats", "score_translations"]
