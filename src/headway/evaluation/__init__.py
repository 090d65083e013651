"""Metrics of model quality."""

from headway.evaluation.alignment_error import Gold, LinkScores, parse_gold, read_gold, score_links
from headway.evaluation.bleu import CorpusScores, score_against_several, score_translations
from headway.evaluation.cider import cider_d
from headway.evaluation.classification import (
    accuracy_sums,
    class_scores,
    confusion,
    number_scores,
)
from headway.evaluation.nearest_neighbours import knn_accuracy, linear_accuracy, spread
from headway.evaluation.paired import PairedDifference, Sums, paired_bootstrap
from headway.evaluation.perplexity import bits_per_byte, mean_nats
from headway.evaluation.pseudo_perplexity import PseudoPerplexity, pseudo_perplexity
from headway.evaluation.ranking import correct_ranks, pearson, ranks, spearman
from headway.evaluation.span_f1 import SpanScores, score_spans
from headway.evaluation.squad import AnswerScores, score_answers

__all__ = [
    "AnswerScores",
    "CorpusScores",
    "Gold",
    "LinkScores",
    "PairedDifference",
    "PseudoPerplexity",
    "SpanScores",
    "Sums",
    "accuracy_sums",
    "bits_per_byte",
    "cider_d",
    "class_scores",
    "confusion",
    "correct_ranks",
    "knn_accuracy",
    "linear_accuracy",
    "mean_nats",
    "number_scores",
    "paired_bootstrap",
    "parse_gold",
    "pearson",
    "pseudo_perplexity",
    "ranks",
    "read_gold",
    "score_against_several",
    "score_answers",
    "score_links",
    "score_spans",
    "score_translations",
    "spearman",
    "spread",
]
