"""Which texts of XLIFF, TMX and PO files are translated: what is inherited, empty or escaped."""

import pytest

from headway.base.errors import DataError
from headway.tasks.translation.documents.opening import open_document
from headway.tasks.translation.pairs.reading import pair_files, read_pairs

HEAD_1 = '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
FILE_1 = '<file source-language="en" target-language="fr" datatype="plaintext" original="x"'


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def version_1(body, attributes=""):
    return f"{HEAD_1}{FILE_1}{attributes}><body>{body}</body></file></xliff>"


def version_2(body, version="2.0", attributes=""):
    head = f'<xliff version="{version}" srcLang="en" trgLang="fr"'
    name = "urn:oasis:names:tc:xliff:document:2.0"
    return f'{head} xmlns="{name}"><file id="f"{attributes}>{body}</file></xliff>'


def unit_1(text, target="", attributes=""):
    return f'<trans-unit id="{text}"{attributes}><source>{text}</source>{target}</trans-unit>'


def unit_2(text, target="", attributes=""):
    segment = f"<segment><source>{text}</source>{target}</segment>"
    return f'<unit id="{text}"{attributes}>{segment}</unit>'


def untranslated(path):
    return [text for segment in open_document(path, "en", "fr").segments for text in segment.texts]


def filled(path):
    document = open_document(path, "en", "fr")
    return document.filled([[f"«{text}»" for text in s.texts] for s in document.segments]).decode()


def pairs(path):
    return [(pair.source, pair.target) for pair in read_pairs(pair_files(path, "en", "fr"))]


NO, YES = ' translate="no"', ' translate="yes"'


@pytest.mark.parametrize(("unit", "file"), [(unit_1, version_1), (unit_2, version_2)])
def test_units_inherit_whether_they_are_translated(tmp_path, unit, file):
    body = (
        f"<group id='g'{NO}>{unit('a')}<group id='h'>{unit('b')}{unit('c', attributes=YES)}</group>"
        f"<group id='i'{YES}>{unit('d')}{unit('e', attributes=NO)}</group></group>{unit('f')}"
    )
    assert untranslated(write(tmp_path / "x.xlf", file(body))) == ["c", "d", "f"]
    body = f"{unit('a')}<group id='g'{YES}>{unit('b')}</group>"
    assert untranslated(write(tmp_path / "y.xlf", file(body, attributes=NO))) == ["b"]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_each_version_2_is_read(tmp_path, version):
    file = write(tmp_path / "x.xlf", version_2(unit_2("a"), version))
    assert untranslated(file) == ["a"]
    later = write(tmp_path / "y.xlf", version_2(unit_2("a"), "3.0"))
    with pytest.raises(DataError, match=r"one of 1.0, 1.1, 1.2, 2.0, 2.1, 2.2, but is '3.0'"):
        untranslated(later)


EMPTY = ["<target/>", "<target> \n </target>", "<target>{}</target>", "<target> {} </target>"]


@pytest.mark.parametrize("target", EMPTY)
@pytest.mark.parametrize(
    "tag", ["<mrk mtype='seg' mid='1'/>", "<mrk mtype='seg' mid='1'></mrk>", "<x id='1'/>"]
)
def test_a_target_of_spaces_and_tags_is_empty(tmp_path, target, tag):
    file = write(tmp_path / "x.xlf", version_1(unit_1("red heart", target.format(tag))))
    assert pairs(file) == []
    assert '<target state="needs-review-translation">«red heart»</target>' in filled(file)
    file = write(tmp_path / "y.xlf", version_2(unit_2("red heart", target.format("<ph id='1'/>"))))
    assert pairs(file) == []
    assert "<target>«red heart»</target>" in filled(file)


def test_a_text_of_tags_is_translated_by_tags(tmp_path):
    code = '<ph id="1" equiv-text="%s"/>'
    body = f'<trans-unit id="1"><source>{code}</source><target>{code}</target></trans-unit>'
    assert untranslated(write(tmp_path / "x.xlf", version_1(body))) == []


