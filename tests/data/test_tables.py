"""Tables, lines and texts as programs write them: separators, line ends, encodings, other files."""

import gzip
import io
import sqlite3
import tarfile
import zipfile

import pytest

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.data.formats.lines import read_lines, read_stream
from headway.data.rows import parsed_number, read_rows, read_texts
from headway.tasks.classification.label_files import read_labelled
from headway.tasks.translation.corpora.corpus_check import check
from headway.tasks.translation.documents.opening import open_document
from headway.tasks.translation.pairs.reading import pair_files, read_pairs
from headway.tasks.translation.pairs.splits import locate

COLUMNS = {"text": "--data.text", "label": "--data.label"}


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def texts_of(path):
    return [(text.text, text.label) for text in read_labelled([path])]


def pairs_of(path, source=None, target=None):
    return [(pair.source, pair.target) for pair in read_pairs(pair_files(path, source, target))]


def error_of(function, *arguments):
    with pytest.raises(HeadwayError) as caught:
        list(function(*arguments))
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "text,label\nred fox,a\nold dog,b\n",
        "text;label\nred fox;a\nold dog;b\n",
        "text\tlabel\nred fox\ta\nold dog\tb\n",
        "text|label\nred fox|a\nold dog|b\n",
        "sep=;\ntext;label\nred fox;a\nold dog;b\n",
        '"sep=^"\r\ntext^label\r\nred fox^a\r\nold dog^b\r\n',
        "sep=\t\ntext\tlabel\nred fox\ta\nold dog\tb\n",
        '\ufeff"text", "label"\n"red fox", "a"\n"old dog", "b"\n',
        '"text"; "label"\r"red fox"; "a"\r"old dog"; "b"',
    ],
)
def test_csv_is_read_with_the_separator_that_it_has(tmp_path, content):
    file = write(tmp_path / "x.csv", content)
    assert texts_of(file) == [("red fox", "a"), ("old dog", "b")]
    assert pairs_of(file, "text", "label") == [("red fox", "a"), ("old dog", "b")]


def test_without_names_of_columns_the_regular_separator_is_used(tmp_path):
    file = write(tmp_path / "x.csv", "text;label\na, b;x\n")
    assert [row.values for row in read_rows(file, {})] == [{"text": "a, b", "label": "x"}]


def test_a_separator_inside_texts_is_part_of_them(tmp_path):
    file = write(tmp_path / "x.csv", 'label,text\na,"one, two; three"\nb,four; five\n')
    assert texts_of(file) == [("one, two; three", "a"), ("four; five", "b")]
    german = write(tmp_path / "y.csv", "text;label\nOb, wann, wie;a\nJa;b\n")
    assert texts_of(german) == [("Ob, wann, wie", "a"), ("Ja", "b")]


def test_two_separators_that_fit_are_refused_unless_one_is_declared(tmp_path):
    content = "Hello, you;Salut, toi\nBye, you;Adieu, toi\n"
    assert "3 columns by commas or 2 columns by semicolons" in error_of(
        pairs_of, write(tmp_path / "x.csv", content)
    )
    declared = write(tmp_path / "y.csv", f"sep=;\n{content}")
    assert pairs_of(declared)[0] == ("Hello, you", "Salut, toi")
    assert [pair.line for pair in read_pairs(pair_files(declared, None, None))] == [2, 3]


def test_a_cell_may_be_as_long_as_a_document(tmp_path):
    long = "word " * 500_000
    for name, separator in (("x.csv", ","), ("x.tsv", "\t")):
        file = write(tmp_path / name, f"text{separator}label\n{long}{separator}a\n")
        assert texts_of(file) == [(long.strip(), "a")]


def test_each_fault_of_csv_has_its_own_message_and_the_line_where_the_row_begins(tmp_path):
    for rows, message in (
        ('"open,b\nc,d\n', "a quote begins in this row and does not end"),
        ('"a" b,c\n', "a quoted cell ends, but no separator follows"),
        ("a\rb,c\n", "has a carriage return"),
    ):
        file = write(tmp_path / "x.csv", f"text,label\nx,y\n{rows}")
        error = error_of(texts_of, file)
        assert message in error and f"{file}:3" in error and "with commas" in error


def test_a_missing_column_is_reported_with_the_separator_and_the_columns_that_exist(tmp_path):
    error = error_of(texts_of, write(tmp_path / "x.csv", "review;stars\nx;1\n"))
    assert "2 columns separated by semicolons: 1 'review', 2 'stars'" in error
    assert "--data.text NAME" in error
    error = error_of(texts_of, write(tmp_path / "x.tsv", "text,label\nx,1\n"))
    assert (
        "1 column separated by tabs: 1 'text,label'" in error and "rename the file to .csv" in error
    )
    error = error_of(pairs_of, write(tmp_path / "y.tsv", "one,eins\n"))
    assert "has no tab: 'one,eins'" in error and ".csv" in error
    error = error_of(pairs_of, write(tmp_path / "y.csv", "one#eins\n"))
    assert "has no separator: 'one#eins'" in error and "sep=" in error


