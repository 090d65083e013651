"""Sentence pairs from CSV, JSONL, PO, MO, TMX and XLIFF files."""

import gettext
import gzip
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.tasks.translation.corpora.corpus_check import check
from headway.tasks.translation.documents.po_entries import read_catalogue
from headway.tasks.translation.pairs.reading import pair_files, read_pairs
from headway.tasks.translation.pairs.splits import locate
from tests.fixtures.catalogues import PO, TMX, XLIFF_1, XLIFF_2

needs_gettext = pytest.mark.skipif(
    shutil.which("msgfmt") is None, reason="needs msgfmt (GNU gettext)"
)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pairs(path: Path, source: str | None = None, target: str | None = None, **more):
    corpus = pair_files(path, source, target, **more)
    return [(pair.source, pair.target) for pair in read_pairs(corpus)]


QUESTIONS = {
    "x.tsv": "id\tquestion\tcontext\tanswer\n1\twho?\tAda came. \tAda\n2\t\tno\tx\n3\t\t\ty\n",
    "x.csv": "id,question,context,answer\n1,who?,Ada came. ,Ada\n2,,no,x\n3,,,y\n",
    "x.jsonl": "".join(
        f'{{"question": "{question}", "context": "{context}", "answer": "{answer}"}}\n'
        for question, context, answer in (
            ("who?", "Ada came. ", "Ada"),
            ("", "no", "x"),
            ("", "", "y"),
        )
    ),
}
MARKED = [("question: who? context: Ada came.", "Ada"), ("context: no", "x"), ("", "y")]


@pytest.mark.parametrize("name", QUESTIONS)
def test_several_columns_of_a_source_are_joined_with_their_names_as_markers(name, tmp_path):
    file = write(tmp_path / name, QUESTIONS[name])
    assert pairs(file, "question,context", "answer") == MARKED
    assert pairs(file, "question, context", "answer") == MARKED
    swapped = [("context: Ada came. question: who?", "Ada"), *MARKED[1:]]
    assert pairs(file, "context,question", "answer") == swapped
    described = pair_files(file, "question,context", "answer").describe()
    assert "question,context -> answer" in described
    for source, target in (("question,question", "answer"), ("question,answer", "answer")):
        with pytest.raises(UsageError, match="one is named twice"):
            pairs(file, source, target)
    with pytest.raises(HeadwayError, match="topic"):
        pairs(file, "question,topic", "answer")


def test_a_column_whose_name_has_a_comma_is_one_column(tmp_path):
    file = write(tmp_path / "x.csv", '"a,b",c,d\n1,2,3\n')
    assert pairs(file, "a,b", "c") == [("1", "2")]
    assert pairs(file, "1,c", "d") == [("a,b: 1 c: 2", "3")]
    assert pairs(write(tmp_path / "y.jsonl", '{"a,b": "1", "c": "2"}\n'), "a,b", "c") == [
        ("1", "2")
    ]


def test_numbered_columns_without_a_header_have_their_numbers_as_markers(tmp_path):
    file = write(tmp_path / "x.tsv", "who?\tAda came\tAda\n")
    assert pairs(file, "1,2", "3") == [("column 1: who? column 2: Ada came", "Ada")]


def test_csv_cells_may_be_quoted_and_columns_are_named_or_numbered(tmp_path):
    content = 'id,en,de\n1,"one, two","eins, ""zwei"""\n2,"a\nb",c\n'
    file = write(tmp_path / "x.csv", content)
    expected = [("one, two", 'eins, "zwei"'), ("a\nb", "c")]
    assert pairs(file, "en", "de") == expected
    assert pairs(file, "2", "3") == expected
    assert pair_files(file, "en", "de").describe() == "x.csv (en -> de, header)"
    with pytest.raises(UsageError, match="3 columns"):
        pairs(file)
    short = write(tmp_path / "y.csv", "en,de\nonly\n")
    with pytest.raises(DataError, match="comma") as caught:
        pairs(short, "en", "de")
    assert f"{short}:2" in str(caught.value)


def test_json_lines_have_the_texts_at_the_top_or_under_translation(tmp_path):
    file = write(
        tmp_path / "x.jsonl",
        '{"en": "one", "de": "eins"}\n\n{"translation": {"en": "two", "de": "zwei"}}\n',
    )
    assert pairs(file, "en", "de") == [("one", "eins"), ("two", "zwei")]
    plain = write(tmp_path / "y.jsonl", '{"source": "a", "target": "b"}\n')
    assert pairs(plain) == [("a", "b")]
    with pytest.raises(DataError, match="'fr', but it is missing") as caught:
        pairs(file, "en", "fr")
    assert f"{file}:1" in str(caught.value)


def test_the_messages_of_a_po_file_are_pairs_without_fuzzy_and_obsolete_ones(tmp_path):
    file = write(tmp_path / "x.po", PO)
    expected = [
        ("Open", "Ouvrir"),
        ("Open", "Ouverte"),
        ("%d file", "%d fichier"),
        ("%d files", "%d fichiers"),
        ('A long\ntext with “quotes" and a tab\t.', "Un long\ntexte."),
    ]
    assert pairs(file) == expected
    assert pairs(file, "en", "fr") == expected
    assert pairs(file, "fr", "en") == [(target, source) for source, target in expected]
    assert pair_files(file, None, None).describe() == "x.po (msgid -> fr)"
    with pytest.raises(UsageError, match=r"-> fr, but en -> de is requested"):
        pairs(file, "en", "de")
    zipped = write(tmp_path / "x.po.gz", gzip.compress(PO.encode()))
    assert pairs(zipped) == expected


