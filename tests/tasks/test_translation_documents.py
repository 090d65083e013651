"""Files and texts with placeholders through a translator, and `headway translate -o`."""

import json

import pytest

from headway.base.errors import UsageError
from headway.tasks.translation.document_translation import (
    DocumentOptions,
    document_lines,
    translate_document,
)
from headway.tasks.translation.documents.po_entries import read_catalogue
from headway.tasks.translation.options import TranslateOptions
from headway.tasks.translation.texts import Text, translate_texts
from tests.fixtures.catalogues import PO, TMX, XLIFF_2
from tests.fixtures.command_line import headway
from tests.fixtures.translators import dictionary, make

BEAM_2 = TranslateOptions(beam=2)


def translated(text, candidates, options=BEAM_2, table=(), protected=()):
    bundle = dictionary({text: candidates, **dict(table)})
    (result,) = translate_texts(bundle, [Text(text, protected)], options)
    return result.text, result.how


@pytest.mark.parametrize(
    ("text", "candidates", "expected"),
    [
        ("Open", ["Ouvrir"], ("Ouvrir", "best")),
        ("Open %s", ["Ouvrir %s"], ("Ouvrir %s", "best")),
        ("Open %s", ["Ouvrir\u00a0: \n %s"], ("Ouvrir\u00a0: %s", "best")),
        ("Open %s", ["Ouvrir", "Ouvre %s"], ("Ouvre %s", "other")),
        ("Open %(name)s", ["Ouvrir %(nom)s", "Ouvre"], ("Ouvrir %(name)s", "copied")),
        ("Open %s now", ["Ouvrir", "Ouvre"], ("OPEN %s NOW", "parts")),
        ("%s: {0}", ["never used"], ("%s: {0}", "unchanged")),
        ("Open", [""], (None, "left")),
        ("one " * 5000, ["never used"], (None, "left")),
        ("<b>Open</b> it", ["</b>ouvrir<b>", "x"], ("<b>OPEN</b> IT", "parts")),
    ],
)
def test_placeholders_survive_or_the_text_is_left(text, candidates, expected):
    assert translated(text.strip(), candidates) == expected


def test_a_greedy_search_has_no_other_candidates():
    greedy = TranslateOptions(beam=1)
    assert translated("Open %s", ["Ouvrir", "Ouvre %s"], greedy) == ("OPEN %s", "parts")


def test_placeholders_that_the_model_invents_between_the_others_are_removed():
    table = {"Open": ["Ouvrir %d {0}"], "now": ["<b>", ""]}
    assert translated("Open %s", ["x", "y"], table=table) == ("Ouvrir %s", "parts")
    assert translated("now %s", ["x", "y"], table=table) == (None, "left")


def test_a_search_that_must_contain_the_placeholders_is_before_the_parts():
    table = {
        "Open %s": ["Ouvert", "Ouvre"],
        ("Open %s", "%s"): ["%s %s", "%s ouvert"],
        "Close %s": ["Fermer", ""],
        "<b>a</b> %s": ["un", "y"],
        ("<b>a</b> %s", "<b>", "</b>", "%s"): ["</b>un<b> %s", "<b>un</b> %s"],
        "Quit {0}": ["Quitter", "x"],
        ("Quit {0}", "{0}"): ["{0}", "Qui {0}"],
    }
    texts = [Text(text) for text in ("Open %s", "Close %s", "<b>a</b> %s", "Quit {0}")]
    results = translate_texts(dictionary(table), texts, BEAM_2)
    assert [(r.text, r.how) for r in results] == [
        ("%s ouvert", "constrained"),
        ("CLOSE %s", "parts"),
        ("<b>un</b> %s", "constrained"),
        ("QUIT {0}", "parts"),
    ]


def test_white_space_and_lines_of_a_text_stay():
    bundle = dictionary({"one": ["un"]})
    (result,) = translate_texts(bundle, [Text("\n  one \n\n\ttwo\n")], BEAM_2)
    assert result.text == "\n  un \n\n\tTWO\n"


def test_a_text_with_a_line_that_is_left_is_left():
    bundle = dictionary({"two": ["", ""]})
    results = translate_texts(bundle, [Text("one\ntwo"), Text("one")], BEAM_2)
    assert [r.text for r in results] == [None, "ONE"]
    assert "the translation is empty" in results[0].problem


def test_a_text_with_hundreds_of_different_tags_is_left():
    tags = tuple(f"<x{number}/>" for number in range(600))
    (result,) = translate_texts(dictionary({}), [Text(f"a {tags[0]}", tags)], BEAM_2)
    assert (result.text, result.how) == (None, "left")
    assert "600 different tags" in result.problem


