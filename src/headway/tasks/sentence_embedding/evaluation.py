"""The evaluation of a sentence encoder: correlation of cosines with scores, or retrieval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from headway.base.errors import DataError
from headway.base.shapes import Float, Tensor
from headway.bundle import EncoderBundle
from headway.data.formats.lines import ending
from headway.data.rows import ENDINGS as TABLES
from headway.evaluation import correct_ranks, pearson, spearman
from headway.evaluation.scores import Metric, Scores
from headway.tasks.sentence_embedding.config import EmbedDataConfig, EmbedRunConfig, EmbedScoring
from headway.tasks.sentence_embedding.data import encoded, read_texts, similar_texts
from headway.tasks.sentence_embedding.similar_files import SimilarTexts
from headway.tasks.sentence_embedding.similar_pairs import SimilarPairs, share_texts

MOST = 5000
"""Default maximum number of pairs without scores, for which all texts are compared."""

USUAL = EmbedScoring()


def reads_pairs(path: Path) -> bool:
    """Return whether the file is a table of pairs."""
    return ending(path) in TABLES


def read_examples(
    bundle: EncoderBundle, paths: Sequence[Path], config: Any, options: EmbedScoring
) -> SimilarPairs:
    """Read and encode the pairs of tables."""
    data = config.data if isinstance(config, EmbedRunConfig) else EmbedDataConfig()
    return _encoded(bundle, read_texts(paths, data), data)


def held_out_examples(
    bundle: EncoderBundle, run: Path, config: Any, options: EmbedScoring
) -> SimilarPairs:
    """Read and encode the held-out pairs of a run."""
    return _encoded(bundle, similar_texts(config.data)[1], config.data)


def _encoded(
    bundle: EncoderBundle, pairs: list[SimilarTexts], data: EmbedDataConfig
) -> SimilarPairs:
    return encoded(pairs, bundle.tokenizer, min(data.max_length, bundle.config.max_length))


def evaluate(
    bundle: EncoderBundle,
    pairs: SimilarPairs,
    options: EmbedScoring = USUAL,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Evaluate an encoder on the first pairs, by `scores_of_vectors`.

    progress: called before each batch with the number of texts processed so far. Raises DataError
    for fewer than two pairs.
    """
    if len(pairs) < 2:
        raise DataError(f"at least two pairs are needed for an evaluation, not {len(pairs)}")
    most = options.pairs or (MOST if pairs.scores is None else len(pairs))
    scores = None if pairs.scores is None else pairs.scores[:most]
    chosen = SimilarPairs(pairs.first[:most], pairs.second[:most], scores)
    first = _vectors(bundle, chosen.first, progress)
    second = _vectors(bundle, chosen.second, lambda done: progress(len(first) + done))
    return scores_of_vectors(first, second, chosen)


def _vectors(
    bundle: EncoderBundle, rows: Sequence[Sequence[int]], progress: Callable[[int], None]
) -> Float[Tensor, "N D"]:
    """Compute the vectors of texts, normalised to length 1."""
    return F.normalize(bundle.pooled(rows, bundle.pooling, progress), dim=-1).cpu()


def scores_of_vectors(
    first: Float[Tensor, "N D"], second: Float[Tensor, "N D"], pairs: SimilarPairs
) -> Scores:
    """Compare the cosines of vectors of length 1 with pairs.

    If the pairs have scores, the metrics are spearman and pearson, of cosines and scores. Otherwise
    every first text retrieves its second text among all second texts: reciprocal_rank is the mean
    of 1 / rank, accuracy the fraction of ranks that are 1. Candidates of other pairs that have a
    text in common with the pair are left out.
    """
    if pairs.scores is not None:
        cosines, scores = (first * second).sum(-1), torch.tensor(pairs.scores)
        metrics = {"spearman": spearman(cosines, scores), "pearson": pearson(cosines, scores)}
    else:
        shared = share_texts(pairs.first, pairs.second)
        ranks = correct_ranks(first @ second.T, shared).double()
        metrics = {
            "reciprocal_rank": (1 / ranks).mean().item(),
            "accuracy": (ranks == 1).double().mean().item(),
        }
    numbers = tuple(Metric(name, value) for name, value in metrics.items())
    return Scores(numbers, {"pairs": len(pairs)})