def test_a_po_file_is_decoded_by_the_charset_of_its_header(tmp_path):
    content = PO.replace("UTF-8", "ISO-8859-1").replace("“", '\\"')
    file = write(tmp_path / "x.po", content.replace("Ouvrir", "Démarrer").encode("latin-1"))
    assert pairs(file)[0] == ("Open", "Démarrer")


@needs_gettext
def test_mo_files_are_read_as_po_files_and_as_the_standard_library_reads_them(tmp_path):
    file = write(tmp_path / "x.po", PO)
    for order in ("little", "big"):
        compiled = tmp_path / f"{order}.mo"
        endian = f"--endianness={order}"
        subprocess.run(["msgfmt", endian, "-o", compiled, file], check=True)
        assert Counter(pairs(compiled)) == Counter(pairs(file))
        with compiled.open("rb") as stream:
            catalogue = gettext.GNUTranslations(stream)
        assert catalogue.gettext("Open") == "Ouvrir"
        assert catalogue.pgettext("state", "Open") == "Ouverte"
        assert ("%d files", catalogue.ngettext("%d file", "%d files", 2)) in pairs(compiled)


@needs_gettext
def test_catalogues_of_this_machine_are_read_as_gettext_reads_them(tmp_path):
    """A sample of the compiled catalogues of the system, and the same as text by msgunfmt."""
    installed = sorted(Path("/usr/share/locale").glob("*/LC_MESSAGES/*.mo"))
    if len(installed) < 20:
        pytest.skip("needs compiled catalogues in /usr/share/locale")
    for path in random.Random(3).sample(installed, 6):
        try:
            with path.open("rb") as stream:
                catalogue = gettext.GNUTranslations(stream)
        except UnicodeDecodeError:  # the standard library reads every header as UTF-8
            continue
        read = Counter(pairs(path))
        stated = {
            (key.rpartition("\4")[2].strip(), text.strip())
            for key, text in catalogue._catalog.items()
            if isinstance(key, str) and key and text.strip()
        }
        assert not stated - set(read), path
        text = tmp_path / "x.po"
        text.unlink(missing_ok=True)
        subprocess.run(["msgunfmt", "--force-po", "-o", text, path], check=True)
        # Messages that depend on the system are not in the tables that every reader knows.
        entries = read_catalogue(text).entries
        elsewhere = {
            side.strip()
            for e in entries
            for side in (e.source or "", e.plural or "")
            if any(
                sign in s
                for s in (e.source, e.plural or "", *e.forms.values())
                for sign in ("%I", "<PRI")
            )
        }
        missing = Counter(pairs(text)) - read
        assert {source for source, _ in missing} <= elsewhere, path
        assert not read - Counter(pairs(text)), path


def test_tmx_pairs_are_those_of_two_languages_with_tags_kept_or_dropped(tmp_path):
    file = write(tmp_path / "x.tmx", TMX)
    kept = [("Hello", "Bonjour"), ("Press <b>OK</b> now", "Appuyez sur <b>OK</b>")]
    assert pairs(file) == kept
    assert pairs(file, "en", "fr") == kept
    assert pairs(file, "fr", "en") == [(target, source) for source, target in kept]
    dropped = pairs(file, "en", "fr", inline_tags="drop")
    assert dropped[1] == ("Press OK now", "Appuyez sur OK")
    assert [p.line for p in read_pairs(pair_files(file, "en", "fr"))] == [5, 10]
    with pytest.raises(UsageError, match="'en-US', 'fr'"):
        pairs(file, "en", "de")
    for encoding in ("utf-16", "utf-8-sig"):
        other = tmp_path / f"{encoding}.tmx"
        other.write_bytes(TMX.replace('encoding="UTF-8"', "").encode(encoding))
        assert pairs(other) == kept


@pytest.mark.parametrize("content", [XLIFF_1, XLIFF_2], ids=["1.2", "2.0"])
def test_xliff_pairs_are_the_translated_texts(tmp_path, content):
    file = write(tmp_path / "x.xlf", content)
    tag, closing = ('<g id="1">', "</g>") if content is XLIFF_1 else ('<pc id="1">', "</pc>")
    kept = [("Hello", "Bonjour"), (f"Press {tag}OK{closing} now", f"Tapez {tag}OK{closing}")]
    assert pairs(file) == kept
    assert pairs(file, "fr", "en") == [(target, source) for source, target in kept]
    assert pairs(file, "en", "fr", inline_tags="drop")[1] == ("Press OK now", "Tapez OK")
    with pytest.raises(UsageError, match=r"en -> fr, but de -> fr is requested"):
        pairs(file, "de", "fr")


def test_a_folder_may_have_splits_of_different_formats_and_is_checked_by_line(tmp_path):
    write(tmp_path / "train.tmx", TMX)
    write(tmp_path / "valid.po", PO.replace('"Open"', '"Hello"'))
    splits = locate(tmp_path, "en", "fr")
    assert [files.format for _, files in splits.items()] == ["tmx", "po"]
    report = check(splits)
    assert report.splits["train"].pairs == 2
    assert report.splits["valid"].leaked.first_lines == (11, 15)
    other = write(tmp_path / "x.po", "")
    assert pairs(other) == []


def test_a_format_that_does_not_fit_is_an_error_that_names_the_file(tmp_path):
    for name in ("x.po", "x.mo", "x.tmx", "x.xlf", "x.jsonl"):
        file = write(tmp_path / name, "en\tde\none\teins\n")
        with pytest.raises(HeadwayError) as caught:
            pairs(file, "en", "de")
        assert str(file) in str(caught.value)