def test_a_file_is_filled_in_and_what_is_left_is_reported(tmp_path):
    path, output = tmp_path / "a.po", tmp_path / "b.po"
    path.write_text(PO)
    bundle = dictionary({"%d days": ["", ""], "days": [""], "Delete %s": ["Supprimer", "%s ôté"]})
    report = translate_document(bundle, path, output, None, DocumentOptions(), BEAM_2)
    assert (report.texts, report.present, report.translated) == (8, 5, 2)
    assert report.placeholders == {"other": 1, "parts": 1, "left": 1}
    assert [(text.line, text.text) for text in report.left] == [(39, "%d days")]
    entries = {e.source: e for e in read_catalogue(output).entries}
    assert entries["Save the file"].forms == ["SAVE THE FILE"]
    assert entries["Delete %s"].forms == ["%s ôté"]
    assert entries["%d day"].forms == ["", ""], "no message is half translated"
    assert "fuzzy" not in entries["%d day"].flags
    lines = "\n".join(document_lines(report))
    assert "2 of 8 texts translated, 5 had a translation" in lines
    assert "1 right in another translation of the beam" in lines
    assert f"left      {path}:39  '%d days': " in lines
    with pytest.raises(UsageError, match="exists already"):
        translate_document(bundle, path, output, None, DocumentOptions(), BEAM_2)


def test_options_of_single_translations_are_refused_for_files(tmp_path):
    (tmp_path / "a.po").write_text(PO)
    for options, flag in (
        (TranslateOptions(nbest=2), "--nbest"),
        (TranslateOptions(align=True), "--align"),
    ):
        with pytest.raises(UsageError, match=flag):
            translate_document(
                dictionary({}),
                tmp_path / "a.po",
                tmp_path / "b.po",
                None,
                DocumentOptions(),
                options,
            )
    assert not (tmp_path / "b.po").exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder of a tiny untrained translator, and files."""
    path = tmp_path_factory.mktemp("documents")
    make().save(path / "model")
    for name, content in (("a.po", PO), ("a.tmx", TMX), ("a.xlf", XLIFF_2)):
        (path / name).write_text(content)
    (path / "a.md").write_text("# the fox\n\nbread `x`\n")
    return path


def test_the_command_line_writes_a_file_of_each_format(folder):
    for name, source in (("a.po", PO), ("a.tmx", TMX), ("a.xlf", XLIFF_2)):
        new = f"new-{name}"
        words = ["translate", "model", name, "-o", new, "--target", "fr", "--beam", "2"]
        done = headway(*words, cwd=folder)
        assert done.stdout == ""
        assert f"written   {new}:" in done.stderr
        written = (folder / new).read_text()
        old = [line for line in source.split("\n") if "Hello" in line or "Ouvr" in line]
        assert all(line in written for line in old)
        again = headway(*words, cwd=folder, check=2)
        assert "exists already" in again.stderr


def test_the_report_as_json(folder):
    done = headway(
        "translate", "model", "a.md", "--output", "b.md", "--json", "--beam", "2", cwd=folder
    )
    report = json.loads(done.stdout)
    assert report["texts"] == 2
    assert report["translated"] + len(report["left"]) == 2
    assert (folder / "b.md").read_text().startswith("# ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("a.po", "add -o a.new.po"),
        ("a.po a.tmx -o c.po", "exactly one input"),
        ("-o c.po", "exactly one input"),
        ("no.po -o c.po", "no such file"),
        ("a.po -o c.tmx", "the output has the format of the input"),
        ("a.po -o a.po", "the output is the input file"),
        ("a.po -o no/c.po", "no does not exist"),
        ("hello --target fr", "--target is an option for a file"),
        ("a.po -o c.po --target de", "the translations of the file are in fr"),
        ("a.tmx -o c.tmx", "the target language is not known"),
        ("a.po -o c.po --scores", "--scores is not available with -o"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(folder, words, message):
    before = sorted(path.name for path in folder.iterdir())
    done = headway("translate", "model", *words.split(), cwd=folder, check=None)
    assert done.returncode in (1, 2)
    assert message in " ".join(done.stderr.split()), done.stderr
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_translation_memory_is_used_before_the_model(tmp_path):
    po = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

msgid "Open the file"
msgstr ""

#, python-format
msgid "Delete %(count)s files of this folder now"
msgstr ""

msgid "Something else"
msgstr ""
"""
    path, memory = tmp_path / "a.po", tmp_path / "memory.tsv"
    path.write_text(po)
    memory.write_text(
        "en\tfr\nOpen the file\tOuvrir le fichier\n"
        "Delete %(n)s files of this folder\tSupprimer %(n)s fichiers du dossier\n"
    )
    chosen = DocumentOptions(source="en", target="fr", memory=memory)
    report = translate_document(
        dictionary({}), path, tmp_path / "b.po", None, chosen, TranslateOptions(beam=2)
    )
    written = (tmp_path / "b.po").read_text()
    assert report.memory == 1 and report.translated == 3
    (similar,) = report.similar
    assert similar.line == 8 and similar.similarity == pytest.approx(1 - 1 / 7)
    for text in ("Ouvrir le fichier", "SOMETHING ELSE", "Supprimer %(count)s fichiers du dossier"):
        assert f'msgstr "{text}"' in written
    assert written.count("fuzzy") == 3
    shown = "\n".join(document_lines(report))
    assert "texts from the translation memory: 1" in shown and "similarity 0.86" in shown