def test_a_filled_unit_is_no_longer_approved(tmp_path):
    body = unit_1("a", "<target/>", ' approved="yes"') + unit_1("b", attributes=' approved="yes"')
    after = filled(write(tmp_path / "x.xlf", version_1(body)))
    assert after.count('approved="no"') == 2 and 'approved="yes"' not in after
    done = version_1(unit_1("a", "<target>b</target>", ' approved="yes"'))
    assert filled(write(tmp_path / "y.xlf", done)) == done


def test_the_state_of_a_filled_target_is_replaced_and_ignorable_parts_stay(tmp_path):
    body = unit_1("a", '<target state="final"/>')
    after = filled(write(tmp_path / "x.xlf", version_1(body)))
    assert '<target state="needs-review-translation">' in after and "final" not in after
    ignorable = "<ignorable><source> </source></ignorable>"
    body = f'<unit id="1"><segment state="final"><source>a</source></segment>{ignorable}</unit>'
    after = filled(write(tmp_path / "y.xlf", version_2(body)))
    assert ignorable in after
    assert '<segment state="translated" subState="headway:fuzzy"><source>a</source>' in after


@pytest.mark.parametrize(
    ("file", "marked"),
    [
        (version_1, '<mrk mtype="protected">Headway</mrk>'),
        (version_2, '<mrk id="1" translate="no">Headway</mrk>'),
    ],
)
def test_a_protected_part_of_a_text_is_a_tag(tmp_path, file, marked):
    unit = unit_1 if file is version_1 else unit_2
    body = unit("x").replace("<source>x", f"<source>Open {marked} now")
    path = write(tmp_path / "x.xlf", file(body))
    (segment,) = open_document(path, "en", "fr").segments
    assert (segment.texts, segment.protected) == (("Open Headway now",), ("Headway",))
    assert f"«Open {marked} now»</target>" in filled(path)


def test_an_empty_variant_of_tmx_is_one_of_spaces_and_tags(tmp_path):
    def variant(language, text):
        return f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>'

    units = "".join(
        f"<tu>{variant('en', source)}{variant('fr', target)}</tu>"
        for source, target in (
            ("one", "un"),
            ("two", " "),
            ("three", '<ph x="1"/>'),
            ('<ph x="1">%s</ph>', '<ph x="1">%s</ph>'),
        )
    )
    file = write(
        tmp_path / "x.tmx", f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'
    )
    assert untranslated(file) == ["two", "three"]
    assert pairs(file) == [("one", "un"), ("%s", "%s")]


def po(text, charset="UTF-8"):
    header = f'msgid ""\nmsgstr "Content-Type: text/plain; charset={charset}\\n"\n'
    return f'{header}\nmsgid "a"\nmsgstr "{text}"\n'


@pytest.mark.parametrize(
    ("text", "charset", "expected"),
    [
        (r"caf\303\251", "UTF-8", "café"),
        (r"caf\xc3\xa9!", "UTF-8", "café!"),
        (r"caf\351", "ISO-8859-1", "café"),
        (r"\101\x42\\303", "UTF-8", r"AB\303"),
        (r"\360\237\246\212", "UTF-8", "🦊"),
    ],
)
def test_octal_and_hexadecimal_escapes_are_bytes_of_the_charset(tmp_path, text, charset, expected):
    assert pairs(write(tmp_path / "x.po", po(text, charset))) == [("a", expected)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (r"\303", r"\\303 are no characters in UTF-8"),
        (r"\777", r"\\777 is no byte"),
        (r"\0", r"\\0 is no byte"),
        (r"\q", r"\\q is not valid"),
        (r"\x", r"\\x is not valid"),
    ],
)
def test_an_escape_that_is_no_character_is_refused_with_its_line(tmp_path, text, fault):
    file = write(tmp_path / "x.po", po(text))
    with pytest.raises(DataError, match=fault) as caught:
        pairs(file)
    assert caught.value.where == f"{file}:5"
