"""Documents of files, folders and collections."""

import gzip
import json
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data import documents
from headway.data.documents import COLLECTIONS, Part, read_documents, text_files
from headway.data.formats import read_lines
from headway.errors import DataError, HeadwayError, UsageError


def joined(parts: list[Part]) -> list[str]:
    """Return whole documents."""
    chapters: list[str] = []
    for part in parts:
        if part.first:
            chapters.append("")
        chapters[-1] += part.text
    return chapters


def read(*sources: Path | str, **options: Any) -> list[str]:
    return joined(list(read_documents([str(source) for source in sources], **options)))


def put(path: Path, text: str | bytes) -> Path:
    """Write a file, compressed if its name ends in .gz, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


TEXT = "The sea was calm.\n\nA ship,  far off: naïve 🙂\n\tturned.\n"


@pytest.mark.parametrize("name", ["a.txt", "a.md", "A.TXT", "a.txt.gz", "a.md.gz"])
def test_a_text_file_is_one_unchanged_document(tmp_path, name):
    assert read(put(tmp_path / name, TEXT)) == [TEXT]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_record_is_an_unchanged_document(tmp_path, name):
    texts = [TEXT, "no end of line", "carriage\r\nreturns stay"]
    lines = "\n".join(json.dumps({"id": i, "text": text}) for i, text in enumerate(texts))
    assert read(put(tmp_path / name, lines + "\n\n")) == texts


def test_the_key_of_records_can_be_named(tmp_path):
    path = put(tmp_path / "a.jsonl", '{"text": "no", "body": "yes"}\n')
    assert read(path, key="body") == ["yes"]


def test_sources_are_read_in_the_order_of_the_arguments(tmp_path):
    b, a = put(tmp_path / "b.txt", "b\n"), put(tmp_path / "a.txt", "a\n")
    assert read(b, a, b) == ["b\n", "a\n", "b\n"]


def test_a_folder_is_read_recursively_in_the_order_of_names(tmp_path):
    for name in ("c.txt", "a/z.md", "a/b/c.txt.gz", "b.jsonl"):
        text = f"{name}\n"
        put(tmp_path / name, json.dumps({"text": text}) if name.endswith("l") else text)
    for skipped in ("a.py", "b.csv.gz", "txt", ".git/x.txt", "a/.hidden.md", "d.txt/image.png"):
        put(tmp_path / skipped, b"\xff not for us")
    assert read(tmp_path) == ["a/b/c.txt.gz\n", "a/z.md\n", "b.jsonl\n", "c.txt\n"]


def test_a_folder_below_a_hidden_one_is_read_when_it_is_named(tmp_path):
    put(tmp_path / ".cache" / "a.txt", "a\n")
    assert read(tmp_path / ".cache") == ["a\n"]


def test_pythons_own_documentation_is_a_collection():
    chapters = read("python-docs")
    assert len(chapters) > 50
    assert chapters == [text for text in COLLECTIONS["python-docs"]() if text.strip()]
    assert any("lambda" in text for text in chapters)


def test_a_path_has_priority_over_a_collection_of_its_name(tmp_path, monkeypatch):
    put(tmp_path / "python-docs" / "a.txt", "mine\n")
    monkeypatch.chdir(tmp_path)
    assert read("python-docs") == ["mine\n"]


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("file", ["\n one\ntwo\n \n\n\nthree\n\n"]),
        ("blank-line", [" one\ntwo\n", "three\n"]),
        ("line", [" one\n", "two\n", "three\n"]),
    ],
)
def test_a_file_is_split_as_requested(tmp_path, split, expected):
    assert read(put(tmp_path / "a.txt", "\n one\ntwo\n \n\n\nthree\n\n"), split=split) == expected


def test_records_are_not_split(tmp_path):
    path = put(tmp_path / "a.jsonl", '{"text": "one\\n\\ntwo"}')
    assert read(path, split="line") == ["one\n\ntwo"]


def test_line_ends_are_normalised(tmp_path):
    windows = put(tmp_path / "a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n\r\nthree")
    assert read(windows) == ["one\ntwo\n\nthree\n"]
    assert read(windows, split="blank-line") == ["one\ntwo\n", "three\n"]


def test_empty_texts_are_not_documents(tmp_path):
    put(tmp_path / "a.txt", "")
    put(tmp_path / "b.txt", "\n \n\t\n")
    put(tmp_path / "c.jsonl", '{"text": ""}\n\n{"text": " \\n"}\n{"text": "x"}\n')
    put(tmp_path / "d.txt.gz", "")
    for split in ("file", "blank-line", "line"):
        assert read(tmp_path, split=split) == ["x"]


line = st.text("ab é.", max_size=12)


@given(st.lists(line, max_size=30), st.sampled_from(["file", "blank-line", "line"]))
def test_parts_of_any_size_join_to_the_same_documents(tmp_path_factory, lines, split):
    path = put(tmp_path_factory.mktemp("any") / "a.txt", "".join(f"{line}\n" for line in lines))
    whole = read(path, split=split)
    assert all(text.strip() for text in whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "PART", 7)
        parts = list(read_documents([str(path)], split))
    assert joined(parts) == whole
    assert all(0 < len(part.text) < 2 * 7 for part in parts)


@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize("split", ["file", "blank-line"])
def test_long_documents_are_read_in_parts_around_the_limit(tmp_path, split, over):
    line = "x" * 63 + "\n"
    text = line * (documents.PART // 64 - 1) + "x" * (63 + over) + "\n" + line * 3000
    parts = list(read_documents([str(put(tmp_path / "a.txt", text + "\nnew\n"))], split))
    assert [part.first for part in parts].count(True) == (1 if split == "file" else 2)
    assert joined(parts)[0] == text + ("\nnew\n" if split == "file" else "")
    assert len(parts) > 3
    assert all(part.text.endswith("\n") for part in parts)
    assert max(len(part.text) for part in parts) < 2 * documents.PART


@pytest.mark.parametrize(
    ("unit", "starts"), [("word ", " word"), ("seven77", "s"), ("line here\n", "line")]
)
def test_a_long_record_is_cut_where_tokens_end(tmp_path, unit, starts):
    text = unit * 90_000
    path = put(tmp_path / "a.jsonl", json.dumps({"text": text}) + '\n{"text": "next"}\n')
    parts = list(read_documents([str(path)]))
    assert joined(parts) == [text, "next"]
    assert len(parts) > 4
    assert max(len(part.text) for part in parts) < 2 * documents.PART
    if unit != "seven77":
        assert all(part.text.startswith(starts) for part in parts[1:-1])


def test_lines_beyond_those_of_sentence_pairs_are_read(tmp_path):
    text = "All on one line. " * 80_000  # 1.3 MiB
    for name in ("a.jsonl", "b.txt.gz"):
        path = put(tmp_path / name, json.dumps({"text": text}) if "jsonl" in name else text)
        assert read(path) == [text if "jsonl" in name else text + "\n"]
        with pytest.raises(DataError, match="longer than 1,048,576 bytes"):
            list(read_lines(path))


def test_a_line_beyond_every_limit_is_refused_with_its_number(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LINE_LIMIT", 40)
    path = put(tmp_path / "a.jsonl", '{"text": "short"}\n' + '{"text": "' + "x" * 40 + '"}\n')
    with pytest.raises(DataError, match="longer than 40 bytes") as caught:
        read(path)
    assert caught.value.where == f"{path}:2"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{not json}", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"body": "x", "n": 1}', "a text under the key 'text', .*'body', 'n'"),
        ('{"text": 3}', "a text under the key 'text', but has none"),
        ('["text"]', "no object"),
        (r'{"text": "a\ud83dz"}', r"lone surrogate, \\ud83d"),
    ],
)
def test_a_bad_record_is_refused_with_its_line(tmp_path, bad, message):
    path = put(tmp_path / "a.jsonl", f'{{"text": "fine"}}\n\n{bad}\n')
    with pytest.raises(DataError, match=message) as caught:
        read(path)
    assert caught.value.where == f"{path}:3"


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.md.gz"])
def test_other_encodings_are_refused_with_the_line(tmp_path, name):
    path = put(tmp_path / name, b'{"text": "fine"}\n{"text": "caf\xe9"}\n')
    with pytest.raises(DataError, match="0xe9") as caught:
        read(path)
    assert caught.value.where == f"{path}:2"


def test_a_damaged_gzip_file_is_refused(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(TEXT.encode() * 90)[:-9])
    with pytest.raises(DataError, match="damaged"):
        read(path)


def test_missing_paths_and_files_without_text_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no such file or folder") as caught:
        read(tmp_path / "nothing.txt")
    assert "python-docs" in str(caught.value)
    for name, ending in (
        ("a.csv", "ends in .csv"),
        ("a.tsv.gz", "ends in .tsv"),
        ("README", "has no suffix"),
    ):
        with pytest.raises(
            UsageError, match=f"must end in .txt, .md, .jsonl .* this name {ending}"
        ):
            text_files(put(tmp_path / name, "x"))
    with pytest.raises(UsageError, match="the folder has no file"):
        text_files(tmp_path)


AWKWARD = [b"", b"\x00", b"\n", b"\xef\xbb\xbf", b"{", b'{"text":', b"\xff", b"\x1f\x8b"]


@pytest.mark.parametrize("ending", [".txt", ".jsonl", ".txt.gz"])
def test_arbitrary_bytes_are_read_or_raise_an_error_of_headway(tmp_path, ending):
    for first, second in product(AWKWARD, AWKWARD):
        path = tmp_path / f"x{ending}"
        path.write_bytes(first + second)
        with suppress(HeadwayError):
            read(path)
