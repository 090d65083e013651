"""Files of splits by their names: one file each, or numbered ones as on the Hugging Face hub."""

import json
from pathlib import Path

import pytest

from headway.base.errors import DataError, UsageError
from headway.data.documents import read_documents
from headway.data.formats.split_files import files_of, grouped, shard_of, split_files
from headway.data.rows import ENDINGS
from headway.runs import recipe
from headway.tasks.classification.config import ClassifyDataConfig
from headway.tasks.classification.data import labelled_texts
from headway.tasks.text_data import RunningText
from headway.tasks.translation.corpora.corpus_check import check
from headway.tasks.translation.directions import corpora_of
from headway.tasks.translation.pairs.reading import read_pairs
from headway.tasks.translation.pairs.splits import locate


def write(path: Path, *records: dict) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def hub(folder: Path, rows) -> list[Path]:
    """Write two files of the training split and one of the validation split into folder/data."""
    names = ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001")
    (folder / "README.md").write_text("# A data set\n")
    return [
        write(folder / "data" / f"{name}.jsonl", *of_file)
        for name, of_file in zip(names, rows, strict=True)
    ]


PAIRS = (
    [{"translation": {"en": "one", "de": "eins"}}, {"translation": {"en": "two", "de": "zwei"}}],
    [{"translation": {"en": "three", "de": "drei"}}],
    [{"translation": {"en": "four", "de": "vier"}}],
)


def sources(files) -> list[str]:
    return [pair.source for pair in read_pairs(files)]


def test_numbered_files_of_pairs_are_one_split_in_order(tmp_path):
    first, second, _ = hub(tmp_path, PAIRS)
    splits = locate(tmp_path, "en", "de")
    assert {name: sources(files) for name, files in splits.items()} == {
        "train": ["one", "two", "three"],
        "valid": ["four"],
    }
    assert "2 files" in splits.train.describe()
    changes = {"data.train": (str(second), str(first)), "data.source": "en", "data.target": "de"}
    (corpus,) = corpora_of(recipe("translate", ("the test", changes)).data)
    assert sources(corpus.files.train) == ["one", "two", "three"]


def test_the_check_names_the_file_of_a_fault_in_numbered_files(tmp_path):
    damaged = [{"translation": {"en": "one", "de": "eins"}}] * 2, [{"en": "", "de": "x"}, {"en": 5}]
    _, second, _ = hub(tmp_path, (*damaged, PAIRS[2]))
    report = check(locate(tmp_path, "en", "de"))
    assert report.splits["train"].pairs == 3 and len(report.splits["train"].files) == 2
    assert any(f"{second}:1: 1 pair has an empty side" in fault for fault in report.faults)
    assert any(f"{second}:2" in fault for fault in report.faults)


def test_a_missing_file_of_a_split_is_named(tmp_path):
    _, second, _ = hub(tmp_path, PAIRS)
    second.unlink()
    with pytest.raises(DataError, match=r"1 of its 2 files: number 1 .* is missing"):
        locate(tmp_path, "en", "de")
    with pytest.raises(DataError, match="number 1"):
        split_files(tmp_path, ENDINGS)


def test_labelled_texts_of_a_folder_are_those_of_its_splits(tmp_path):
    rows = [[{"text": f"{name} {n}", "label": n} for n in (0, 1)] for name in "abc"]
    hub(tmp_path, rows)
    train, valid = labelled_texts(ClassifyDataConfig(train=(str(tmp_path),)))
    assert [text.text for text in train] == ["a 0", "a 1", "b 0", "b 1"]
    assert [text.text for text in valid] == ["c 0", "c 1"]
    assert valid[0].where.endswith("validation-00000-of-00001.jsonl:1")


def test_documents_of_a_folder_are_those_of_the_training_split(tmp_path):
    hub(tmp_path, [[{"text": "one"}], [{"text": "two"}], [{"text": "three"}]])
    assert [part.text for part in read_documents([str(tmp_path)])] == ["one", "two"]
    text = RunningText(recipe("gpt-tiny", ("the test", {"data.train": (str(tmp_path),)})).data)
    assert [part.text for part in text.train[0].train()] == ["one", "two"]
    assert [part.text for part in text.held_out()] == ["three"]


def test_names_of_splits_and_numbers_are_recognised():
    assert shard_of(Path("a/train-00003-of-00010-abcdef.parquet")) is not None
    for name, split in (("dev.tsv", "valid"), ("Test.jsonl.gz", "test"), ("val-x.csv", "valid")):
        shard = shard_of(Path(name))
        assert shard is not None and (shard.split, shard.number) == (split, None)
    for name in ("trains.tsv", "my-train.tsv", "x.jsonl"):
        assert shard_of(Path(name)) is None
    paths = [Path(f"train-0000{n}-of-00002.csv") for n in (1, 0)] + [Path("train.csv")]
    assert grouped(paths) == [[paths[1], paths[0]], [paths[2]]]


def test_a_folder_without_files_of_a_split_and_one_with_several_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no file of texts for the split train"):
        files_of([str(tmp_path)], [], ENDINGS, "texts")
    write(tmp_path / "train.jsonl", {"text": "x"})
    train, valid = files_of([str(tmp_path)], [], ENDINGS, "texts")
    assert (train, valid) == ([tmp_path / "train.jsonl"], [])
    (tmp_path / "train.tsv").write_text("text\nx\n")
    with pytest.raises(UsageError, match="more than one file fits the split train"):
        files_of([str(tmp_path)], [], ENDINGS, "texts")
