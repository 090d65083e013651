"""Running text as documents: what is read, where it is cut, what is refused."""

import gzip
import json
from contextlib import suppress
from itertools import product

import pytest

from headway.data import documents as module
from headway.data.documents import Part, read_documents, text_files
from headway.errors import DataError, HeadwayError, UsageError


def texts(sources, **how) -> list[str]:
    """The documents, each joined from its parts."""
    found: list[str] = []
    for part in read_documents([str(source) for source in sources], **how):
        if part.first:
            found.append("")
        found[-1] += part.text
    return found


def written(path, content: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content.encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


TEXT = "one\n\n  \ntwo\nthree\n\n\nfour"


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.TXT", "a.txt.gz"])
@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("file", ["one\n\n  \ntwo\nthree\n\n\nfour\n"]),
        ("blank-line", ["one\n", "two\nthree\n", "four\n"]),
        ("line", ["one\n", "two\n", "three\n", "four\n"]),
    ],
)
def test_a_text_file_is_cut_as_asked(tmp_path, name, split, expected):
    assert texts([written(tmp_path / name, TEXT)], split=split) == expected


@pytest.mark.parametrize("split", ["file", "blank-line"])
def test_a_long_document_comes_in_parts_that_lose_nothing(tmp_path, monkeypatch, split):
    monkeypatch.setattr(module, "PART", 10)
    lines = "".join(f"line {i} of a long text\n" for i in range(40))
    path = written(tmp_path / "a.txt", lines)
    parts = list(read_documents([str(path)], split))
    assert len(parts) == 40
    assert [part.first for part in parts] == [True] + [False] * 39
    assert "".join(part.text for part in parts) == lines


def test_line_ends_are_line_feeds_whatever_the_file_has(tmp_path):
    assert texts([written(tmp_path / "a.txt", "one\r\ntwo\r\n")]) == ["one\ntwo\n"]


def test_records_are_documents_whatever_the_split(tmp_path):
    rows = [{"text": "one\ntwo"}, {"text": ""}, {"text": "three", "other": 1}]
    content = "\n".join(json.dumps(row) for row in rows) + "\n\n"
    path = written(tmp_path / "a.jsonl.gz", content)
    for split in ("file", "line"):
        assert texts([path], split=split) == ["one\ntwo", "three"]
    assert texts([written(tmp_path / "b.jsonl", '{"body": "x"}')], key="body") == ["x"]


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    for name in (".git/c.txt", "b.txt", "sub/a.md", "a.jsonl", ".b.txt", "skip.pdf", "empty.txt"):
        content = '{"text": "record"}' if name.endswith("jsonl") else name
        written(tmp_path / name, "" if name.startswith("empty") else content)
    assert texts([tmp_path]) == ["record", "b.txt\n", "sub/a.md\n"]
    assert [p.name for p in text_files(tmp_path)] == ["a.jsonl", "b.txt", "empty.txt", "a.md"]


def test_pythons_own_manual_is_a_collection():
    parts = list(read_documents(["python-docs"]))
    assert len(parts) > 50 and all(part.first for part in parts)
    assert sum(len(part.text) for part in parts) > 300_000


def test_a_file_named_like_a_collection_is_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "python-docs" / "a.txt", "mine")
    assert texts(["python-docs"]) == ["mine\n"]


@pytest.mark.parametrize(
    ("name", "content", "says", "where"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text"', "not JSON", "a.jsonl:2"),
        ("a.jsonl", b'{"body": "x"}\n', "no text under 'text'", "a.jsonl:1"),
        ("a.jsonl", b'{"text": 3}\n', "no text under", "a.jsonl:1"),
        ("a.jsonl", b"[1]\n", "no object", "a.jsonl:1"),
        ("a.txt", b"fine\n\xff\xfe\n", "not UTF-8", "a.txt:2"),
        ("a.txt.gz", b"no gzip", "damaged", "a.txt.gz:1"),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(tmp_path, name, content, says, where):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=says) as caught:
        texts([tmp_path / name])
    assert str(caught.value.where).endswith(where)


@pytest.mark.parametrize("name", ["absent.txt", "absent", "a.pdf", "folder"])
def test_what_is_not_there_is_named(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.pdf").write_bytes(b"x")
    with pytest.raises(UsageError) as caught:
        texts([tmp_path / name])
    assert name in str(caught.value.where)


def test_parts_say_where_documents_begin(tmp_path):
    path = written(tmp_path / "a.txt", "one\n\ntwo\n")
    assert list(read_documents([str(path)], "blank-line")) == [
        Part("one\n", True),
        Part("two\n", True),
    ]


AWKWARD = [b"", b"\x00", b"\n", b"\xef\xbb\xbf", b"{", b'{"text":', b"\xff", b"\x1f\x8b"]


@pytest.mark.parametrize("ending", [".txt", ".jsonl", ".txt.gz"])
def test_awkward_bytes_are_text_or_an_error_of_ours(tmp_path, ending):
    for first, second in product(AWKWARD, AWKWARD):
        path = tmp_path / f"x{ending}"
        path.write_bytes(first + second)
        with suppress(HeadwayError):
            texts([path])


def test_a_record_may_be_longer_than_a_sentence_may_but_not_endless(tmp_path, monkeypatch):
    long = "word " * 400_000  # 2 MB
    path = written(tmp_path / "a.jsonl", json.dumps({"text": long}))
    assert texts([path]) == [long]
    monkeypatch.setattr(module, "LONGEST", 1000)
    with pytest.raises(DataError, match="longer than 1,000 bytes"):
        texts([path])
