"""In a prompt, special tokens are those that the template wrote, not those that a user spelled."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.chat_tokenizers import KINDS, SPECIALS, UNIGRAM, Pairs


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return Pairs(tmp_path_factory.mktemp("chat"), bos_token="<s>", eos_token="</s>")


PIECES = [
    *SPECIALS,
    " ",
    "  ",
    "\n",
    "the",
    "fox",
    " a dog",
    "Zürich",
    "é",
    "日本",
    "[",
    "<s",
    "/s>",
    "I",
]
pieces = st.lists(
    st.one_of(st.sampled_from(PIECES), st.text(string.printable + "\ue000\ue001", max_size=4)),
    max_size=6,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(written=pieces, user=pieces, after=pieces)
def test_what_a_user_wrote_is_text_and_all_else_is_as_in_transformers(
    kind, written, user, after, pairs
):
    ours, reference = pairs.by_kind[kind]
    first, text, last = "".join(written), "".join(user), "".join(after)
    whole = f"{first}{text}{last}"
    assert (
        ours.encode_with_special_tokens(whole)
        == reference(whole, add_special_tokens=False).input_ids
    )
    # all of it is the user's: as in transformers with split_special_tokens, which a Unigram model
    # finds in its vocabulary nevertheless
    alone = ours.encode_with_special_tokens(text, [(0, len(text))])
    expected = reference(text, add_special_tokens=False, split_special_tokens=True).input_ids
    assert not _specials(alone)
    assert alone == expected or (kind in UNIGRAM and any(token in text for token in SPECIALS))
    ids = ours.encode_with_special_tokens(whole, [(len(first), len(first) + len(text))])
    if _spans_none(first, text, last):
        assert ids == ours.encode_with_special_tokens(whole)
    if kind != "stripping":
        assert _specials(ids) == [i for t in (first, last) for i in _specials_in(ours, t)]


def _specials(ids):
    return [i for i in ids if 0 < i < len(SPECIALS)]


def _specials_in(tokenizer, text):
    return _specials(tokenizer.encode_with_special_tokens(text))


def _spans_none(first, text, last):
    """Whether no special token is in the user's text or across one of its ends."""
    whole = first + text + last
    return all(whole.count(t) == first.count(t) + last.count(t) for t in SPECIALS)
