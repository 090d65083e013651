"""Clusters of vectors, and how well they fit classes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

RESTARTS, STEPS = 4, 100
"""Number of random beginnings of k-means, of which the best one counts, and of its steps."""

Vectors = npt.NDArray[np.float64]


def k_means(vectors: Vectors, count: int, seed: int = 0) -> list[int]:
    """Return the number of the cluster of each vector, so that the sum of the squared distances to
    the means of the clusters is small. Lloyd 1982; the first means are drawn as in Arthur and
    Vassilvitskii 2007 (k-means++).

    vectors: N D. count: the number of clusters, at most N.
    """
    generator = np.random.default_rng(seed)
    tries = [_lloyd(vectors, _first(vectors, count, generator)) for _ in range(RESTARTS)]
    _, clusters = min(tries, key=lambda one: one[0])
    return [int(cluster) for cluster in clusters]


def _distances(vectors: Vectors, means: Vectors) -> Vectors:
    """Return the squared distance of each vector to each mean: N K."""
    products = vectors @ means.T
    squares = (vectors**2).sum(1)[:, None] + (means**2).sum(1)
    return np.asarray(np.maximum(squares - 2 * products, 0.0))


def _first(vectors: Vectors, count: int, generator: np.random.Generator) -> Vectors:
    """Draw vectors as means, each with a probability that grows with its squared distance."""
    chosen = [int(generator.integers(len(vectors)))]
    while len(chosen) < count:
        nearest = _distances(vectors, vectors[chosen]).min(1)
        total = nearest.sum()
        weights = nearest / total if total > 0 else None  # all vectors are equal to a mean
        chosen.append(int(generator.choice(len(vectors), p=weights)))
    return vectors[chosen]


def _lloyd(vectors: Vectors, means: Vectors) -> tuple[float, npt.NDArray[np.intp]]:
    """Move means to their clusters until nothing changes; return the sum of squared distances and
    the clusters. An empty cluster keeps its mean."""
    clusters = np.full(len(vectors), -1)
    for _ in range(STEPS):
        distances = _distances(vectors, means)
        nearest = distances.argmin(1)
        if (nearest == clusters).all():
            break
        clusters = nearest
        for cluster in np.unique(clusters):
            means[cluster] = vectors[clusters == cluster].mean(0)
    distances = _distances(vectors, means)
    return float(distances.min(1).sum()), distances.argmin(1)


def v_measure(classes: Sequence[Hashable], clusters: Sequence[Hashable]) -> float:
    """Return the harmonic mean of homogeneity 1 - H(class | cluster) / H(class) and completeness
    1 - H(cluster | class) / H(cluster). Rosenberg and Hirschberg 2007, with beta 1.

    1: the clusters are the classes. A term whose entropy H is 0 is 1.
    """
    of_classes, of_clusters = _numbers(classes), _numbers(clusters)
    joint = np.zeros((of_classes.max() + 1, of_clusters.max() + 1))
    np.add.at(joint, (of_classes, of_clusters), 1 / len(classes))
    both, first, second = (_entropy(p) for p in (joint, joint.sum(1), joint.sum(0)))
    homogeneity = 1 - (both - second) / first if first > 0 else 1.0
    completeness = 1 - (both - first) / second if second > 0 else 1.0
    total = homogeneity + completeness
    return 2 * homogeneity * completeness / total if total > 1e-12 else 0.0


def _numbers(names: Sequence[Hashable]) -> npt.NDArray[np.intp]:
    index = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([index[name] for name in names])


def _entropy(probabilities: Vectors) -> float:
    p = probabilities[probabilities > 0]
    return float(-(p * np.log(p)).sum())
