import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.base.errors import DataError, UsageError
from headway.data.formats import lines
from headway.data.formats.lines import read_lines
from headway.tasks.translation.pairs.reading import pair_files, read_pairs
from headway.tasks.translation.pairs.splits import locate

EXOTIC = st.text(alphabet="ab \u2028\u2029\x85\x0b\x0c\x1c\r\u00a0", max_size=8)


def table(path: Path, *rows: str) -> Path:
    path.write_bytes("".join(f"{row}\n" for row in rows).encode())
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(EXOTIC, EXOTIC), min_size=1, max_size=6))
def test_only_a_newline_ends_a_line_of_a_file_with_several(
    tmp_path: Path, pairs: list[tuple[str, str]]
) -> None:
    pairs.append(("last", "letzte"))
    table(tmp_path / "x.en", *(source for source, _ in pairs))
    table(tmp_path / "x.de", *(target for _, target in pairs))
    read = list(read_pairs(pair_files(tmp_path / "x", "en", "de")))
    assert [(p.source, p.target) for p in read] == [(s.strip(), t.strip()) for s, t in pairs]
    assert [p.line for p in read] == list(range(1, len(pairs) + 1))


def test_byte_order_mark_crlf_and_gzip_are_read(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfone\r\ntwo \xe2\x80\xa8 three\r\nlast"
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    expected = ["one", "two \u2028 three", "last"]
    assert list(read_lines(tmp_path / "a.txt")) == expected
    assert list(read_lines(tmp_path / "a.txt.gz")) == expected


def test_bytes_that_are_not_utf8_are_an_error_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.txt"
    file.write_bytes(b"good\nb\xe4d\n")
    with pytest.raises(DataError, match="0xe4 at position 2") as caught:
        list(read_lines(file))
    assert caught.value.where == f"{file}:2"


def test_damaged_and_exploding_gzip_files_and_endless_lines_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.gz"
    file.write_bytes(gzip.compress(b"a line\n" * 100)[:-10])
    with pytest.raises(DataError, match="damaged"):
        list(read_lines(file))
    file.write_bytes(gzip.compress(b"\n" * 100_000))
    monkeypatch.setattr(lines, "EXPANSION_FREE_BYTES", 1000)
    with pytest.raises(DataError, match="gzip bomb"):
        list(read_lines(file))
    file.write_bytes(gzip.compress(b"\n" + b"x" * (lines.LINE_LIMIT + 1)))
    monkeypatch.setattr(lines, "EXPANSION_FREE_BYTES", 2**30)
    with pytest.raises(DataError, match="longer than") as caught:
        list(read_lines(file))
    assert caught.value.where == f"{file}:2"


def test_two_files_of_unequal_length_name_both_counts_and_the_line(tmp_path: Path) -> None:
    table(tmp_path / "x.en", "one", "two", "three", "four")
    table(tmp_path / "x.de", "eins", "zwei")
    for source, target in (("en", "de"), ("de", "en")):
        with pytest.raises(DataError, match=r"x\.en has 4") as caught:
            list(read_pairs(pair_files(tmp_path / "x", source, target)))
        assert "x.de has 2" in str(caught.value)
        assert f"{tmp_path / 'x.en'}:3" in str(caught.value)


def test_columns_are_selected_by_name_or_number_and_by_default_if_there_are_two(
    tmp_path: Path,
) -> None:
    named = table(tmp_path / "n.tsv", "id\ten\tde", "1\tgood day\tguten Tag")
    (pair,) = read_pairs(pair_files(named, "de", "en"))
    assert (pair.source, pair.target, pair.line) == ("guten Tag", "good day", 2)
    plain = table(tmp_path / "p.tsv", "good day\tguten Tag", "bye\ttschüss")
    for columns in ((None, None), ("1", "2")):
        assert [p.target for p in read_pairs(pair_files(plain, *columns))] == [
            "guten Tag",
            "tschüss",
        ]
    with pytest.raises(UsageError, match=r"id, en, de|3 columns"):
        pair_files(named, None, None)
    with pytest.raises(UsageError, match="'fr'") as caught:
        pair_files(named, "en", "fr")
    assert "id" in str(caught.value)


def test_a_row_with_too_few_columns_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = table(tmp_path / "x.tsv", "en\tde", "one\teins", "two")
    with pytest.raises(DataError) as caught:
        list(read_pairs(pair_files(file, "en", "de")))
    assert f"{file}:3" in str(caught.value)


def test_a_folder_with_one_corpus_is_read(tmp_path: Path) -> None:
    for split in ("train", "val", "test_2016"):
        table(tmp_path / f"talk.{split}.en-de.tsv", "en\tde", f"{split}\tx")
    (tmp_path / "README.md").write_text("about training")
    splits = locate(tmp_path, "en", "de")
    first_sources = {name: next(read_pairs(files)).source for name, files in splits.items()}
    assert first_sources == {"train": "train", "valid": "val", "test": "test_2016"}
    assert list(locate(tmp_path / "talk", "en", "de").items()) == list(splits.items())


def test_aligned_files_are_located_by_folder_and_by_common_prefix(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        table(tmp_path / f"{split}.en", "one")
        (tmp_path / f"{split}.de.gz").write_bytes(gzip.compress(b"eins\n"))
    splits = locate(tmp_path, "en", "de")
    assert splits.valid is not None
    assert splits.test is None
    assert splits.train.paths == (tmp_path / "train.en", tmp_path / "train.de.gz")
    alone = locate(tmp_path / "train", "en", "de")
    assert (alone.train, alone.valid) == (splits.train, None)


def test_several_corpora_in_a_folder_are_listed_in_the_error(tmp_path: Path) -> None:
    for corpus in ("talk", "news"):
        table(tmp_path / f"{corpus}.train.tsv", "en\tde", "one\teins")
    with pytest.raises(UsageError, match="news, talk") as caught:
        locate(tmp_path, "en", "de")
    assert str(tmp_path / "talk") in (caught.value.hint or "")
    assert locate(tmp_path / "news", "en", "de").train.paths == (tmp_path / "news.train.tsv",)


def test_two_test_sets_of_one_corpus_are_listed_in_the_error(tmp_path: Path) -> None:
    for split in ("train", "test_2016", "test_2017"):
        table(tmp_path / f"{split}.tsv", "one\teins")
    with pytest.raises(UsageError, match="more than one test corpus") as caught:
        locate(tmp_path, None, None)
    assert "test_2016.tsv" in str(caught.value)
    assert "test_2017.tsv" in str(caught.value)


def test_tables_of_other_languages_are_skipped_but_a_missing_validation_set_is_an_error(
    tmp_path: Path,
) -> None:
    for language in ("de", "fr"):
        for split in ("train", "valid"):
            table(tmp_path / f"talk.{split}.en-{language}.tsv", f"en\t{language}", "one\tx")
    splits = locate(tmp_path, "en", "fr")
    assert splits.train.paths == (tmp_path / "talk.train.en-fr.tsv",)
    (tmp_path / "talk.valid.en-fr.tsv").unlink()
    with pytest.raises(UsageError, match="'fr'"):
        locate(tmp_path, "en", "fr")


def test_missing_files_are_a_usage_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "x", tmp_path / "no" / "x"):
        with pytest.raises(UsageError):
            locate(path, "en", "de")
    table(tmp_path / "corpus.en", "one")
    with pytest.raises(UsageError, match=r"no training pairs found among corpus.en"):
        locate(tmp_path, "en", "de")