def test_a_decimal_comma_is_read_and_an_ambiguous_one_is_refused():
    for text, number in (("0,5", 0.5), ("-12,25", -12.25), ("0,500", 0.5), (",5", 0.5), ("3", 3)):
        assert parsed_number(text, "the score", "x.csv:2") == number
    assert "may be 1.500 or 1500" in error_of(parsed_number, "1,500", "the score", "x.csv:2")
    for text in ("1.234,5", "1,2,3", "1,a"):
        assert "is not a number" in error_of(parsed_number, text, "the score", "x.csv:2")


def test_a_first_row_that_may_be_a_header_is_named_when_it_is_read_as_a_pair(tmp_path):
    file = write(tmp_path / "x.tsv", "input\toutput\none house\tein Haus\n")
    (warning,) = check(locate(file, "1", "2")).warnings
    assert "the first row is read as a pair" in warning and "1 'input', 2 'output'" in warning
    assert check(locate(file, "input", "output")).warnings == []
    known = write(tmp_path / "y.tsv", "English\tGerman\none house\tein Haus\n")
    assert pairs_of(known, "1", "2") == [("one house", "ein Haus")]
    assert check(locate(known, "1", "2")).warnings == []


MACINTOSH = [b"one\rtwo\rthree", b"one\rtwo\rthree\r", b"one\rtwo\rthree\n", b"one\rtwo\rthree\r\n"]


@pytest.mark.parametrize("content", MACINTOSH)
def test_lines_that_end_at_carriage_returns_are_lines(tmp_path, content):
    expected = ["one", "two", "three"]
    assert list(read_lines(write(tmp_path / "x.txt", content))) == expected
    assert (
        list(read_lines(write(tmp_path / "x.txt.gz", gzip.compress(content, mtime=0)))) == expected
    )
    assert list(read_stream(io.BytesIO(content).readline, "standard input")) == expected
    assert list(read_lines(tmp_path / "x.txt", 7)) == expected


def test_a_file_of_carriage_returns_may_be_longer_than_a_line(tmp_path):
    file = write(tmp_path / "x.txt", b"a line\r" * 300_000)
    assert list(read_lines(file)) == ["a line"] * 300_000
    assert "longer than 4 bytes" in error_of(read_lines, write(tmp_path / "y.txt", b"a\rlonger"), 4)


def test_a_carriage_return_in_a_line_of_several_stays(tmp_path):
    assert list(read_lines(write(tmp_path / "x.txt", b"a\rb\nc\n"))) == ["a\rb", "c"]


def test_tables_of_carriage_returns_have_their_rows(tmp_path):
    for name, separator in (("x.tsv", "\t"), ("x.csv", ",")):
        rows = "\r".join(
            separator.join(row) for row in (("en", "de"), ("one", "eins"), ("two", "zwei"))
        )
        assert pairs_of(write(tmp_path / name, rows), "en", "de") == [
            ("one", "eins"),
            ("two", "zwei"),
        ]


@pytest.mark.parametrize(
    ("name", "content", "filled"),
    [
        ("x.txt", "red heart\rblue car\r\rold dog", "1\r2\r\r3"),
        ("x.md", "# red heart\r\r- blue car\r\rold dog\r", "# 1\r\r- 2\r\r3\r"),
        (
            "x.srt",
            "1\r00:00:01,000 --> 00:00:02,000\rred heart\rblue car\r\r"
            "2\r00:00:03,000 --> 00:00:04,000\rold dog\r",
            "1\r00:00:01,000 --> 00:00:02,000\r1\r\r2\r00:00:03,000 --> 00:00:04,000\r2\r",
        ),
    ],
)
def test_a_document_of_carriage_returns_is_translated_line_by_line(tmp_path, name, content, filled):
    document = open_document(write(tmp_path / name, content), None, None)
    numbers = [[str(number)] for number in range(1, len(document.segments) + 1)]
    assert document.filled(numbers).decode() == filled


def test_a_subtitle_of_carriage_returns_keeps_its_number_of_lines(tmp_path):
    content = "1\r00:00:01,000 --> 00:00:02,000\rred heart\rblue car\r"
    document = open_document(write(tmp_path / "x.srt", content), None, None)
    assert document.filled([["rot blau"]]).decode().endswith("\rrot\rblau\r")


