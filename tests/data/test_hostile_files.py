"""Damaged and hostile files are refused within seconds, with the file and the line."""

import gzip
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.base.errors import DataError
from headway.tasks.translation.documents.opening import open_document
from headway.tasks.translation.pairs.reading import pair_files, read_pairs
from tests.fixtures.catalogues import PO, TMX, XLIFF_1, XLIFF_2
from tests.fixtures.cpu_time import within

SECONDS = 10
LONG = b"x" * 100_000_000
HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BOMB = f'<!DOCTYPE tmx [<!ENTITY l0 "ha">{LAUGHS}]>'
DOCTYPE = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">'


def tmx(body: str, start: str = DOCTYPE) -> str:
    return f'<?xml version="1.0"?>\n{start}\n<tmx><header srclang="en"/><body>\n{body}</body></tmx>'


def unit(text: str) -> str:
    variants = "".join(f'<tuv xml:lang="{name}"><seg>{text}</seg></tuv>' for name in ("en", "fr"))
    return f"<tu>{variants}</tu>"


def plurals(rule: str, forms: str = 'msgstr[0] "a"\nmsgstr[1] "b"\n') -> str:
    header = HEADER.replace("UTF-8", f"UTF-8\\nPlural-Forms: {rule}")
    return f'{header}msgid "x"\nmsgid_plural "xs"\n{forms}'


def mo(count: int, originals: int, translations: int, rest: bytes = b"") -> bytes:
    return struct.pack("<7I", 0x950412DE, 0, count, originals, translations, 0, 0) + rest


OVERLAPPING = mo(1000, 28, 8028) + struct.pack("<2I", 1_000_000, 16028) * 2000 + b"x" * 1_100_000

