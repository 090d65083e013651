"""Alignment error rate: values by hand, reading of gold files, and their errors."""

import pytest

from headway.base.errors import DataError
from headway.tasks.translation.word_alignment import Gold, parse_gold, read_gold, score_links


def test_links_are_sure_or_possible_and_what_is_sure_is_possible():
    gold = parse_gold("0-0 1-2 1?3 4p0")
    assert gold.sure == {(0, 0), (1, 2)}
    assert gold.possible == {(0, 0), (1, 2), (1, 3), (4, 0)}
    assert parse_gold("1-1 2?10", first=1) == Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 9)}))
    assert parse_gold("  ") == Gold(frozenset(), frozenset())


def test_the_error_rate_is_over_all_sentences_together():
    gold = [parse_gold("0-0 1-1 2?2"), parse_gold("0-1")]
    predicted = [{(0, 0), (2, 2), (3, 3)}, {(0, 1), (1, 1)}]
    scores = score_links(predicted, gold)
    # A 5, S 3; A and S: (0,0), (0,1); A and P: (0,0), (2,2), (0,1)
    assert scores.error_rate == pytest.approx(1 - (2 + 3) / (5 + 3))
    assert scores.precision == pytest.approx(3 / 5) and scores.recall == pytest.approx(2 / 3)
    perfect = score_links([set(annotation.sure) for annotation in gold], gold)
    assert perfect.error_rate == 0
    nothing = score_links([set(), set()], gold)
    assert nothing.error_rate == 1 and nothing.recall == 0
    assert score_links([set()], [parse_gold("0?0")]).error_rate == 0
    with pytest.raises(ValueError, match="zip"):
        score_links([set()], gold)


def test_a_possible_link_costs_nothing_whether_it_is_predicted_or_not():
    gold = [parse_gold("0-0 1?1")]
    assert score_links([{(0, 0), (1, 1)}], gold).error_rate == 0
    assert score_links([{(0, 0)}], gold).error_rate == 0
    assert score_links([{(0, 0), (1, 2)}], gold).error_rate == pytest.approx(1 / 3)


def test_a_file_has_one_line_per_pair_and_errors_name_the_line(tmp_path):
    path = tmp_path / "gold.txt"
    path.write_text("1-1 2p3\n\n2-1\n")
    assert [len(annotation.possible) for annotation in read_gold(path, first=1)] == [2, 0, 1]
    for text, first, message in (
        ("0-0\n0:1\n", 0, r"'0:1' is no link"),
        ("0-0\n-1-2\n", 0, r"'-1-2' is no link"),
        ("1-1\n0-1\n", 1, r"counted from 1"),
        ("0-0\n1-9999999\n", 0, "is no link"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message) as error:
            read_gold(path, first=first)
        assert error.value.where == f"{path}:2"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="UTF-8"):
        read_gold(path)