def test_a_catalogue_of_carriage_returns_is_refused(tmp_path):
    file = write(tmp_path / "x.po", 'msgid "a"\rmsgstr "b"\r')
    assert "carriage returns only" in error_of(pairs_of, file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\ncafé,a\n".encode("utf-16"), "the text is UTF-16, not UTF-8"),
        ("text,label\ncafé,a\n".encode("utf-32"), "the text is UTF-32, not UTF-8"),
        ("text,label\ncafé,a\n".encode("utf-16-le"), "the text is UTF-16LE, not UTF-8"),
        ("text,label\ncafé,a\n".encode("utf-16-be"), "the text is UTF-16BE, not UTF-8"),
        ("text,label\ncafé,a\n".encode("cp1252"), "if 'café,a' is correct"),
    ],
)
def test_another_encoding_is_named_with_its_remedy(tmp_path, content, message):
    error = error_of(texts_of, write(tmp_path / "x.csv", content))
    assert message in error and "iconv -f" in error


def archive(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name in members:
            made.writestr(name, "x")
    return file.getvalue()


def tar():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        made.addfile(tarfile.TarInfo("a.txt"))
    return file.getvalue()


def database(folder):
    with sqlite3.connect(folder / "made.db") as connection:
        connection.execute("create table t (a)")
    connection.close()
    return (folder / "made.db").read_bytes()


@pytest.mark.parametrize(
    ("content", "kind", "advice"),
    [
        (gzip.compress(b"text", mtime=0), "a gzip file", "gunzip x.tsv"),
        (b"BZh91AY&SY\x00\xff", "a bzip2 file", "bunzip2"),
        (b"\xfd7zXZ\0\0\x04", "an xz file", "unxz"),
        (b"\x28\xb5\x2f\xfd\x24\0", "a Zstandard file", "unzstd"),
        (archive(["a.txt"]), "a ZIP archive", "unzip x.tsv"),
        (archive(["[Content_Types].xml", "word/document.xml"]), "a Word document", "plain text"),
        (archive(["[Content_Types].xml", "xl/workbook.xml"]), "an Excel workbook", "CSV"),
        (archive(["mimetype", "content.xml"]), "an OpenDocument file", "CSV"),
        (b"PAR1\x15\x04\x15", "a Parquet file", ".parquet"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF document", "pdftotext"),
        (b"{\\rtf1\\ansi text}", "an RTF document", "plain text"),
        (b"\x89PNG\r\n\x1a\n\0\0", "a PNG image", "text file"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG image", "text file"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "a WAV sound", "text file"),
        (b"\0\0\0\x18ftypheic" + bytes(16), "a HEIC image", "text file"),
        (tar(), "a tar archive", "tar -xf x.tsv"),
        (database, "an SQLite database", "sqlite3"),
    ],
)
def test_a_file_that_is_no_text_is_named_with_what_to_do(tmp_path, content, kind, advice):
    file = write(tmp_path / "x.tsv", content if isinstance(content, bytes) else content(tmp_path))
    errors = [error_of(texts_of, file), error_of(pairs_of, file), error_of(read_lines, file)]
    for error in errors:
        assert kind in error and advice in error and "iconv" not in error
    stream = error_of(read_stream, io.BytesIO(file.read_bytes()).readline, "standard input")
    assert "standard input" in stream and "not a text" in stream
    renamed = file.rename(tmp_path / "x.xyz")
    assert kind in error_of(read_rows, renamed, COLUMNS)


def test_an_unknown_file_with_control_characters_is_no_text(tmp_path):
    error = error_of(read_lines, write(tmp_path / "x.txt", b"\x01\x02\xff\xfe\x03\n"))
    assert "not a text" in error and "iconv" not in error


def test_a_text_that_begins_like_a_binary_file_is_a_text(tmp_path):
    for text in ("RIFF raff", "ORC and elf", "BZh", "ID3 tags", "PAR1", "MM*", "Ogg"):
        assert list(read_lines(write(tmp_path / "x.txt", text))) == [text]


def test_a_file_that_is_not_compressed_as_its_name_says_is_named(tmp_path):
    error = error_of(read_lines, write(tmp_path / "x.tsv.gz", "a\tb\n"))
    assert "not compressed by gzip" in error and "rename it to x.tsv" in error


def test_a_column_of_texts_is_read_from_csv(tmp_path):
    file = write(tmp_path / "x.csv", 'id;text\n1;"red; fox"\n2;old dog\n')
    for column in (None, "text", "2"):
        assert list(read_texts([file], column)) == ["red; fox", "old dog"]
    other = write(tmp_path / "y.csv", "id;words\n1;old dog\n")
    with pytest.raises(UsageError, match="2 columns: 1 'id', 2 'words'"):
        list(read_texts([other]))


def test_a_row_with_other_cells_names_the_separator(tmp_path):
    file = write(tmp_path / "x.csv", "text;label\na;b\nc;d;e\n")
    with pytest.raises(
        DataError, match="3 cells, separated by semicolons, but the first line has 2"
    ):
        texts_of(file)
