"""Rows that are no examples: the first one stops the run, or at most N are left out and listed."""

import json
from pathlib import Path

import pytest

from headway.base.errors import DataError, UsageError
from headway.data.bad_rows import BadRows
from headway.runs import recipe, train
from headway.tasks.captioning.caption_files import CaptionColumns, read_captions
from headway.tasks.classification.label_files import read_labelled
from headway.tasks.question_answering.question_files import read_questions
from headway.tasks.sentence_embedding.similar_files import read_similar
from headway.tasks.tagging.tag_files import read_tagged
from headway.tasks.translation.corpora.corpus_check import check
from headway.tasks.translation.pairs.splits import locate

QUESTION = {"question": "Who?", "context": "Ada wrote it.", "answer": "Ada", "start": 0}
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "Ada wrote it.",
                    "qas": [
                        {
                            "id": str(start),
                            "question": "Who?",
                            "answers": [{"text": "Ada", "answer_start": start}],
                        }
                        for start in (0, 1)
                    ],
                }
            ]
        }
    ]
}
CASES = {
    "too few cells": ("a.tsv", "text\tlabel\none\tx\ntwo\nthree\ty\n", read_labelled, ":3"),
    "no label": ("a.csv", "text,label\none,x\ntwo,\nthree,y\n", read_labelled, ":3"),
    "no JSON": ("a.jsonl", '{"text": "a", "label": 1}\n{"text"\n', read_labelled, ":2"),
    "no object": ("a.json", '[{"text": "a", "label": 1}, 5]', read_labelled, "record 2"),
    "no number": ("a.tsv", "first\tsecond\tscore\na\tb\t1\nc\td\tx\n", read_similar, ":3"),
    "columns of a word": ("a.conll", "one\tO\ntwo\tO\n\none\ntwo\tO\n\nx\tO\n", read_tagged, ":4"),
    "no tag": ("a.conll", "one\tO\n\ntwo\t \n", read_tagged, ":3"),
    "tags and words": (
        "a.jsonl",
        '{"words": ["a"], "tags": ["O"]}\n{"words": ["a"], "tags": []}\n',
        read_tagged,
        ":2",
    ),
    "a wrong start": (
        "a.jsonl",
        f"{json.dumps(QUESTION)}\n{json.dumps(QUESTION | {'start': 1})}\n",
        read_questions,
        ":2",
    ),
    "a wrong start in SQuAD": ("a.json", json.dumps(SQUAD), read_questions, "question 1"),
}


def read_table_of_images(paths, bad_rows=None):
    (path,) = paths
    for name in ("1.png", "2.png"):
        (path.parent / name).touch()
    return read_captions(path, CaptionColumns(text=("en",)), bad_rows=bad_rows)


CASES["no caption"] = (
    "a.tsv",
    "image\ten\n1.png\tone\n2.png\t\n1.png\tmore\n",
    read_table_of_images,
    ":3",
)


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    name, content, read, where = CASES[request.param]
    (tmp_path / name).write_text(content)
    return tmp_path / name, read, where


def test_the_first_bad_row_stops_and_the_error_says_how_to_leave_it_out(case):
    path, read, where = case
    with pytest.raises(DataError) as caught:
        list(read([path], bad_rows=BadRows.of("stop")))
    assert where in caught.value.where
    assert caught.value.hint.endswith("leave such rows out with --data.bad-rows skip:100")


def test_a_bad_row_is_left_out_and_listed_and_all_others_stay(case):
    path, read, where = case
    bad_rows = BadRows.of("skip:1")
    examples = list(read([path], bad_rows=bad_rows))
    assert examples and len(bad_rows.errors) == 1
    (line,) = bad_rows.lines()
    assert line.startswith(str(path)) and where in line
    assert "1 row was left out: " in bad_rows.summary()


def test_more_bad_rows_than_allowed_stop_the_run(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\n" + "one\tx\n" * 3 + "bad\n" * 3)
    assert len(list(read_labelled([path], bad_rows=BadRows.of("skip:3")))) == 3
    with pytest.raises(DataError, match="1 cells") as caught:
        list(read_labelled([path], bad_rows=BadRows.of("skip:2")))
    assert caught.value.where == f"{path}:7" and "the 2 that were left out" in caught.value.hint


def test_a_column_that_does_not_exist_is_no_bad_row(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("text\tkind\none\tx\n")
    with pytest.raises(UsageError, match="'label'"):
        list(read_labelled([path], bad_rows=BadRows.of("skip:9")))


@pytest.mark.parametrize("policy", ["skip", "skip:0", "skip:-1", "skip:1.5", "ignore", ""])
def test_another_policy_is_refused(policy):
    with pytest.raises(UsageError, match="stop, or skip:N"):
        BadRows.of(policy)


def test_the_summary_names_three_rows_and_counts_the_others():
    bad_rows = BadRows(9)
    for line in range(1, 6):
        bad_rows.leave_out(DataError("it is empty", f"{Path('x.tsv')}:{line}"))
    assert bad_rows.summary() == (
        "5 rows were left out: x.tsv:1: it is empty; x.tsv:2: it is empty; x.tsv:3: it is empty; "
        "and 2 more"
    )


PAIRS = "en\tde\n" + "".join(f"w{i} x\tW{i} X\n" for i in range(60)) + "no pair\nlast one\tLETZTE\n"


def test_a_translator_is_trained_without_rows_that_are_no_pair(tmp_path):
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    data = {"data.train": (str(tmp_path / "pairs.tsv"),), "data.source": "en", "data.target": "de"}
    shape = {
        "data.vocabulary": 300,
        "model.model_dim": 16,
        "model.ffn_dim": 16,
        "model.num_heads": 2,
    }
    few = {"training.steps": 1, "evaluation.sentences": 2, "machine.threads": 1}

    def run(policy: str) -> list[dict]:
        events = []
        changes = {**data, **shape, **few, "data.bad_rows": policy}
        config = recipe("translate", ("the test", changes))
        train(config, tmp_path / policy.replace(":", "-"), listeners=[events.append])
        return events

    with pytest.raises(DataError, match="at least 2 columns"):
        run("stop")
    (left_out,) = [event for event in run("skip:1") if event["kind"] == "left_out"]
    line = f"{tmp_path / 'pairs.tsv'}:62: the row must have at least 2 columns"
    (listed,) = (tmp_path / "skip-1" / "left_out.txt").read_text().splitlines()
    assert listed.startswith(line) and left_out["rows"] == [listed]


def test_a_corpus_check_counts_rows_that_are_no_pair_and_goes_on(tmp_path):
    (tmp_path / "pairs.jsonl").write_text('{"en": "a", "de": "b"}\nno\n{"en": "c", "de": "d"}\n')
    report = check(locate(tmp_path / "pairs.jsonl", "en", "de"))
    assert report.splits["train"].pairs == 2
    assert any(f"{tmp_path / 'pairs.jsonl'}:2" in fault for fault in report.faults)
