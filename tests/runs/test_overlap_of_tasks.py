"""The held-out examples of a run that are in its training data, for tasks of every kind of file."""

import json

import pytest

from headway.data.overlap import overlap
from headway.runs import recipe
from headway.tasks.registry import task_of_config


def squad(numbers):
    paragraphs = [
        {
            "context": f"Ada {i} waits at home.",
            "qas": [
                {
                    "id": str(i),
                    "question": f"who waits {i} ?",
                    "answers": [{"text": "Ada", "answer_start": 0}],
                }
            ],
        }
        for i in numbers
    ]
    return json.dumps({"data": [{"title": "home", "paragraphs": paragraphs}]})


def conll(numbers):
    return "".join(f"Ada\tB-PER\nword{i}\tO\n\n" for i in numbers)


def labelled(numbers):
    return "text\tlabel\n" + "".join(f"text {i} of many\t{'ab'[i % 2]}\n" for i in numbers)


def similar(numbers):
    return "first\tsecond\n" + "".join(f"text {i} here\tother {i} here\n" for i in numbers)


@pytest.mark.parametrize(
    ("name", "suffix", "written"),
    [
        ("tag", "conll", conll),
        ("classify", "tsv", labelled),
        ("answer", "json", squad),
        ("embed", "tsv", similar),
    ],
)
def test_examples_of_both_sides_are_counted(name, suffix, written, tmp_path):
    train, valid = (tmp_path / f"{side}.{suffix}" for side in ("train", "valid"))
    train.write_text(written(range(20)))
    valid.write_text(written(range(17, 23)))
    changes = {"data.train": (str(train),), "data.valid": (str(valid),)}
    config = recipe(name, ("the test", changes))
    found = overlap(task_of_config(config).sides(config.data))
    assert (found.examples, found.equal) == (6, 3)