# name of the file -> content, part of the message, line (None: the format has no lines)
HOSTILE: dict[str, tuple[str | bytes, str, int | None]] = {
    # XML
    "billion_laughs.tmx": (tmx(unit("&l9;"), BOMB), "declares the entity 'l0'", 2),
    "billion_laughs.xlf": (BOMB.replace("tmx", "xliff") + XLIFF_1[39:], "declares the entity", 1),
    "external_entity.tmx": (
        tmx(unit("&x;"), '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
        "declares the entity 'x'",
        2,
    ),
    "parameter_entity.tmx": (
        tmx(unit("a"), '<!DOCTYPE tmx [<!ENTITY % p SYSTEM "file:///x.dtd"> %p;]>'),
        "declares the entity 'p'",
        2,
    ),
    "unparsed_entity.tmx": (
        tmx(unit("a"), '<!DOCTYPE tmx [<!NOTATION n SYSTEM "n"><!ENTITY u SYSTEM "x" NDATA n>]>'),
        "declares the entity 'u'",
        2,
    ),
    "undeclared_entity.tmx": (tmx(unit("&eacute;")), "&eacute; is not one of XML", 4),
    "undeclared_entity.xlf": (XLIFF_2.replace("Stop", "&stop;"), "undefined entity", 17),
    "deep.tmx": (tmx("<tu>" + "<g>" * 500_000), "nested more than 60", 4),
    "deep_outside.xlf": ('<xliff version="1.2">\n' + "<group>" * 500_000, "nested more than 60", 2),
    "truncated.tmx": (TMX[:700], "not valid XML", TMX[:700].count("\n") + 1),
    "truncated.xlf": (XLIFF_1[: XLIFF_1.index("alt-trans")], "not valid XML", 10),
    "mismatched.tmx": (tmx("<tu><tuv></tu>"), "mismatched tag", 4),
    "wrong_root.tmx": ("<html>\n</html>", "must be <tmx>, but is <html>", 1),
    "wrong_root.xliff": (TMX, "must be <xliff>, but is <tmx>", 3),
    "wrong_version.xlf": (XLIFF_1.replace('version="1.2"', 'version="7"'), "but is '7'", 2),
    "not_xml.tmx": ("just text\n", "not valid XML", 1),
    "empty.xlf": ("", "no element found", 1),
    "nul.tmx": (tmx(unit("a\0b")), "not valid XML|NUL", 4),
    "wrong_bytes.tmx": (tmx(unit("caf@")).encode().replace(b"@", b"\xe9"), "XML|not utf-8", 4),
    "wrong_utf16.tmx": (
        b"\xff\xfe" + TMX.replace("UTF-8", "UTF-16").encode("utf-16-le")[:-1],
        "not valid XML|utf-16",
        TMX.count("\n"),
    ),
    "unknown_encoding.tmx": (TMX.replace("UTF-8", "x-none"), "unknown encoding|not known", 1),
    "two_attributes.xlf": (XLIFF_1.replace('id="3"', 'id="3" id="4"'), "duplicate attribute", 13),
    "huge_text.tmx": (tmx(unit("ab " * 1_000_000)), "more than 1,048,576 characters", 4),
    "many_parts.tmx": (tmx(unit("<ph/>" * 200_000)), "100,000", 4),
    "long_line.tmx": (tmx("").encode() + LONG, "longer than 16,777,216 bytes", 4),
    # PO
    "long_line.po": (HEADER.encode() + b'msgid "' + LONG, "longer than 16,777,216 bytes", 4),
    "long_string.po": (f'{HEADER}msgid "{"x" * 2_000_000}"', "longer than 1,048,576", 4),
    "many_strings.po": (HEADER + "msgid\n" + '"x"\n' * 20_000, "10,000 strings", 10_005),
    "repeated.po": (PO + '\nmsgid "Open"\nmsgstr "x"\n', "occurs twice: also in line 11", 52),
    "no_translation.po": (HEADER + 'msgid "a"\n\nmsgid "b"\nmsgstr "c"\n', "not allowed", 6),
    "truncated.po": (HEADER + 'msgid "a"\n', "no msgstr", 4),
    "open_string.po": (HEADER + 'msgid "a\nmsgstr ""\n', "no closing double quote", 4),
    "no_string.po": (HEADER + 'msgid "a"\nmsgstr\n', "must follow the keyword", 5),
    "bad_escape.po": (HEADER + 'msgid "a"\nmsgstr "\\q"\n', r"escape \\q is not valid", 5),
    "bad_octal.po": (HEADER + 'msgid "a"\nmsgstr "\\777"\n', r"escape \\777", 5),
    "nul_escape.po": (HEADER + 'msgid "a"\nmsgstr "\\0"\n', r"escape \\0", 5),
    "garbage.po": (HEADER + "hello\n", "neither a keyword nor a string: 'hello'", 4),
    "nul.po": (HEADER + 'msgid "a\0"\nmsgstr ""\n', "NUL character", 4),
    "wrong_bytes.po": (HEADER.encode() + b'msgid "caf\xe9"\n', "byte 0xe9 is not utf-8", 4),
    "unknown_charset.po": (HEADER.replace("UTF-8", "x-none"), "'x-none' is not known", 1),
    "no_charset.po": (HEADER.replace("UTF-8", "punycode"), "'punycode' is not known", 1),
    "few_forms.po": (
        plurals("nplurals=3; plural=n%3;\\n"),
        "must have 3 plural forms, as the header states, but has 2",
        4,
    ),
    "gap_in_forms.po": (plurals("", 'msgstr[0] "a"\nmsgstr[2] "b"\n'), r"msgstr\[2\]", 7),
    "many_forms.po": (plurals("nplurals=99999999999; plural=0;\\n"), "between 1 and 20", 1),
    "bad_rule.po": (plurals("nplurals=2; plural=__import__(n);\\n"), "not valid", 1),
    "deep_rule.po": (plurals(f"nplurals=2; plural={'(' * 400}n{')' * 400};\\n"), "not valid", 1),
    "zero_rule.po": (plurals("nplurals=2; plural=1/(n-n);\\n"), "not valid", 1),
    "outside_rule.po": (plurals("nplurals=2; plural=n;\\n"), "the number 2 is not below", 1),
    # MO
    "short.mo": (b"\xde\x12\x04\x95", "not an MO file", None),
    "no_magic.mo": (b"hello" * 20, "not an MO file", None),
    "version.mo": (struct.pack("<7I", 0x950412DE, 9 << 16, 0, 0, 0, 0, 0), "version", None),
    "huge_count.mo": (mo(2**32 - 1, 28, 28), "outside the file", None),
    "outside.mo": (mo(1, 28, 36, struct.pack("<4I", 9, 2**31, 9, 2**31)), "outside", None),
    "no_end.mo": (mo(1, 28, 36, struct.pack("<4I", 4, 44, 4, 44) + b"abcd"), "no end", None),
    "overlapping.mo": (OVERLAPPING, "overlap|twice|no end", None),
    # tables
    "open_quote.csv": (
        'en,fr\na,"b\n' + "c\n" * 200_000,
        "a quote begins in this row and does not end",
        2,
    ),
    "bad.jsonl": ('{"en": "a", "fr": "b"}\n{"en": \n', "JSON", 2),
    "deep.jsonl": ("[" * 200_000, "JSON|nested", 1),
    "list.jsonl": ("[1]\n", "must be a JSON object", 1),
    "number.jsonl": ('{"en": 1, "fr": "b"}\n', "is not a text", 1),
    "bomb.po.gz": (gzip.compress(b"x\n" * 500_000, 1) * 300, "more than|expands further", None),
    "damaged.tmx.gz": (gzip.compress(TMX.encode())[:-30], "damaged", None),
    # documents
    "open_tag.html": ("<p>a</p>\n<p>b<a href='x\n", "<a is not closed", 2),
    "open_script.html": ("<p>a</p>\n<script>if (a", "<script> is not closed", 2),
    "open_comment.html": ("<p>a\n\n<!-- b", "comment is not closed", 3),
    "open_tags.html": ("<pre>\n" + "<pre " * 1_000_000, "<pre> is not closed", 1),
    "wrong_bytes.md": (b"# a\n\ncaf\xe9\n", "0xe9 is not utf-8", 3),
    "nul.txt": ("a\nb\0\n", "NUL character", 2),
    "no_times.srt": ("1\n00:00:01,000 --> 00:00:02,000\na\n\n2\nb\n", "line with its times", 5),
    "blanks.srt": ("a" + " " * 3_000_000 + "\n", "line with its number", 1),
}


def readers(path: Path) -> list[Callable[[], object]]:
    """Every way to read such a file: as pairs, and as a document."""
    reading: list[Callable[[], object]] = []
    if path.suffix not in (".html", ".md", ".txt", ".srt"):
        reading.append(lambda: list(read_pairs(pair_files(path, "en", "fr"))))
    if path.suffix not in (".mo", ".csv", ".jsonl", ".gz"):
        reading.append(lambda: open_document(path, "en", "fr"))
    return reading


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_its_place(tmp_path, name):
    content, message, line = HOSTILE[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for read in readers(path):
        with within(SECONDS), pytest.raises(DataError) as caught:
            read()
        error = caught.value
        assert re.search(message, error.what), error.what
        assert error.where is not None
        assert error.where.startswith(str(path)), error.where
        assert line is None or error.where == f"{path}:{line}"


@pytest.mark.parametrize("size", [100, 1000, 10_000])
def test_whatever_is_cut_off_or_changed_a_file_is_read_or_refused(tmp_path, size):
    """Truncated at any place, and with any byte replaced: no other error than DataError."""
    for name, content in (("a.po", PO), ("a.tmx", TMX), ("a.xlf", XLIFF_1), ("b.xlf", XLIFF_2)):
        path = tmp_path / name
        data = content.encode()
        for position in range(size % 7, len(data), max(1, len(data) * 100 // (size + 2000))):
            for changed in (
                data[:position],
                data[:position] + bytes([size % 256]) + data[position + 1 :],
            ):
                path.write_bytes(changed)
                for read in readers(path):
                    try:
                        read()
                    except ValueError as error:
                        assert type(error).__name__ in ("DataError", "UsageError"), error


def test_the_document_type_of_tmx_is_accepted_and_never_fetched(tmp_path, monkeypatch):
    """Neither a file beside it nor the network is opened."""
    (tmp_path / "tmx14.dtd").write_text("<!ENTITY x 'from the document type'> broken <<<")
    path = tmp_path / "x.tmx"
    path.write_text(TMX)
    opened: list[str] = []
    real = Path.open

    def watched(self, *arguments, **more):
        opened.append(self.name)
        return real(self, *arguments, **more)

    monkeypatch.setattr(Path, "open", watched)
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("network"))
    assert len(list(read_pairs(pair_files(path, "en", "fr")))) == 2
    open_document(path, "en", "fr")
    assert set(opened) == {"x.tmx"}
