"""`headway data check` says what a file holds, and checks it, whether it holds pairs or not."""

import json

import pytest

from headway.base.errors import DataError, UsageError
from headway.cli.data_check import CheckFlags, check, check_kind, kind_of

LABELLED = "text\tlabel\nred fox\ta\nold dog\tb\nred fox\ta\n"
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "Ada wrote it.",
                    "qas": [
                        {
                            "id": "1",
                            "question": "Who?",
                            "answers": [{"text": "Ada", "answer_start": 0}],
                        }
                    ],
                }
            ]
        }
    ]
}
CASES = {
    "labelled texts": ("a.tsv", LABELLED),
    "labelled text pairs": ("a.csv", "sentence1,sentence2,label\none,two,x\n"),
    "tagged sentences": ("a.conll", "Ada\tB-PER\nwalks\tO\n"),
    "questions": ("a.json", json.dumps(SQUAD, indent=1)),
    "pairs of similar texts": ("a.jsonl", '{"first": "a", "second": "b"}\n'),
    "texts": ("a.jsonl", '{"text": "a"}\n'),
}


@pytest.mark.parametrize("name", CASES)
def test_the_kind_of_a_file_is_named_and_its_examples_are_counted(tmp_path, capsys, name):
    file, content = CASES[name]
    (tmp_path / file).write_text(content)
    check(tmp_path / file)
    output = capsys.readouterr().out
    assert f"these are {name}, not sentence pairs: headway train" in output
    assert "no faults" in output
    check(tmp_path / file, flags=CheckFlags(json=True))
    report = json.loads(capsys.readouterr().out)
    assert report["kind"] == name and report["splits"]["train"]["examples"] >= 1


def test_labels_and_repetitions_are_counted_and_faults_have_their_lines(tmp_path, capsys):
    path = tmp_path / "a.tsv"
    path.write_text(LABELLED + "no label\n" * 7)
    report = check_kind(path, kind_of(path))
    assert report.splits["train"].labels == {"a": 2, "b": 1}
    assert report.warnings == ["train: labelled texts that occur before: 1"]
    assert f"{path}:5: the row has 1 cells" in report.faults[0]
    assert report.faults[-1] == "train: further faults: 2"
    with pytest.raises(DataError, match="faults"):
        check(path)
    assert "2 labels; most frequent: a 2, b 1" in capsys.readouterr().out


def test_texts_in_two_splits_are_a_fault(tmp_path):
    for name in ("train", "valid"):
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\nred fox\ta\n")
    report = check_kind(tmp_path, kind_of(tmp_path))
    assert report.faults == ["valid: labelled texts that are in train, too: 1"]


def test_running_text_and_images_say_what_is_not_checked(tmp_path):
    (tmp_path / "a.txt").write_text("One sentence.\nAnother one.\n")
    kind = kind_of(tmp_path / "a.txt")
    assert "not checked: what the texts say" in check_kind(tmp_path / "a.txt", kind).table()
    folder = tmp_path / "images" / "cat"
    folder.mkdir(parents=True)
    (folder / "1.png").touch()
    report = check_kind(tmp_path / "images", kind_of(tmp_path / "images"))
    assert report.splits["train"].labels == {"cat": 1} and "can be decoded" in report.table()


def test_the_same_words_about_two_images_are_two_conversations(tmp_path, capsys):
    for name in ("train", "valid"):
        (tmp_path / f"{name}.png").touch()
        asked = [{"type": "image", "path": f"{name}.png"}, {"type": "text", "text": "Bright?"}]
        messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": "yes"}]
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"messages": messages}))
    check(tmp_path)
    output = capsys.readouterr().out
    assert "conversations with images, not sentence pairs: headway train see" in output
    assert "no faults" in output and "warning" not in output
    check(tmp_path / "train.jsonl")
    assert "user: <train.png>Bright?\nassistant: [yes]" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["en\tde\none\teins\n", "one\teins\n"])
def test_sentence_pairs_are_checked_as_such(tmp_path, capsys, content):
    (tmp_path / "a.tsv").write_text(content)
    assert kind_of(tmp_path / "a.tsv") is None
    check(tmp_path / "a.tsv")
    assert "1 pairs" in capsys.readouterr().out


TABLE = "id,body,class\n1,red fox,a\n2,old dog,b\n"


def test_a_table_of_other_columns_is_checked_as_its_flags_name_them(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text(TABLE)
    check(path, flags=CheckFlags(text="body", label="class", json=True))
    report = json.loads(capsys.readouterr().out)
    assert report["kind"] == "labelled texts"
    assert report["recipe"] == "classify --text body --label class"
    assert report["splits"]["train"]["labels"] == {"a": 1, "b": 1}
    check(path, flags=CheckFlags(text="body", json=True))
    assert json.loads(capsys.readouterr().out)["splits"]["train"]["examples"] == 2
    with pytest.raises(UsageError, match="name a text, and its label, with --text and --label"):
        check(path)
    with pytest.raises(UsageError, match="one of the two pairs of flags"):
        check(path, flags=CheckFlags(text="body", source="id"))
