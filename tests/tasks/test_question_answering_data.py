"""Questions with answers: their files, and windows over long contexts."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.base.errors import DataError, UsageError
from headway.tasks.question_answering.question_files import Answer, read_questions
from headway.tasks.question_answering.windows import (
    AnswerTexts,
    Window,
    collate_windows,
    covered,
    windows,
)
from headway.text import SpecialTokens

SPECIAL_TOKENS = SpecialTokens(pad=0, start=1, end=2, mask=3)
CONTEXT = "Ada lives in Zürich 🦊 by the lake."


def squad(**changes):
    answers = [{"text": "by the lake", "answer_start": 22}, {"text": "Zürich", "answer_start": 13}]
    row = {"id": "q1", "question": "Where?", "answers": answers, **changes}
    paragraphs = [{"context": CONTEXT, "qas": [row]}]
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}


def line(**changes):
    row = {"question": "Where?", "context": CONTEXT, "answer": "by the lake", "start": 22}
    return json.dumps({**row, **changes})


# --- files -------------------------------------------------------------------------------------


def test_squad_and_json_lines_contain_the_same_question(tmp_path):
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        json.dump(squad(), file, indent=1)
    (tmp_path / "a.jsonl").write_text(line(id="q1") + "\n\n" + line(answer="🦊", start=20) + "\n")
    (from_squad,) = read_questions([tmp_path / "a.json.gz"])
    first_line, second_line = read_questions([tmp_path / "a.jsonl"])
    assert from_squad.answers == (Answer("by the lake", 22), Answer("Zürich", 13))
    assert (from_squad.id, from_squad.question, from_squad.context) == (
        first_line.id,
        first_line.question,
        first_line.context,
    )
    assert first_line.answers == from_squad.answers[:1]
    assert second_line.id == "3" and second_line.answers == (Answer("🦊", 20),)


def test_the_answers_of_squad_may_be_lists_as_on_the_hub(tmp_path):
    lists = {"text": ["by the lake", "Zürich"], "answer_start": [22, 13]}
    (tmp_path / "a.json").write_text(json.dumps(squad(answers=lists)))
    (tmp_path / "b.json").write_text(json.dumps(squad()))
    (a,), (b,) = (read_questions([tmp_path / name]) for name in ("a.json", "b.json"))
    assert a.answers == b.answers == (Answer("by the lake", 22), Answer("Zürich", 13))


def test_questions_without_an_answer_are_read_without_one(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(squad(is_impossible=True, answers=[])))
    (question,) = read_questions([tmp_path / "a.json"])
    assert question.answers == ()


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"answers": [{"text": "the lake", "answer_start": 0}]}, r"q1: the answer 'the lake'"),
        ({"answers": [{"text": "by", "answer_start": 900}]}, r"q1: .*character 900"),
        (
            {"answers": [{"text": "by", "answer_start": -1}]},
            "'answer_start' must be a whole number",
        ),
        ({"answers": [{"text": " ", "answer_start": 3}]}, "'text' is empty"),
        ({"answers": []}, "has no answer"),
        ({"answers": None}, "'answers' must have the lists 'text' and 'answer_start'"),
        ({"question": ""}, "'question' is empty"),
        ({"id": 7}, "'id' is missing, or not a text"),
    ],
)
def test_a_malformed_squad_file_is_refused_with_file_and_question(tmp_path, changes, part):
    (tmp_path / "a.json").write_text(json.dumps(squad(**changes)))
    with pytest.raises(DataError, match=part) as caught:
        list(read_questions([tmp_path / "a.json"]))
    assert "a.json" in caught.value.where and "question" in caught.value.where


@pytest.mark.parametrize(
    ("name", "content", "kind", "part"),
    [
        (
            "a.jsonl",
            line() + "\n" + line(start=21),
            DataError,
            r"but ' by .* is there(.|\n)*a.jsonl:2",
        ),
        ("a.jsonl", line(start="22"), DataError, r"'start' must be a whole number(.|\n)*a.jsonl:1"),
        ("a.jsonl", line(context=None), DataError, r"'context' is missing, or not a text"),
        ("a.jsonl", "{", DataError, r"JSON(.|\n)*a.jsonl:1"),
        ("a.json", "{}", DataError, r"'question' is missing, or not a text"),
        ("a.json", '{"data": [{"paragraphs": 1}]}', DataError, r"'paragraphs' is missing, or not"),
        ("a.json", "{", DataError, r"JSON(.|\n)*a.json"),
        ("a.tsv", "", UsageError, ".jsonl, .ndjson, .json, .parquet"),
    ],
)
def test_a_malformed_question_is_refused_with_its_line(tmp_path, name, content, kind, part):
    (tmp_path / name).write_text(content)
    with pytest.raises(kind, match=part):
        list(read_questions([Path(tmp_path / name)]))


# --- windows -----------------------------------------------------------------------------------


def test_a_window_is_the_question_and_a_part_between_special_tokens():
    first, second = windows(SPECIAL_TOKENS, [5, 6], [10, 11, 12, 13, 14, 15], 9, 3)
    assert list(first.ids) == [1, 5, 6, 2, 10, 11, 12, 13, 2]
    assert first.types == [0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert (first.first, first.begin, first.count) == (4, 0, 4)
    assert list(second.ids) == [1, 5, 6, 2, 13, 14, 15, 2]
    assert (second.first, second.begin, second.count) == (4, 3, 3)
    assert first.place((1, 3)) == (5, 7) and second.place((3, 5)) == (4, 6)
    assert first.place((3, 4)) == second.place((2, 3)) == first.place(None) == (0, 0)
    double = windows(SpecialTokens(0, 1, 2, 3, between=2), [5], [10], 9, 3)[0]
    assert list(double.ids) == [1, 5, 2, 2, 10, 2] and double.first == 4


@given(
    question=st.integers(0, 90),
    context=st.integers(0, 70),
    length=st.integers(8, 160),
    stride=st.integers(1, 40),
    between=st.integers(1, 2),
)
def test_every_token_of_a_context_is_in_a_window(question, context, length, stride, between):
    ids = list(range(100, 100 + context))
    cut = windows(SpecialTokens(0, 1, 2, 3, between), [7] * question, ids, length, stride)
    covered_ids = set()
    for window in cut:
        part = list(window.ids[window.first : window.first + window.count])
        assert part == ids[window.begin : window.begin + window.count]
        assert len(window.ids) == window.first + window.count + 1 <= length
        covered_ids.update(part)
    assert covered_ids == set(ids)
    assert len({window.begin for window in cut}) == len(cut)
    if (
        context <= length - question - 3 - between
        and question <= 64
        and question <= length // 2 - 4
    ):
        assert len(cut) == 1


def test_windows_too_small_are_refused():
    with pytest.raises(ValueError, match="length=7"):
        windows(SPECIAL_TOKENS, [5], [6], 7, 3)


def test_the_tokens_of_an_answer_are_those_that_share_a_character_with_it():
    spans = [(0, 3), (4, 4), (4, 6), (6, 9), (10, 12)]
    assert covered(spans, 4, 9) == (2, 3) and covered(spans, 5, 7) == (2, 3)
    assert covered(spans, 2, 4) == (0, 0) and covered(spans, 9, 10) is None
    assert covered(spans, 0, 12) == (0, 4)


def test_batches_have_the_positions_of_the_answer_and_the_token_types():
    cut = windows(SPECIAL_TOKENS, [5, 6], [10, 11, 12, 13, 14, 15], 9, 3)
    texts = AnswerTexts(cut, [(5, 7), (0, 0)])
    batch = texts.batch([1, 0], 0)
    assert batch.starts.tolist() == [0, 5] and batch.ends.tolist() == [0, 7]
    assert batch.texts.tokens.shape == (2, 9) and not batch.texts.keys[0, -1]
    assert batch.texts.types[1].tolist() == cut[0].types
    assert collate_windows(cut, 0, typed=False).types is None


def test_a_window_is_no_longer_than_its_ids():
    window = Window([1, 5, 2, 9, 9, 2], 3, 0, 2)
    assert len(window.types) == 6 and sum(window.types) == 3
