"""Recognises files that are not text by their first bytes, and says how to convert them."""

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from headway.base.errors import DataError
from headway.base.files import open_plain
from headway.data.media_kinds import name_of

HEAD = 512
"""The number of first bytes by which `kind_of` recognises a file."""

_TAR = (257, b"ustar")
_ZIP = "a ZIP archive"
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_UNPACK = "unpack it, and give a text file in it: {}"
_CONVERT = "convert it to .tsv or .jsonl, for example with pandas"
_AS_TEXT = "save it as plain text (.txt), or a table as CSV (.csv)"
_NO_TEXT = "give a text file"
_KINDS = (
    (b"\x1f\x8b", "a gzip file", "rename it to end in .gz, or decompress it: gunzip {}"),
    (b"BZh", "a bzip2 file", "decompress it: bunzip2 {}"),
    (b"\xfd7zXZ\0", "an xz file", "decompress it: unxz {}"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard file", "decompress it: unzstd {}"),
    (b"\x04\x22\x4d\x18", "an LZ4 file", "decompress it: unlz4 {}"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK.format("7z x {}")),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK.format("unrar x {}")),
    (b"PK\x03\x04", "a ZIP archive", _UNPACK.format("unzip {}")),
    (b"PK\x05\x06", "an empty ZIP archive", _NO_TEXT),
    (
        b"PAR1",
        "a Parquet file",
        "rename it to end in .parquet, where this command reads Parquet; "
        "else convert it to .tsv or .jsonl",
    ),
    (b"ARROW1", "an Arrow file", "convert it to .parquet or .jsonl"),
    (b"ORC", "an ORC file", "convert it to .parquet or .jsonl"),
    (b"Obj\x01", "an Avro file", "convert it to .parquet or .jsonl"),
    (b"\x89HDF\r\n", "an HDF5 file", _CONVERT),
    (b"\x93NUMPY", "a NumPy file", _CONVERT),
    (b"\x80\x04\x95", "a pickle file", _CONVERT),
    (
        b"SQLite format 3\0",
        "an SQLite database",
        "export a table: sqlite3 -csv -header {} 'SELECT * FROM table' > table.csv",
    ),
    (b"%PDF-1.", "a PDF document", "extract its text: pdftotext {}"),
    (b"%PDF-2.", "a PDF document", "extract its text: pdftotext {}"),
    (b"{\\rtf1", "an RTF document", _AS_TEXT),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of Microsoft Office (.doc, .xls)", _AS_TEXT),
    (b"\x7fELF", "a program", _NO_TEXT),
    (b"\xde\x12\x04\x95", "an MO catalogue", "give the PO file from which it was compiled"),
    (b"\x95\x04\x12\xde", "an MO catalogue", "give the PO file from which it was compiled"),
)
"""First bytes, what such a file is, and how to get a text from it; {} is the name of the file.

Images, sounds and films are in `media_kinds`.
"""

_MEMBERS = (
    ("word/", "a Word document (.docx)", "save it as plain text, or: pandoc -t plain {}"),
    ("xl/", "an Excel workbook (.xlsx)", "save the sheet as CSV UTF-8 (.csv)"),
    ("ppt/", "a PowerPoint document (.pptx)", _AS_TEXT),
    ("content.xml", "an OpenDocument file (.odt, .ods)", _AS_TEXT),
    ("META-INF/container.xml", "an EPUB book", "save it as plain text: pandoc -t plain {}"),
)
"""Beginnings of the names of members by which ZIP archives are recognised as documents."""


@dataclass(frozen=True)
class FileKind:
    """What a file is that is not a text, and how to get a text from it; {} is its name."""

    what: str
    advice: str

    def refused(self, where: str, name: str) -> DataError:
        """Return the error for such a file in the place of a text. name: its name."""
        return DataError(f"this is {self.what}, not a text", where, self.advice.format(name))


def kind_of(head: bytes) -> FileKind | None:
    """Return the kind of a file that begins with the bytes `head`, or None if it is not known.

    A magic number of a few letters could also begin a text; it counts only in a binary file.
    """
    for magic, what, advice in _KINDS:
        if head.startswith(magic) and (len(magic) > 5 or _is_binary(head)):
            return FileKind(what, advice)
    if head[_TAR[0] :].startswith(_TAR[1]):
        return FileKind("a tar archive", _UNPACK.format("tar -xf {}"))
    if head[:2].isascii() and not CONTROL.search(head):
        return None  # letters, which may be those of a text in another encoding than UTF-8
    name = name_of(head)
    return None if name is None else FileKind(name, _NO_TEXT)


def kind_of_file(path: Path) -> FileKind | None:
    """Return the kind of a plain file, or None. Documents that are ZIP archives are named."""
    try:
        with open_plain(path) as file:
            kind = kind_of(file.read(HEAD))
            if kind is not None and kind.what == _ZIP:
                with zipfile.ZipFile(file) as archive:
                    kind = _document(archive.namelist()) or kind
    except (OSError, zipfile.BadZipFile, ValueError):  # damaged, or no longer there
        return None
    return kind


def _document(members: list[str]) -> FileKind | None:
    for prefix, what, advice in _MEMBERS:
        if any(name.startswith(prefix) for name in members):
            return FileKind(what, advice)
    return None


def _is_binary(head: bytes) -> bool:
    """Return whether the first bytes of a file cannot be those of a text in UTF-8."""
    if CONTROL.search(head):
        return True
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start < len(head) - 3  # a character may be cut off at the end
    return False
