"""How good a model is."""

from headway.evaluation.bleu import CorpusScores, score_translations
from headway.evaluation.perplexity import bits_per_byte, mean_nats
from headway.evaluation.pseudo_perplexity import PseudoPerplexity, pseudo_perplexity

__all__ = [
    "CorpusScores",
    "PseudoPerplexity",
    "bits_per_byte",
    "mean_nats",
    "pseudo_perplexity",
    "score_translations",
]
