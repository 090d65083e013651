"""Metrics of model quality."""

from headway.evaluation.bleu import CorpusScores as CorpusScores
from headway.evaluation.bleu import score_against_several as score_against_several
from headway.evaluation.bleu import score_translations as score_translations
from headway.evaluation.classification import accuracy_sums as accuracy_sums
from headway.evaluation.classification import class_scores as class_scores
from headway.evaluation.classification import confusion as confusion
from headway.evaluation.classification import number_scores as number_scores
from headway.evaluation.classification import score_classes as score_classes
from headway.evaluation.paired import PairedDifference as PairedDifference
from headway.evaluation.paired import Sums as Sums
from headway.evaluation.paired import paired_bootstrap as paired_bootstrap
from headway.evaluation.perplexity import bits_per_byte as bits_per_byte
from headway.evaluation.perplexity import nats_of as nats_of
from headway.evaluation.ranking import correct_ranks as correct_ranks
from headway.evaluation.ranking import pearson as pearson
from headway.evaluation.ranking import ranks as ranks
from headway.evaluation.ranking import spearman as spearman
