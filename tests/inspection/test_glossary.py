"""The glossary: at least 110 terms, sorted, unique, each with a sentence and a file that exists."""

from collections import Counter
from pathlib import Path

from headway.inspection.glossary import markdown, sentences, terms

ROOT = Path(__file__).resolve().parents[2]


def test_the_terms_are_many_sorted_and_unique():
    names = [term.term for term in terms()]
    assert len(names) >= 110
    assert names == sorted(names, key=str.casefold)
    every = Counter(name.casefold() for term in terms() for name in (term.term, *term.also))
    assert [name for name, count in every.items() if count > 1] == []
    assert sentences().keys() == every.keys()


def test_each_term_has_one_sentence_and_a_file_that_exists():
    for term in terms():
        assert term.sentence[0].isupper() and term.sentence.endswith("."), term
        assert ". " not in term.sentence and "\n" not in term.sentence, term
        assert (ROOT / term.file).is_file(), term
        assert "`" not in term.equation, term


def test_the_document_is_generated_from_the_terms():
    """If this fails: python -c "from headway.inspection.glossary import write; write()"."""
    assert (ROOT / "docs" / "glossary.md").read_text("utf-8") == markdown()
