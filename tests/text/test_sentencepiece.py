"""SentencePiece models are read, and texts are split as by the package."""

import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.base.errors import DataError
from headway.text import PretrainedSentenceTokenizer, PretrainedTokenizer
from headway.text.language_tokens import Roles
from headway.text.sentencepiece import BPE, engine_json, parse_sentencepiece
from tests.fixtures import sentencepiece as written

ODD = [
    "",
    " ",
    "  two   spaces ",
    "\tTab\nline",
    "naïve ＦＵＬＬ ｗｉｄｔｈ ﬁne",
    "日本語 🙂🙂 x",
    "</s> <unk> <s>",
    "a\u00a0b e\u0301a",
    "x" * 40,
    "½ ① ㎏",
]


def split(content, texts):
    engine = PretrainedTokenizer.engine_of(engine_json(parse_sentencepiece(content, "m")), "m")
    return [engine.encode(text, add_special_tokens=False).ids for text in texts]


def trained(**options):
    """Train a model with the package; return its file and the package's tokenizer."""
    package = pytest.importorskip("sentencepiece")
    out = io.BytesIO()
    package.SentencePieceTrainer.train(
        sentence_iterator=iter(written.TEXTS * 5),
        model_writer=out,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return out.getvalue(), package.SentencePieceProcessor(model_proto=out.getvalue())


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("rule", ["nmt_nfkc", "identity", "nmt_nfkc_cf"])
@pytest.mark.parametrize(
    "options", [{}, {"byte_fallback": True}, {"remove_extra_whitespaces": False}]
)
def test_texts_have_the_ids_of_the_package(kind, rule, options):
    size = 330 if options.get("byte_fallback") else 70
    content, theirs = trained(
        vocab_size=size, model_type=kind, normalization_rule_name=rule, **options
    )
    pick = random.Random(0)
    letters = "abdeghilnoprstw ,\u00e4\u00fcZ9"
    texts = [*written.TEXTS[:5], *ODD]
    texts += ["".join(pick.choices(letters, k=pick.randrange(30))) for _ in range(100)]
    assert split(content, texts) == [theirs.encode(text) for text in texts]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("options", [{}, {"add_dummy_prefix": False}, {"byte_fallback": True}])
def test_user_defined_symbols_are_atoms_as_in_the_package(kind, options):
    size = 380 if options.get("byte_fallback") else 120
    symbols = ["<x>", "the", "th", "x>", "\u2581b"]
    content, theirs = trained(
        vocab_size=size, model_type=kind, user_defined_symbols=symbols, **options
    )
    parts = [
        "<x>",
        "the",
        "th",
        " ",
        "  ",
        "a",
        "eat",
        "fox",
        "\u00e9",
        "<",
        ">",
        "theme",
        "\n",
        "b",
    ]
    pick = random.Random(0)
    texts = ["".join(pick.choices(parts, k=pick.randrange(9))) for _ in range(300)]
    assert split(content, texts) == [theirs.encode(text) for text in texts]


SYMBOLS = [
    "foo",
    "oobr",
    "the",
    "th",
    "ABC",
    "\u2460",
    "\uff21",
    "\u00e9",
    "\n",
    "\n\n",
    "x>",
    "\u2581b",
]
PIECES = [
    *SYMBOLS,
    "o",
    "f",
    "a",
    " ",
    "  ",
    "\t",
    "eat",
    "\u0301",
    "e\u0301",
    "E\u0301",
    "\u2461",
    "\u00bd",
]
PIECES += ["\u65e5", "\u2581", "<0x41>", "\u00a0", "\u200b", "abc", "\U0001f642", "bread", "K"]


@pytest.fixture(scope="module")
def with_symbols():
    """Return a model with user-defined symbols: (our engine, the package's), made once."""
    made = {}

    def pair(kind, rule, options):
        key = (kind, rule, *options)
        if key not in made:
            size = 380 if "byte_fallback" in options else 120
            content, theirs = trained(
                vocab_size=size,
                model_type=kind,
                normalization_rule_name=rule,
                user_defined_symbols=SYMBOLS,
                control_symbols=["<c>"],
                **options,
            )
            parsed = engine_json(parse_sentencepiece(content, "m"))
            made[key] = PretrainedTokenizer.engine_of(parsed, "m"), theirs
        return made[key]

    return pair


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf", "identity"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"byte_fallback": True},
        {"add_dummy_prefix": False},
        {"remove_extra_whitespaces": False},
        {"split_digits": True, "split_by_whitespace": False},
    ],
    ids=str,
)
@settings(max_examples=30, deadline=None)
@given(parts=st.lists(st.sampled_from([*PIECES, "<c>", "</s>"]), max_size=9))
def test_no_text_normalises_a_user_defined_symbol_away(kind, rule, options, parts, with_symbols):
    engine, theirs = with_symbols(kind, rule, options)
    text = "".join(parts)
    assert engine.encode(text, add_special_tokens=False).ids == theirs.encode(text)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_user_defined_symbols_are_decoded_as_they_are(kind):
    symbols = ["<x>", "\u2460", "ABC"]
    content, theirs = trained(
        vocab_size=120,
        model_type=kind,
        user_defined_symbols=symbols,
        normalization_rule_name="nmt_nfkc_cf",
    )
    names = list(parse_sentencepiece(content, "m").pieces)
    roles = Roles(pad=1, start=1, end=2, unknown=0, size=len(names))
    tokenizer = PretrainedSentenceTokenizer.of_sentencepiece(content, roles, names, "m")
    for text in ["the <x>", "ABC\u2460the", "\u2460 \u2460", "eat<x>ABC"]:
        ids = tokenizer.encode(text)
        assert ids == theirs.encode(text) and tokenizer.decode(ids) == theirs.decode(ids) == text


