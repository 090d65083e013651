"""Files translated in place: what is filled in, and that all else stays byte for byte."""

import difflib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.base.errors import DataError, UsageError
from headway.tasks.translation.documents.opening import open_document
from headway.tasks.translation.documents.plain_text import broken
from headway.tasks.translation.documents.po_entries import read_catalogue
from headway.tasks.translation.pairs.reading import pair_files, read_pairs
from tests.fixtures.catalogues import PO, TMX, XLIFF_1, XLIFF_2

TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\x85\u2028\u2029"), min_size=1, max_size=30
)
ANY_FOLDER = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)

MARKDOWN = """---
title: not translated
---
# A title #1

A paragraph of
two lines with `code`, [a link](http://x.y/z "t") and **bold**.\x20\x20
After a hard break.

> a quote
> of two lines

1. first *item*
   continued
   - [ ] inner

     more

```python
print("code")
```

    indented code

| Name | Value |
|:-----|------:|
| one  | 2 |

<div>
html stays
</div>

[ref]: http://x.y
[^1]: A footnote.

Heading
=======
"""

HTML = """<!doctype html>
<html lang="en"><head><title>A &amp; B</title>
<style>p > a {}</style><!-- a < b --></head>
<body><p class="x>y">One <b>two</b>
  and <code>x &lt; y</code>.</p><script>if (a < b) alert("<p>")</script>
<ul><li><a href="/">Home</a></li><li>5 < 6 &copy;</li><li> </li></ul>
<pre>keep <b>me</b></pre><p translate="no">Brand</p>
</body></html>
"""

SRT = """1
00:00:01,000 --> 00:00:02,500
A line that goes on
in the next one

2
00:00:03,000 --> 00:00:04,000
- Yes.
- <i>No!</i>

3
00:00:05,000 --> 00:00:06,000
* * *
"""

FILES = {
    "a.po": PO,
    "a.tmx": TMX,
    "a.xlf": XLIFF_1,
    "b.xlf": XLIFF_2,
    "a.md": MARKDOWN,
    "a.html": HTML,
    "a.srt": SRT,
    "a.txt": "One line.\n\n  Two. \n***\nlast",
}


