"""Placeholders in texts of programs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.tasks.translation.placeholder_pattern import Placeholders, is_nested
from tests.fixtures.cpu_time import within

PLAIN = Placeholders()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%(name)s has %d of %.2f%%", ["%(name)s", "%d", "%.2f", "%%"]),
        ("%1$s and %2$-10s, %-5d, %lu, %*d", ["%1$s", "%2$-10s", "%-5d", "%lu", "%*d"]),
        ("%{count} and %(n)03d of %1", ["%{count}", "%(n)03d", "%1"]),
        ("{0} {} {name} {a.b[0]!r:>10} {{ x }}", ["{0}", "{}", "{name}", "{a.b[0]!r:>10}"]),
        ("${path} $USER costs $5", ["${path}", "$USER"]),
        ('<a href="x">a</a><br/> 1 < 2', ['<a href="x">', "</a>", "<br/>"]),
        ("a&nbsp;b &#8230; AT&T; R & D", ["&nbsp;", "&#8230;"]),
        ("100 % sure, 50% of it, 5%", []),
        (r"{\an8}up", [r"{\an8}"]),
    ],
)
def test_placeholders_are_found(text, expected):
    found = [item.text for item in PLAIN.find(text)]
    assert found[: len(expected)] == expected
    assert len(found) - len(expected) == text.count("{{")


@pytest.mark.parametrize(
    ("source", "translation", "fault"),
    [
        ("%s of %s", "%s von %s", None),
        ("%(a)s", "%(b)s", "is missing"),
        ("{0}", "{0} {0}", "is not in the source"),
        ("%s has %d", "%d hat %s", "order"),
        ("%(a)s has %(b)s", "%(b)s hat %(a)s", None),
        ("%1$s has %2$d", "%2$d hat %1$s", None),
        ("<b>a</b>", "</b>a<b>", "closing tag"),
        ("<b><i>a</i></b>", "<b><i>a</b></i>", "closing tag"),
        ("text", "Text %s", "is not in the source"),
    ],
)
def test_the_placeholders_of_a_translation_are_compared_with_the_source(source, translation, fault):
    faults = PLAIN.faults(source, translation)
    assert (faults == []) if fault is None else any(fault in text for text in faults)


def test_wrong_placeholders_are_replaced_by_the_missing_ones_of_their_kind():
    assert PLAIN.copied("Hi %(name)s!", "Salut %(nom)s !") == "Salut %(name)s !"
    assert PLAIN.copied("{a} and {b}", "{x} et {a}") == "{b} et {a}"
    assert PLAIN.copied("{a}", "%s") == "%s"
    assert PLAIN.copied("{a} {b}", "{x}") == "{x}"
    assert PLAIN.copied("%s", "%s") == "%s"


def test_tags_of_a_file_are_placeholders_as_they_are():
    own = Placeholders(["[", "](http://x)", "`a b`"])
    source = "see [this](http://x) and `a b`"
    assert own.faults(source, "voir [ceci](http://x) et `a b`") == []
    assert own.faults(source, "voir ](http://x) ceci [ et `a b`") != []
    assert own.faults(source, "voir [ceci](http://x) et `a c`") != []
    assert own.removed(source) == "see this and"


PARTS = st.lists(st.sampled_from(["%s", "{0}", "<b>", "</b>", "%(n)d", "&amp;", "a", "é b", "."]))


@given(PARTS, PARTS)
def test_a_copied_translation_has_no_more_faults_than_before(source, translation):
    first, second = " ".join(source), " ".join(translation)
    copied = PLAIN.copied(first, second)
    before, after = PLAIN.faults(first, second), PLAIN.faults(first, copied)
    assert not PLAIN.faults(first, first)
    assert copied == second or len(after) <= len(before)
    assert copied == second if not before else True


@given(st.text(alphabet="%${}()<>/&;#sd09abn.*'\"\\ [", max_size=60))
def test_any_text_has_the_placeholders_of_itself(text):
    assert PLAIN.faults(text, text) == []
    assert "".join(text[i.start : i.end] for i in PLAIN.find(text)) == "".join(
        i.text for i in PLAIN.find(text)
    )


@pytest.mark.parametrize(
    "unit", ["%", "{", "{{", "<a ", "&a", "$", "%(", "${a", "%0", "{a.", "{\\\\", "</"]
)
def test_a_long_text_is_searched_in_seconds(unit):
    text = unit + (unit + "0a") * 20_000 + unit * 100_000
    with within(5):
        PLAIN.find(text)


def test_nesting_of_tags_and_of_links():
    assert is_nested(["<b>", "<br>", "</b>", "%s"])
    assert not is_nested(["<b>"])
    assert not is_nested(["](x)", "["])
    assert is_nested(["[", "](x)"])