@pytest.mark.parametrize("symbol", ["o", "ofo", "\u2460\u2460"])
@pytest.mark.parametrize("excess", [-0.02, 0.02])
def test_a_user_defined_symbol_has_the_score_of_the_package(symbol, excess):
    package = pytest.importorskip("sentencepiece")
    score = 0.1 * (len(symbol.encode()) - 1) - 6 + excess
    pieces = [("<unk>", 0, 2), (symbol, 0, 4), ("\u2581", -6, 1), ("z", -3, 1)]
    content = written.model([*pieces, (f"\u2581{symbol}", score, 1)])
    theirs = package.SentencePieceProcessor(model_proto=content)
    assert split(content, [symbol]) == [theirs.encode(symbol)] == [[4] if excess > 0 else [2, 1]]


def test_a_piece_that_no_merges_make_is_not_found_between_symbols():
    pieces = [("<unk>", 0, 2), ("<x>", 0, 4), *((c, -90 - i, 1) for i, c in enumerate("abcd"))]
    pieces += [("bc", -1, 1), ("ab", -2, 1), ("cd", -3, 1), ("abcd", -4, 1)]
    content = written.model(pieces, kind=BPE, leading=False)
    package = pytest.importorskip("sentencepiece")
    theirs = package.SentencePieceProcessor(model_proto=content)
    texts = ["<x>abcd<x>", "abcd", "<x>bc", "ab<x>cd"]
    assert split(content, texts) == [theirs.encode(text) for text in texts]
    assert split(content, texts)[0] == [1, 2, 6, 5, 1]


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf"])
@pytest.mark.parametrize(
    "text", ["E\u0301e\u0301", "\u2461\u0301", "\uff21\u0301x", "\r\n", "\u0301", "a\u2581"]
)
def test_a_combining_mark_is_kept_as_in_the_package(rule, text):
    content, theirs = trained(
        vocab_size=330,
        byte_fallback=True,
        normalization_rule_name=rule,
        remove_extra_whitespaces=False,
    )
    assert split(content, [text]) == [theirs.encode(text)]


def test_spaces_before_a_line_break_are_kept():
    pieces = [("<unk>", 0, 2), *((piece, -1.0, 1) for piece in ("\u2581", "\n", "a"))]
    assert split(written.model(pieces), [" a \na "]) == [[1, 3, 1, 2, 3]]


def test_a_model_with_spaces_at_the_ends_of_words_is_refused():
    content = written.model(GOOD) + written.field(2, written.field(24, 1))
    with pytest.raises(DataError, match="treat_whitespace_as_suffix=true"):
        parse_sentencepiece(content, "m")


