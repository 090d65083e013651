"""Pairs of similar texts: files, batches, and the mask of pairs with a text in common."""

import gzip
import json

import pytest
import torch

from headway.base.errors import DataError, UsageError
from headway.data.rows import read_rows
from headway.tasks.sentence_embedding.data import SimilarPairs, share_texts
from headway.tasks.sentence_embedding.similar_files import read_similar

PAIRS = SimilarPairs(
    [[2, i, 3] for i in range(10, 33)],
    [[2, *[i] * (i % 5 + 1), 3] for i in range(40, 63)],
    [i / 22 for i in range(23)],
)


def read(*paths, **names):
    return [(pair.first, pair.second, pair.score) for pair in read_similar(paths, **names)]


def test_tables_and_objects_hold_the_same_pairs(tmp_path):
    rows = [('a "b", c', "d", 2.5), ("e", "f", -1.0)]
    (tmp_path / "a.tsv").write_text('score\tsecond\tfirst\n2.5\td\ta "b", c\n\n-1\t f \te\n')
    (tmp_path / "a.csv").write_text('first,second,score\r\n"a ""b"", c",d,2.5\r\ne,f,-1e0\r\n')
    lines = [
        {"first": 'a "b", c', "second": "d", "score": "2.5"},
        {"score": -1, "second": "f", "first": "e"},
    ]
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write("\n\n".join(map(json.dumps, lines)) + "\n")
    for name in ("a.tsv", "a.csv", "a.jsonl.gz"):
        assert read(tmp_path / name) == rows, name
    assert read(tmp_path / "a.tsv", score="other") == [(a, b, None) for a, b, _ in rows]
    assert read(tmp_path / "a.tsv", first="second", second="first")[1] == ("f", "e", -1.0)
    pairs = list(read_similar([tmp_path / "a.tsv", tmp_path / "a.csv"]))
    assert [pair.where.rsplit("/")[-1] for pair in pairs] == [
        "a.tsv:2",
        "a.tsv:4",
        "a.csv:2",
        "a.csv:3",
    ]


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        ("a.tsv", "first\tsecond\na\tb\na\n", DataError, r"1 cells, .*2\n.*a.tsv:3"),
        ("a.tsv", "first\tsecond\na\tb\tc\n", DataError, r"3 cells"),
        ("a.tsv", "first\tsecond\na\t \n", DataError, r"'second' is empty\n.*a.tsv:2"),
        (
            "a.tsv",
            "first\tother\na\tb\n",
            UsageError,
            r"no column is named 'second'(.|\n)*--data.second",
        ),
        (
            "a.tsv",
            "first\tfirst\tsecond\na\tb\tc\n",
            UsageError,
            "more than one column is named 'first'",
        ),
        ("a.tsv", "first\tsecond\tscore\na\tb\tmuch\n", DataError, r"'much' is not a number\n.*:2"),
        ("a.tsv", "first\tsecond\tscore\na\tb\tnan\n", DataError, "is not a number"),
        ("a.tsv", "first\tsecond\tscore\na\tb\t\n", DataError, "is not a number"),
        (
            "a.jsonl",
            '{"first": "a", "second": 5}\n',
            DataError,
            r"'second' is 5, but must be a text\n.*:1",
        ),
        ("a.jsonl", '{"first": "a"}\n', DataError, r"'second' is missing; there are 'first'"),
        ("a.jsonl", '{"first": "a", "second": "b", "score": true}', DataError, "is not a number"),
        ("a.tsv", "first\tsecond\tscore\na\tb\t1e308\n", DataError, r"-1e\+18 to 1e\+18\n.*:2"),
        ("a.tsv", "first\tsecond\tscore\na\tb\t-inf\n", DataError, r"-1e\+18 to 1e\+18\n.*:2"),
        ("a.jsonl", f'{{"first": "a", "second": "b", "score": 1{"0" * 400}}}', DataError, "range"),
        ("a.jsonl", '{"first": "a", "second": "\\ud83d"}\n', DataError, r"lone surrogate(.|\n)*:1"),
        ("a.jsonl", "{", DataError, r"not valid JSON"),
        ("a.txt", "a\tb\n", UsageError, r"\.tsv, \.tab, \.csv, \.jsonl"),
    ],
)
def test_rows_that_are_no_pair_are_refused_with_their_line(tmp_path, name, content, kind, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(kind, match=message):
        read(tmp_path / name)


def test_rows_have_all_their_values_by_name(tmp_path):
    (tmp_path / "a.tsv").write_text("text\tkind\nx\ty\n")
    rows = read_rows(tmp_path / "a.tsv", {"text": "--column"})
    assert [(row.line, row.values) for row in rows] == [(2, {"text": "x", "kind": "y"})]
    with pytest.raises(UsageError, match=r"--column NAME"):
        list(read_rows(tmp_path / "a.tsv", {"words": "--column"}))


def test_pairs_share_a_text_on_any_side():
    a, b, c, d, e, f, g = ([2, i, 3] for i in range(10, 17))
    first, second = [a, a, c, d, f], [b, c, e, d, g]
    expected = torch.zeros(5, 5, dtype=torch.bool)
    for i, j in ((0, 1), (1, 2)):  # both begin with a; the second text of 1 is the first of 2
        expected[i, j] = expected[j, i] = True
    assert torch.equal(share_texts(first, second), expected)
    assert torch.equal(share_texts(second, first), expected)
    assert share_texts([a, d], [b, b]).tolist() == [[False, True], [True, False]]


def test_a_batch_has_the_requested_pairs():
    batch = PAIRS.batch([4, 0, 7], pad=0)
    assert batch.first.tokens.tolist() == [[2, 14, 3], [2, 10, 3], [2, 17, 3]]
    assert batch.second.keys.sum(1).tolist() == [len(PAIRS.second[i]) for i in (4, 0, 7)]
    assert batch.scores is not None and batch.indices == (4, 0, 7)
    assert batch.scores.tolist() == pytest.approx([4 / 22, 0, 7 / 22])
    assert not batch.shared.any()
    assert SimilarPairs(PAIRS.first, PAIRS.second).batch([1], 0).scores is None
    moved = batch.to("meta")
    assert {moved.first.tokens.device.type, moved.shared.device.type} == {"meta"}
