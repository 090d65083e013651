"""Suites are recognised by their files, and rows become the questions of their definitions."""

import json

import pytest

from headway.base.errors import DataError, UsageError
from headway.suites import LAYOUTS, read_suite
from headway.suites.questions import Choice
from tests.fixtures.suites import SUITES, write_suite

LANGUAGES = ("eng_Latn", "deu_Latn")


def questions(folder, name, split=None):
    suite = read_suite(write_suite(folder, name), languages=LANGUAGES)
    return [part.question for part in suite.evaluated(split)[1]]


def test_there_is_a_tiny_suite_of_every_layout():
    assert set(SUITES) == set(LAYOUTS)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_folder_is_recognised_by_its_files(tmp_path, name):
    suite = read_suite(write_suite(tmp_path, name), languages=LANGUAGES)
    assert suite.name == name
    assert len(suite.evaluated()[1]) >= 1 and len(suite.sha256) == 64


PROMPTS = {
    "hellaswag": "Baking bread: The baker sees a boat.. How The owl",
    "arc": "Question: The baker sees a boat.\nAnswer:",
    "piqa": "Question: The baker sees a boat\nAnswer:",
    "mmlu": "The baker sees a boat., yes\nA. one\nB. two\nC. three\nD. four\nAnswer:",
    "cola": "The baker sees a boat.\nQuestion: Does this sentence make sense?\nAnswer:",
    "rte": "The baker sees a boat.\n"
    "Question: The miller paints some bread. True or False?\nAnswer:",
    "squad": "Title: Owls\n\nBackground: The baker sees a boat.\n\nQuestion: Who?\n\nAnswer:",
    "flores": "eng_Latn sentence: The baker sees a boat.\ndeu_Latn sentence:",
}


@pytest.mark.parametrize("name", PROMPTS)
def test_the_prompt_of_the_first_row(tmp_path, name):
    assert questions(tmp_path, name)[0].prompt == PROMPTS[name]


def test_the_gap_of_winogrande_is_filled_in_the_context(tmp_path):
    first = questions(tmp_path, "winogrande")[0]
    starts = [f"The owl greets the crab because the {name}" for name in ("owl", "crab")]
    assert first.requests("") == [(start, " sings today.") for start in starts]
    assert first.gold == 0


def test_labels_are_read_from_the_file_beside_the_rows(tmp_path):
    assert [question.gold for question in questions(tmp_path, "piqa")] == [0, 1, 1, 0, 1, 0]


def test_a_test_part_without_labels_has_questions_without_gold(tmp_path):
    assert [question.gold for question in questions(tmp_path, "sst2", "test")] == [None] * 3


def test_articles_begin_at_titles_and_are_detokenised(tmp_path):
    first, second = questions(tmp_path, "wikitext")
    assert "The owl's boat, (red), has 3,000 parts." in first.text and "== Songs ==" in first.text
    assert second.words == 25 and second.text.endswith("== Songs ==\n")


def test_the_subject_of_mmlu_is_that_of_the_file(tmp_path):
    assert questions(tmp_path, "mmlu")[0].description.endswith("about birds.\n\n")


def test_examples_come_from_the_training_part(tmp_path):
    pool, is_held_out = read_suite(write_suite(tmp_path, "arc")).examples("test")
    assert len(pool) == 6 and is_held_out
    pool, is_held_out = read_suite(write_suite(tmp_path, "winogrande")).examples("validation")
    assert len(pool) == 6 and not is_held_out


def test_a_folder_of_nothing_known_lists_what_was_found_and_expected(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"colour": "red"}\n')
    with pytest.raises(DataError, match=r"rows.jsonl \(colour\)") as error:
        read_suite(tmp_path)
    assert "blimp" in str(error.value.hint)


def test_two_benchmarks_in_one_folder_are_refused(tmp_path):
    write_suite(tmp_path, "piqa")
    write_suite(tmp_path, "blimp")
    with pytest.raises(DataError, match="several layouts: blimp, piqa"):
        read_suite(tmp_path)


def test_a_layout_can_be_named(tmp_path):
    row = {"sentence1": "a", "sentence2": "b", "label": 1}
    (tmp_path / "dev.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError):
        read_suite(tmp_path)
    (part,) = read_suite(tmp_path, "rte").evaluated()[1]
    assert isinstance(part.question, Choice) and part.question.gold == 1
    with pytest.raises(UsageError, match="rte"):
        read_suite(tmp_path, "rta")


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        (
            "arc",
            {"question": "q", "choices": {"text": ["a"], "label": ["A"]}, "answerKey": "B"},
            "one of A",
        ),
        ("arc", {"question": "q", "choices": 3, "answerKey": "B"}, "texts with labels"),
        ("winogrande", {"sentence": "no gap", "option1": "a", "option2": "b"}, "one gap"),
        ("blimp", {"sentence_good": 3, "sentence_bad": "b"}, "a text"),
        ("rte", {"sentence1": "a", "sentence2": "b", "label": "maybe"}, "one of entailment"),
    ],
)
def test_a_wrong_row_is_named_with_its_file_and_line(tmp_path, name, row, message):
    (tmp_path / "dev.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match=message) as error:
        read_suite(tmp_path, name)
    assert str(error.value.where).endswith("dev.jsonl:1")


def test_labels_of_another_number_than_rows_are_refused(tmp_path):
    folder = write_suite(tmp_path, "piqa")
    (folder / "valid-labels.lst").write_text("0\n")
    with pytest.raises(DataError, match="1 labels"):
        read_suite(folder)
