"""Holding out examples by the hash of their content."""

from pathlib import Path

import pytest

import headway
from headway.base.errors import DataError
from headway.data.split import check_sides, hold_out, is_held_out
from tests.fixtures.tiny_encoder import save_encoder

TEXTS = [f"text {i}" for i in range(200)]
HELD_OUT = [text for text in TEXTS if is_held_out(text, 0.2)]
COMMON = dict.fromkeys(TEXTS, "common")


def held_out(texts, labels):
    notes = []
    train, valid = hold_out(
        texts,
        lambda text: text,
        0.2,
        labels=lambda text: labels[text].split(),
        emit=notes.append,
        unit="texts",
    )
    return train, valid, [note["text"] for note in notes]


def test_the_hash_alone_decides_if_every_label_occurs_in_training_too():
    train, valid, notes = held_out(TEXTS, COMMON)
    assert valid == HELD_OUT and 20 <= len(HELD_OUT) <= 60 and not notes
    assert train == [text for text in TEXTS if text not in HELD_OUT]


def test_the_first_example_with_a_label_that_no_training_example_has_is_kept_and_reported():
    labels = {**COMMON, HELD_OUT[3]: "common rare", HELD_OUT[7]: "rare", HELD_OUT[9]: "other"}
    train, valid, notes = held_out(TEXTS, labels)
    moved = {HELD_OUT[3], HELD_OUT[9]}  # the second "rare" one is held out
    assert valid == [text for text in HELD_OUT if text not in moved]
    assert train == [text for text in TEXTS if text not in HELD_OUT or text in moved]
    assert notes == [
        f"2 of the {len(HELD_OUT)} texts to hold out stay in training: some of their labels "
        "occur in no other training example"
    ]


def test_examples_of_one_content_stay_in_one_split():
    examples = [(text, "common") for text in TEXTS] + [(HELD_OUT[3], "rare")]
    train, valid = hold_out(examples, lambda e: e[0], 0.2, labels=lambda e: e[1:])
    assert examples[-1] in train and (HELD_OUT[3], "common") in train
    assert not {text for text, _ in train} & {text for text, _ in valid}
    assert [text for text, _ in valid] == [text for text in HELD_OUT if text != HELD_OUT[3]]


def test_of_few_examples_one_content_is_held_out_that_no_label_needs():
    few = [text for text in TEXTS if not is_held_out(text, 0.2)][:6]
    examples = [(text, label) for text, label in zip(few, "aabbcd", strict=True)] * 2
    for labels in (lambda example: (), lambda example: example[1:]):
        train, valid = hold_out(examples, lambda example: example[0], 0.2, labels=labels)
        assert len(valid) == 2 and valid[0] == valid[1] not in train and len(train) == 10
    assert valid[0][1] in "ab"


def test_no_example_is_held_out_if_every_label_needs_its_own_or_all_are_equal():
    few = HELD_OUT[:3] + [text for text in TEXTS if text not in HELD_OUT][:3]
    for texts in (few, [TEXTS[0]] * 9):
        train, valid, _ = held_out(texts, {text: text.replace(" ", "") for text in texts})
        assert train == texts and not valid
    assert hold_out(TEXTS[:9], lambda text: text, 0.0)[1] == []


def test_without_labels_no_example_is_moved():
    assert hold_out(TEXTS, lambda text: text, 0.2)[1] == HELD_OUT
    assert hold_out([], lambda text: text, 0.2) == ([], [])


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["equal"] * 399, ": all of them are equal, and equal ones are always in the same split"),
        (["a", "b"] * 3, ": only 2 of them differ, and equal ones are always in the same split"),
        (["a", "b", "c"], ""),
    ],
)
def test_a_split_that_is_empty_because_examples_are_equal_says_so(texts, reason):
    for train, valid in ((texts, []), ([], texts)):
        with pytest.raises(DataError) as caught:
            check_sides(train, valid, "the texts", "file.tsv", content=lambda text: text)
        assert caught.value.what.endswith(f"split of the texts is empty{reason}")
    with pytest.raises(DataError, match=r"is empty\n"):
        check_sides(texts, [], "the texts", "file.tsv")


EQUAL = {
    "tag": ("tags.conll", "Ada\tB-PER\nmet\tO\n\n" * 40),
    "answer": (
        "qa.jsonl",
        '{"question": "who?", "context": "Ada is here", "answer": "Ada", "start": 0}\n' * 40,
    ),
    "embed": ("pairs.tsv", "first\tsecond\n" + "a toad\ta rake\n" * 40),
    "translate": ("mt.tsv", "en\tde\n" + "a fox\tein Fuchs\n" * 40),
}


@pytest.mark.parametrize("name", EQUAL)
def test_every_task_says_that_all_its_examples_are_equal(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, content = EQUAL[name]
    Path(file).write_text(content)
    start = None if name == "translate" else save_encoder(Path("encoder"))
    with pytest.raises(DataError, match="all of them are equal"):
        headway.train(name, data=file, start=start, steps=1, quiet=True)