def test_the_pieces_with_the_largest_total_score_are_chosen():
    pieces = [
        ("<unk>", 0, 2),
        ("▁", -3, 1),
        ("a", -2, 1),
        ("b", -2, 1),
        ("ab", -5, 1),
        ("▁a", -4, 1),
    ]
    assert split(written.model(pieces), ["ab"]) == [[5, 3]]  # -6, not -7 or -8
    pieces[4] = ("ab", -2.5, 1)
    assert split(written.model(pieces), ["ab"]) == [[1, 4]]  # -5.5


def test_bpe_merges_in_the_order_of_the_scores():
    pieces = [
        ("<unk>", 0, 2),
        ("a", -9, 1),
        ("b", -9, 1),
        ("c", -9, 1),
        ("ab", -2, 1),
        ("bc", -1, 1),
    ]
    content = written.model(pieces, kind=BPE, leading=False)
    assert split(content, ["abc", "ab"]) == [[1, 5], [4]]


def test_text_that_looks_like_a_special_token_is_not_one():
    pieces = [*written.unigram_pieces(), *((letter, -9.0, 1) for letter in "</>")]
    (ids,) = split(written.model(pieces), ["</s>"])
    assert not {1, 2} & set(ids)


def test_the_settings_of_a_model_are_read():
    content = written.model(
        [("<unk>", 0, 2), ("a", -1.5, 1)],
        byte_fallback=True,
        charsmap=b"x",
        leading=False,
        joins=False,
    )
    parsed = parse_sentencepiece(content, "m")
    assert parsed.pieces == ("<unk>", "a") and parsed.scores == (0.0, -1.5)
    assert (parsed.byte_fallback, parsed.charsmap) == (True, b"x")
    assert not (parsed.leading_space or parsed.joins_spaces)


def test_an_unknown_token_at_the_start_is_decoded_with_its_spaces():
    pieces = [("<unk>", 0, 2), ("</s>", 0, 3), ("\u2581", -1, 1), ("c", -1, 1), ("\u2581c", -1, 1)]
    names = [piece for piece, _, _ in pieces]
    roles = Roles(pad=1, start=1, end=1, unknown=0, size=5)
    content = written.model(pieces)
    tokenizer = PretrainedSentenceTokenizer.of_sentencepiece(content, roles, names, "m")
    decoded = {(0, 3): " \u2047 c", (2, 0, 3): " \u2047 c", (4, 4): "c c", (): ""}
    assert {ids: tokenizer.decode(ids) for ids in decoded} == decoded


GOOD = [("<unk>", 0, 2), ("a", -1, 1)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found 0"),
        (b"\x00\xff\xfe nothing", "no protobuf field"),
        (written.model(GOOD)[:7], "no protobuf field"),
        (b"\xff" * 40, "no protobuf field"),
        (written.field(1, written.field(1, b"a")) + b"\x0b", "no protobuf field"),
        (written.model([*GOOD, ("<u>", 0, 2)]), "found 2"),
        (written.model([*GOOD, ("a", -3, 1)]), "'a' occurs twice"),
        (written.model([*GOOD, ("", -3, 1)]), "token 2 has 0 characters"),
        (written.model([*GOOD, ("x" * 5000, -3, 1)]), "5,000 characters"),
        (written.model([*GOOD, ("b", float("nan"), 1)]), "score nan"),
        (written.model([*GOOD, ("b", -1, 9)]), "type 9"),
        (written.model(GOOD, kind=3), "of kind 3"),
        (written.field(1, written.field(1, b"\xff\xfe")), "not UTF-8"),
    ],
)
def test_a_damaged_model_is_refused_with_its_name(content, message):
    with pytest.raises(DataError, match=message) as raised:
        parse_sentencepiece(content, "some.spm")
    assert raised.value.where == "some.spm"


def test_a_charsmap_that_is_no_table_is_refused():
    content = written.model(GOOD, charsmap=b"\xff" * 9)
    with pytest.raises(DataError, match="cannot be loaded"):
        split(content, ["a"])


def test_whatever_is_cut_off_or_changed_a_model_is_read_or_refused():
    good, pick = written.model(written.unigram_pieces()), random.Random(1)
    for _ in range(300):
        content = bytearray(good[: pick.randrange(len(good))] if pick.random() < 0.3 else good)
        for _ in range(pick.randrange(4)):
            if content:
                content[pick.randrange(len(content))] = pick.randrange(256)
        try:
            split(bytes(content), ["the fox"])
        except DataError as error:
            assert error.where == "m"
