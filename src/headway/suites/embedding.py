"""Suites for text encoders: which documents answer a query, and which texts belong together:
clusters of vectors, and how well they fit classes."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from headway.base.errors import DataError
from headway.base.files import not_a_file
from headway.bundle.contract import TextEmbedding
from headway.data.rows import Row, read_rows
from headway.suites.prompts import text_of, texts_of
from headway.suites.questions import BETWEEN, Judged, Question

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


TOP, FAR = 10, 100
"""Numbers of documents among which gains and the first relevant one, and all of them, count."""
DOCUMENTS, QUERIES = "corpus.jsonl", "queries.jsonl"
"""Files in the folder above that of the judgements."""


@dataclass(frozen=True, kw_only=True)
class Searched(Question):
    """Which documents answer a query? relevant: id of a document -> its grade, above 0. documents:
    id -> text of all documents, which the queries of a suite share."""

    id: str
    query: str
    relevant: Mapping[str, int]
    documents: Mapping[str, str]

    @property
    def solved(self) -> str:
        return f"{self.query}{BETWEEN}"

    @property
    def label(self) -> str:
        return ""

    def judge(self, ranking: Sequence[str]) -> Judged:
        """Judge the ids of documents, best first: the normalised discounted cumulative gain of the
        first 10 (Järvelin and Kekäläinen 2002, as trec_eval computes it), the reciprocal rank of
        the first relevant one among them, and the fraction of the relevant ones in the first 100.

        As in BEIR, the document with the id of the query does not count.
        """
        names = [name for name in ranking if name != self.id][:FAR]
        gains = [self.relevant.get(name, 0) for name in names]
        best = sorted(self.relevant.values(), reverse=True)
        hits = [rank for rank, gain in enumerate(gains[:TOP], start=1) if gain]
        values = {
            "ndcg_at_10": _gain(gains[:TOP]) / _gain(best[:TOP]),
            "mrr_at_10": 1 / hits[0] if hits else 0.0,
            "recall_at_100": sum(gain > 0 for gain in gains) / len(best),
        }
        return Judged(names[:TOP], {name: (value, 1.0) for name, value in values.items()})


def _gain(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


@dataclass(frozen=True, kw_only=True)
class Clustered(Question):
    """Which texts belong together? labels: the class of each text."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    @property
    def solved(self) -> str:
        return f"{' '.join(self.texts)}{BETWEEN}"

    @property
    def label(self) -> str:
        return ""

    def judge(self, clusters: Sequence[int]) -> Judged:
        """Judge the cluster of each text."""
        value = v_measure(self.labels, clusters)
        return Judged(list(clusters), {"v_measure": (value, 1.0)})


def retrieval(row: Row) -> Searched:
    """BEIR: queries and documents with judgements. Thakur et al. 2021."""
    values = row.values
    relevant, documents = values["relevant"], values["documents"]
    assert isinstance(relevant, dict) and isinstance(documents, dict)
    return Searched(
        id=text_of(row, "id"), query=text_of(row, "query"), relevant=relevant, documents=documents
    )


def clustering(row: Row) -> Clustered:
    """Clustering of MTEB: texts with their classes; a row is a set of its own. Muennighoff et al.
    2023."""
    texts = texts_of(row, row.values["sentences"], "sentences")
    labels = row.values["labels"]
    if not isinstance(labels, Sequence) or isinstance(labels, str) or len(labels) != len(texts):
        raise row.fault("labels", f"a list of {len(texts)} labels, one for each sentence")
    return Clustered(texts=texts, labels=tuple(map(str, labels)))


def beside_judgements(path: Path) -> tuple[Path, Path]:
    """Return the files of the documents and of the queries that a file of judgements is about."""
    folder = path.parent.parent
    return folder / DOCUMENTS, folder / QUERIES


def read_judgements(path: Path, layout: object, languages: object) -> Iterator[Row]:
    """The queries that have a relevant document, each with all documents."""
    of_documents, of_queries = beside_judgements(path)
    documents, queries = texts_by_id(of_documents), texts_by_id(of_queries)
    relevant: dict[str, dict[str, int]] = defaultdict(dict)
    lines: dict[str, int] = {}
    for row in read_rows(path, {}):
        query, document = str(row.values["query-id"]), str(row.values["corpus-id"])
        for name, known, file in (
            (query, queries, of_queries),
            (document, documents, of_documents),
        ):
            if name not in known:
                raise DataError(
                    f"{file.name} has no {name!r}", row.where, "download the files again"
                )
        try:
            grade = int(str(row.values["score"]))
        except ValueError:
            raise row.fault("score", "a whole number") from None
        lines.setdefault(query, row.line)
        if grade > 0:
            relevant[query][document] = grade
    for query, grades in relevant.items():
        values = {"id": query, "query": queries[query], "relevant": grades, "documents": documents}
        yield Row(path, lines[query], values)


def texts_by_id(path: Path) -> dict[str, str]:
    """Return the texts of a file of BEIR by their ids, with the title before the text."""
    if not path.is_file():
        raise DataError(not_a_file(path), str(path), "add the file, as BEIR publishes it")
    texts = {}
    for row in read_rows(path, {}):
        title = row.values.get("title")
        text = text_of(row, "text")
        texts[str(row.values.get("_id"))] = f"{title} {text}".strip() if title else text
    return texts


def ranked(bundle: TextEmbedding, questions: Sequence[Searched]) -> list[Judged]:
    """Judge the documents in the order of the cosine of their vectors with that of the query.

    A model with prompts of the names "query" and "document" (or "passage") reads them before.
    """
    documents = questions[0].documents
    names = list(documents)
    vectors = bundle.embed(list(documents.values()), prompt=_prompt(bundle, "document", "passage"))
    queries = bundle.embed([one.query for one in questions], prompt=_prompt(bundle, "query"))
    judged = []
    for question, query in zip(questions, queries, strict=True):
        best = torch.topk(vectors @ query, min(FAR + 1, len(names))).indices.tolist()
        judged.append(question.judge([names[i] for i in best]))
    return judged


def _prompt(bundle: TextEmbedding, *names: str) -> str | None:
    return next((name for name in names if name in bundle.prompts), None)


def clustered(bundle: TextEmbedding, questions: Sequence[Clustered]) -> list[Judged]:
    """Judge the clusters of k-means, of which there are as many as classes."""
    judged = []
    for question in questions:
        vectors = bundle.embed(list(question.texts)).double().numpy(force=True)
        judged.append(question.judge(k_means(vectors, len(set(question.labels)))))
    return judged
