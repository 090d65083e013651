"""Metrics of model quality."""

from headway.evaluation.bleu import CorpusScores, score_against_several, score_translations
from headway.evaluation.classification import (
    accuracy_sums,
    class_scores,
    confusion,
    number_scores,
    score_classes,
)
from headway.evaluation.paired import PairedDifference, Sums, paired_bootstrap
from headway.evaluation.perplexity import bits_per_byte, mean_nats
from headway.evaluation.ranking import correct_ranks, pearson, ranks, spearman

__all__ = [
    "CorpusScores",
    "PairedDifference",
    "Sums",
    "accuracy_sums",
    "bits_per_byte",
    "class_scores",
    "confusion",
    "correct_ranks",
    "mean_nats",
    "number_scores",
    "paired_bootstrap",
    "pearson",
    "ranks",
    "score_against_several",
    "score_classes",
    "score_translations",
    "spearman",
]
