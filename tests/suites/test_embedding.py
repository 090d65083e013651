"""Retrieval and clustering: metrics by hand, and suites that a text encoder is measured on."""

import numpy as np
import pytest

from headway.base.errors import DataError
from headway.suites import read_suite
from headway.suites.answering import answerer_of
from headway.suites.embedding import Searched, k_means, v_measure
from headway.suites.measuring import Plan, measure
from tests.fixtures.bundles import BUNDLES
from tests.fixtures.suites import SENTENCES, write_suite


def searched(**relevant):
    return Searched(id="d1", query="?", relevant=relevant, documents={})


def values(judged):
    return {name: terms[0] for name, terms in judged.terms.items()}


def test_gains_are_discounted_by_the_logarithm_of_the_rank():
    """2 at rank 2 and 1 at rank 3, of at best 2 and 1 at ranks 1 and 2."""
    found = values(searched(a=2, b=1).judge(["x", "a", "b"]))
    best = 2 + 1 / np.log2(3)
    assert found["ndcg_at_10"] == pytest.approx((2 / np.log2(3) + 1 / 2) / best)
    assert found["mrr_at_10"] == 0.5 and found["recall_at_100"] == 1


def test_what_is_too_far_or_the_query_itself_does_not_count():
    others = [f"x{i}" for i in range(10)]
    far = values(searched(a=1, b=1).judge([*others, "a"]))
    assert far == {"ndcg_at_10": 0, "mrr_at_10": 0, "recall_at_100": 0.5}
    assert values(searched(a=1).judge(["d1", "a"]))["mrr_at_10"] == 1


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        ([0, 0, 1, 1], 1.0),
        ([1, 1, 0, 0], 1.0),
        ([0, 1, 0, 1], 0.0),
        ([0, 0, 0, 0], 0.0),
        ([0, 1, 2, 3], 2 / 3),  # homogeneity 1, completeness 1/2
    ],
)
def test_the_v_measure(clusters, expected):
    assert v_measure("aabb", clusters) == pytest.approx(expected, abs=1e-12)


def test_k_means_finds_clusters_that_are_far_apart():
    random = np.random.default_rng(1)
    middles = np.array([[0.0, 0], [9, 0], [0, 9]])
    vectors = np.concatenate([middle + random.normal(size=(20, 2)) for middle in middles])
    clusters = k_means(vectors, 3)
    assert v_measure([i // 20 for i in range(60)], clusters) == pytest.approx(1)
    assert k_means(vectors, 3) == clusters
    assert len(set(k_means(np.ones((4, 2)), 3))) == 1  # equal vectors


def test_a_text_encoder_is_measured_on_retrieval(tmp_path):
    encoder = BUNDLES["encoder"][0]()
    folder = write_suite(tmp_path, "retrieval")
    result = measure(answerer_of(encoder), read_suite(folder), Plan())
    assert result.rows == 4 and len(result.files) == 3
    metrics = {metric.name: metric.value for metric in result.measurements[0].metrics}
    assert metrics["mrr_at_10"] == 1  # each query is also a document
    vectors = encoder.embed(SENTENCES)
    ranks = (vectors[:4] @ vectors.T).argsort(descending=True).tolist()
    assert [row.prediction for row in result.answers] == [
        [f"d{i}" for i in one[:10]] for one in ranks
    ]


def test_texts_of_equal_classes_are_one_cluster(tmp_path):
    suite = read_suite(write_suite(tmp_path, "clustering"))
    result = measure(answerer_of(BUNDLES["encoder"][0]()), suite, Plan())
    (metric,) = result.measurements[0].metrics
    assert metric.name == "v_measure" and 0 <= metric.value <= 1 and metric.rows == 2
    first = result.answers[0].prediction
    assert first[:8] == first[8:]  # equal texts


def test_a_judgement_of_an_unknown_document_names_the_line(tmp_path):
    folder = write_suite(tmp_path, "retrieval")
    with (folder / "qrels/test.tsv").open("a") as file:
        file.write("q1\tno\t1\n")
    with pytest.raises(DataError, match=r"corpus\.jsonl has no 'no'") as error:
        read_suite(folder)
    assert str(error.value.where).endswith("test.tsv:14")
    (folder / "queries.jsonl").unlink()
    with pytest.raises(DataError, match=r"queries\.jsonl"):
        read_suite(folder)