def saved(folder: Path, name: str, content: str | None = None, encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes((FILES[name] if content is None else content).encode(encoding))
    return path


def marked(path: Path, **more) -> str:
    """The file with every text in brackets."""
    document = open_document(path, "en", "fr", **more)
    return document.filled([[f"«{t}»" for t in s.texts] for s in document.segments]).decode()


def changes(before: str, after: str) -> list[str]:
    return [d for d in difflib.ndiff(before.split("\n"), after.split("\n")) if d[0] in "+-"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_file_without_new_translations_is_the_same_byte_for_byte(
    tmp_path, name, newline, encoding
):
    path = saved(tmp_path, name, FILES[name].replace("\n", newline), encoding)
    document = open_document(path, "en", "fr")
    assert document.segments
    assert document.filled([None] * len(document.segments)) == path.read_bytes()
    filled = document.filled([["x"] * len(s.texts) for s in document.segments])
    assert filled.count(b"\n") == filled.count(newline.encode())
    assert filled.startswith(b"\xef\xbb\xbf") == (encoding == "utf-8-sig")


@pytest.mark.parametrize("name", FILES)
def test_the_line_of_a_text_is_where_it_is(tmp_path, name):
    document = open_document(saved(tmp_path, name), "en", "fr")
    lines = FILES[name].split("\n")
    for segment in document.segments:
        word = re.findall(r"[A-Za-z]+", segment.texts[0])[0]
        near = "\n".join(lines[segment.line - 1 : segment.line + (3 if name[2:] == "tmx" else 1)])
        assert word in near, (segment.line, word)


def test_a_po_file_is_filled_in_and_marked(tmp_path):
    after = marked(saved(tmp_path, "a.po"))
    assert changes(PO, after) == [
        "+ #, fuzzy",
        '- msgstr   ""',
        '+ msgstr "«Save the file»"',
        "- #, c-format",
        "+ #, fuzzy, c-format",
        '- msgstr ""',
        '+ msgstr "«Delete %s»"',
        "+ #, fuzzy",
        '- msgstr[0] ""',
        '+ msgstr[0] "«%d day»"',
        '- msgstr[1] ""',
        '+ msgstr[1] "«%d days»"',
    ]


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="needs msgfmt (GNU gettext)")
@pytest.mark.parametrize("encoding", ["UTF-8", "ISO-8859-1"])
def test_msgfmt_accepts_a_filled_file_and_reads_what_was_written(tmp_path, encoding):
    content = PO.replace("UTF-8", encoding).replace("“", '\\"')
    path = saved(tmp_path, "a.po", content, encoding)
    document = open_document(path, "en", "fr")
    new = [[f'é "\\{t}\t' for t in s.texts] for s in document.segments]
    (tmp_path / "b.po").write_bytes(document.filled(new))
    subprocess.run(
        ["msgfmt", "--check-format", "--use-fuzzy", "-o", "b.mo", "b.po"], cwd=tmp_path, check=True
    )
    pairs = [p.target for p in read_pairs(pair_files(tmp_path / "b.mo", None, None))]
    assert {text.strip() for texts in new for text in texts} <= set(pairs)
    fuzzy = [e for e in read_catalogue(tmp_path / "b.po").entries if "fuzzy" in e.flags]
    assert [entry.source for entry in fuzzy] == ["Save the file", "Delete %s", "%d day", "Close"]


@pytest.mark.parametrize(
    ("rule", "forms"),
    [
        ("nplurals=1; plural=0;", ["%d days"]),
        (
            "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10<5 ? 1 : 2);",
            ["%d day", "%d days", "%d days"],
        ),
        (
            "nplurals=4; plural=(n==1 ? 3 : n==2 ? 0 : n<5 ? 1 : 2);",
            ["%d days", "%d days", "%d days", "%d day"],
        ),
    ],
)
def test_plural_forms_follow_the_rule_of_the_header(tmp_path, rule, forms):
    content = (
        f'msgid ""\nmsgstr "Plural-Forms: {rule}\\n"\n\n'
        'msgid "%d day"\nmsgid_plural "%d days"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    )
    after = marked(saved(tmp_path, "a.po", content))
    written = [line for line in after.split("\n") if line.startswith("msgstr[")]
    assert written == [f'msgstr[{n}] "«{form}»"' for n, form in enumerate(forms)]


@ANY_FOLDER
@given(TEXTS)
def test_any_text_written_to_a_po_file_is_read_back(tmp_path, text):
    document = open_document(saved(tmp_path, "a.po"), "en", "fr")
    number = next(n for n, s in enumerate(document.segments) if len(s.texts) == 1)
    new = [[text] if n == number else None for n in range(len(document.segments))]
    (tmp_path / "b.po").write_bytes(document.filled(new))
    entries = {e.source: e for e in read_catalogue(tmp_path / "b.po").entries}
    assert entries["Save the file"].forms == [text]
    assert entries["Open"].forms == ["Ouverte"]


@ANY_FOLDER
@given(TEXTS, st.sampled_from(["a.tmx", "a.xlf", "b.xlf"]))
def test_any_text_written_to_xml_is_read_back_with_its_tags(tmp_path, text, name):
    document = open_document(saved(tmp_path, name), "en", "fr")
    new = [["a".join(s.protected) + text] for s in document.segments]
    path = tmp_path / f"new-{name}"
    path.write_bytes(document.filled(new))
    clean = "".join(c for c in text if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff"))
    again = open_document(path, "en", "fr")
    if clean.strip():
        assert not again.segments
        written = [p.target for p in read_pairs(pair_files(path, "en", "fr"))][2:]
        expected = ["a".join(s.protected) + clean for s in document.segments]
        normal = [e.replace("\r\n", "\n").replace("\r", "\n").strip() for e in expected]
        assert written == normal


def test_tmx_units_get_a_variant_and_empty_ones_are_filled(tmp_path):
    lines = changes(TMX, marked(saved(tmp_path, "a.tmx")))
    assert lines == [
        '+    <tuv xml:lang="fr"><prop type="x-fuzzy">yes</prop><seg>«Save &amp; <hi type="x>y">'
        'close</hi> <ph x="2">%s</ph>»</seg></tuv>',
        '-   <tu><tuv xml:lang="en-US"><seg>Stop</seg></tuv><tuv xml:lang="fr"><seg/></tuv></tu>',
        '+   <tu><tuv xml:lang="en-US"><seg>Stop</seg></tuv><tuv xml:lang="fr"><seg>«Stop»</seg>'
        "</tuv></tu>",
    ]
    dropped = marked(tmp_path / "a.tmx", inline_tags="drop")
    assert "<seg>«Save &amp; close »</seg>" in dropped
    with pytest.raises(UsageError, match="target language is not known"):
        open_document(tmp_path / "a.tmx", None, None)


def test_xliff_targets_are_added_or_filled_and_their_state_is_set(tmp_path):
    state = "needs-review-translation"
    assert changes(XLIFF_1, marked(saved(tmp_path, "a.xlf"))) == [
        f'+         <target state="{state}">«Save &lt;all&gt; <x id="7" equiv-text="{{0}}"/>»'
        "</target>",
        '-       <trans-unit id="4"><source>Stop</source><target state="new"/></trans-unit>',
        f'+       <trans-unit id="4"><source>Stop</source><target state="{state}">«Stop»</target>'
        "</trans-unit>",
    ]
    state = 'state="translated" subState="headway:fuzzy"'
    content = XLIFF_2.replace(' trgLang="fr"', "")
    after = marked(saved(tmp_path, "b.xlf", content))
    assert f'<segment id="s" {state}>' in after
    assert '    <target>«Save &lt;all&gt; <ph id="7" equiv="{0}"/>»</target>\n' in after
    assert f"<segment {state}><source>Stop</source><target>«Stop»</target>" in after
    assert 'xmlns="urn:oasis:names:tc:xliff:document:2.0" trgLang="fr">' in after
    assert len(changes(content, after)) == 7


def test_a_prefix_of_the_names_of_tags_is_kept(tmp_path):
    content = XLIFF_1.replace("<", "<x:").replace("<x:/", "</x:").replace("<x:?", "<?")
    content = content.replace("xmlns=", "xmlns:x=")
    after = marked(saved(tmp_path, "a.xlf", content))
    assert '<x:target state="needs-review-translation">«Stop»</x:target>' in after


def test_a_file_in_another_language_is_refused(tmp_path):
    for name in ("a.po", "a.xlf", "b.xlf"):
        with pytest.raises(UsageError, match="de"):
            open_document(saved(tmp_path, name), "en", "de")
        with pytest.raises(UsageError, match="translations of the file are in fr"):
            open_document(saved(tmp_path, name), "fr", "en")
    with pytest.raises(DataError, match="no unit has a text in 'it'"):
        open_document(saved(tmp_path, "a.tmx"), "it", "fr")


def test_a_letter_that_the_charset_of_a_po_file_lacks_is_an_error_with_its_line(tmp_path):
    content = PO.replace("UTF-8", "ISO-8859-1").replace("“", '\\"')
    path = saved(tmp_path, "a.po", content, "latin-1")
    with pytest.raises(DataError, match="cannot represent 'œ'") as caught:
        document = open_document(path, "en", "fr")
        document.filled([["œuf"] * len(s.texts) for s in document.segments])
    assert caught.value.where == f"{path}:31"


def test_markdown_keeps_its_structure(tmp_path):
    after = marked(saved(tmp_path, "a.md"))
    expected = MARKDOWN.replace("# A title #1", "# «A title #1»")
    for text in (
        'A paragraph of\ntwo lines with `code`, [a link](http://x.y/z "t") and **bold**.',
        "After a hard break.",
        "a quote\n> of two lines",
        "first *item*\n   continued",
        "inner",
        "more",
        "one",
        "Name",
        "Value",
        "A footnote.",
        "Heading",
    ):
        joined = text.replace("\n> ", " ").replace("\n   ", " ").replace("\n", " ")
        assert expected.count(text) == 1, text
        expected = expected.replace(text, f"«{joined}»")
    assert after == expected


def test_html_keeps_its_structure(tmp_path):
    expected = HTML.replace("A &amp; B", "«A &amp; B»").replace("Home", "«Home»")
    expected = expected.replace(
        "One <b>two</b>\n  and <code>x &lt; y</code>.",
        "«One <b>two</b> and <code>x &lt; y</code>.»",
    )
    path = saved(tmp_path, "a.html")
    assert marked(path) == expected
    assert "«One two and <code>x &lt; y</code>.»" in marked(path, inline_tags="drop")
    first = next(s for s in open_document(path, "en", "fr").segments if "One" in s.texts[0])
    assert first.protected == ("<b>", "</b>", "<code>x &lt; y</code>")


def test_subtitles_keep_their_times_and_number_of_lines(tmp_path):
    document = open_document(saved(tmp_path, "a.srt"), "en", "fr")
    assert [s.texts[0] for s in document.segments] == [
        "A line that goes on in the next one",
        "Yes.",
        "<i>No!</i>",
    ]
    new = [["Une ligne qui continue dans la suivante"], ["Oui."], ["<i>Non !</i>"]]
    expected = SRT.replace(
        "A line that goes on\nin the next one", "Une ligne qui continue\ndans la suivante"
    )
    expected = expected.replace("Yes.", "Oui.").replace("No!", "Non !")
    assert document.filled(new).decode() == expected


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=9), max_size=20), st.integers(1, 4))
def test_a_text_is_broken_into_at_most_so_many_lines_without_loss(words, count):
    lines = broken(" ".join(words), count)
    assert " ".join(lines).split() == words
    assert len(lines) <= count


def test_a_plain_text_keeps_its_lines_and_their_indentation(tmp_path):
    document = open_document(saved(tmp_path, "a.txt"), "en", "fr")
    assert [s.texts[0] for s in document.segments] == ["One line.", "  Two. ", "last"]


def test_other_files_are_refused_with_the_known_suffixes(tmp_path):
    for name, message in (("a.mo", "compiled"), ("a.docx", r"\.po, \.pot"), ("a.po.gz", "gunzip")):
        path = tmp_path / name
        path.write_bytes(b"x")
        with pytest.raises(UsageError) as caught:
            open_document(path, None, None)
        assert message.replace("\\", "") in str(caught.value)
    with pytest.raises(UsageError, match="no such file"):
        open_document(tmp_path / "no.po", None, None)
