"""Tagged sentences: their files, their spans, and token sequences with a target at each word."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.base.errors import DataError, UsageError
from headway.data.word_targets import WordTargets, word_sequences
from headway.tasks.tagging.spans import WordSpan, are_span_tags, spans_of
from headway.tasks.tagging.tag_files import read_tagged
from headway.text import EncoderTokenizer

CORPUS = ["the old baker sees a fox", "Zoë and Ada walk on", "unhappily walking walkers"] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return EncoderTokenizer.train(CORPUS, 120)


def read(path, column=None):
    return [(list(x.words), list(x.tags), x.where) for x in read_tagged([Path(path)], column)]


# --- files -------------------------------------------------------------------------------------


def test_columns_and_json_lines_contain_the_same_sentences(tmp_path):
    rows = [(["#", "Ada"], ["O", "B-p"]), (["is", "in", "it"], ["O", "O", "B-l"])]
    files = {
        "a.conll": "\n#\tO\nAda\tB-p\n\n\nis\tO\nin\tO\nit\tB-l\n",
        "b.txt": "-DOCSTART- -X- O\n\n# x O\nAda y B-p\n\nis x O\nin x O\nit x B-l",
        "c.jsonl": "".join(json.dumps({"words": w, "tags": t}) + "\n\n" for w, t in rows),
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        assert [x[:2] for x in read(tmp_path / name)] == rows, name
    with gzip.open(tmp_path / "a.conll.gz", "wt") as file:
        file.write(files["a.conll"].replace("\n", "\r\n"))
    assert [x[:2] for x in read(tmp_path / "a.conll.gz")] == rows
    assert [x[2].split(":")[-1] for x in read(tmp_path / "a.conll")] == ["2", "6"]
    assert read(tmp_path / "b.txt", "2")[0][1] == ["x", "y"]


@pytest.mark.parametrize("comment", ["# id 0 domain=en", "# id 0\tdomain=en", "#text=Ada", "#"])
def test_a_line_with_a_hash_before_a_sentence_is_a_comment(tmp_path, comment):
    rows = "Ada _ _ B-PER\nwalks _ _ O\n"
    (tmp_path / "a.conll").write_text(f"{comment}\n# more\n{rows}\n{comment}\n{rows}")
    assert [x[:2] for x in read(tmp_path / "a.conll")] == [(["Ada", "walks"], ["B-PER", "O"])] * 2
    assert read(tmp_path / "a.conll")[1][2].endswith(":7")


def test_a_hash_with_the_tag_of_a_word_is_a_word(tmp_path):
    (tmp_path / "a.conll").write_text("# O\n#1 B-x\nAda B-x\n# SYM\n\n#tag O\n# SYM\nis O\n")
    words = [x[0] for x in read(tmp_path / "a.conll")]
    assert words == [["#", "#1", "Ada", "#"], ["#tag", "#", "is"]]


def test_a_comment_inside_a_sentence_is_refused_by_its_line(tmp_path):
    (tmp_path / "a.conll").write_text("# id\nAda _ O\n# a comment of many words\nwalks _ O\n")
    with pytest.raises(DataError, match=r"6 columns, but line 2(.|\n)*a.conll:3"):
        read(tmp_path / "a.conll")


def test_only_spaces_and_tabs_separate_columns(tmp_path):
    words = ["10\u00a0000", "東\u3000京", "a\u2009b", "\u00a0"]
    for separator in (" ", "   ", "\t"):
        (tmp_path / "a.conll").write_text("".join(f"{word}{separator}O\n" for word in words))
        assert read(tmp_path / "a.conll")[0][0] == words


@pytest.mark.parametrize("name", ["a.conllu", "a.conll", "a.txt"])
def test_conll_u_is_read_as_syntactic_words_with_the_selected_column(tmp_path, name):
    def line(number, form, upos, xpos):
        return "\t".join([number, form, form, upos, xpos, *"_" * 5]) + "\n"

    (tmp_path / name).write_text(
        "# text = Don't go\n"
        + line("1-2", "Don't", "_", "_")
        + line("1", "Do", "AUX", "VB")
        + line("2", "n't", "PART", "RB")
        + line("2.1", "left", "VERB", "VBN")
        + line("3", "go", "VERB", "VB")
    )
    (sentence,) = read(tmp_path / name)
    assert sentence == (["Do", "n't", "go"], ["AUX", "PART", "VERB"], f"{tmp_path / name}:3")
    assert read(tmp_path / name, "xpos")[0][1] == ["VB", "RB", "VB"]
    assert read(tmp_path / name, "5") == read(tmp_path / name, "XPOS")


def test_ten_columns_without_ids_are_not_conll_u(tmp_path):
    (tmp_path / "a.conll").write_text("\t".join(["fox", *"_" * 8, "NOUN"]) + "\n")
    assert read(tmp_path / "a.conll")[0][:2] == (["fox"], ["NOUN"])


@pytest.mark.parametrize(
    ("name", "content", "column", "kind", "part"),
    [
        (
            "a.conll",
            "a\tO\nb\tx\tO\n",
            None,
            DataError,
            r"3 columns, but line 1, the first with a word, has 2: 'b x O'(.|\n)*a.conll:2",
        ),
        ("a.conll", "a O\n\nb\n", None, DataError, r"1 columns(.|\n)*a.conll:3"),
        (
            "a.conll",
            "a\nb\n",
            None,
            DataError,
            r"at least 2 columns, a word and its tag, but it has 1\n.*a.conll:1",
        ),
        ("a.conll", "a\tO\nb\t\n", None, DataError, r"the tag is empty\n.*a.conll:2"),
        ("a.conll", "a\tO\n\tO\n", None, DataError, r"the word is empty\n.*a.conll:2"),
        ("a.conll", "a\tO\n", "3", UsageError, r"no column 3(.|\n)*a.conll:1"),
        ("a.conll", "a\tO\n", "upos", UsageError, "a number from 1"),
        ("a.conll", "a\tO\n", "0", UsageError, "a number from 1"),
        ("a.conllu", "1\ta\n", "tag", UsageError, "upos"),
        ("a.jsonl", '{"words": ["a"], "tags": ["O", "O"]}', None, DataError, "1 words, but 2 tags"),
        ("a.jsonl", '{"words": [], "tags": []}', None, DataError, r"no words\n.*a.jsonl:1"),
        (
            "a.jsonl",
            '\n{"words": ["a"]}',
            None,
            DataError,
            r"'tags' is missing; there are 'words'(.|\n)*a.jsonl:2",
        ),
        (
            "a.jsonl",
            '{"words": "ab", "tags": ["O"]}',
            None,
            DataError,
            "'words' is 'ab', but must be a list",
        ),
        ("a.jsonl", '{"words": [" "], "tags": ["O"]}', None, DataError, "an entry of 'words'"),
        (
            "a.jsonl",
            '{"words": ["a"], "tags": ["O"]}',
            "pos",
            DataError,
            "'pos' is missing; there are 'words', 'tags'",
        ),
        ("a.jsonl", "[1]", None, DataError, "must be a JSON object"),
        ("a.jsonl", "{", None, DataError, r"JSON(.|\n)*a.jsonl:1"),
        ("a.csv", "a,O", None, UsageError, r".conll, .conllu"),
    ],
)
def test_ragged_sentences_are_refused_with_their_line(tmp_path, name, content, column, kind, part):
    (tmp_path / name).write_text(content)
    with pytest.raises(kind, match=part):
        read(tmp_path / name, column)


# --- spans -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", []),
        ("B-x I-x O", [(0, 2, "x")]),
        ("B-x B-x I-x", [(0, 1, "x"), (1, 3, "x")]),  # two adjacent ones
        ("B-x I-y I-y", [(0, 1, "x"), (1, 3, "y")]),  # another label starts another span
        ("O I-x I-x O I-x", [(1, 3, "x"), (4, 5, "x")]),  # no B, as in IOB1
        ("B-x O I-x", [(0, 1, "x"), (2, 3, "x")]),
        ("O B-x", [(1, 2, "x")]),  # at the end
        ("S-x S-x B-x I-x E-x I-x", [(0, 1, "x"), (1, 2, "x"), (2, 5, "x"), (5, 6, "x")]),
        ("U-x B-y L-y", [(0, 1, "x"), (1, 3, "y")]),
        ("B-creative-work I-creative-work", [(0, 2, "creative-work")]),
    ],
)
def test_spans_are_those_of_the_conll_program(tags, expected):
    assert spans_of(tags.split()) == [WordSpan(*span) for span in expected]


@given(st.lists(st.sampled_from(["O", "B-x", "I-x", "B-y", "I-y"]), max_size=9))
def test_every_tagged_word_is_in_one_span_of_its_label(tags):
    label = {position: s.label for s in spans_of(tags) for position in range(s.start, s.end)}
    assert label == {position: tag[2:] for position, tag in enumerate(tags) if tag != "O"}
    assert sum(s.end - s.start for s in spans_of(tags)) == len(label)


def test_tags_of_spans_are_distinguished_from_parts_of_speech():
    assert are_span_tags(["O", "B-x", "I-x"]) and are_span_tags(["S-x"])
    assert (
        not are_span_tags(["O"])
        and not are_span_tags(["NOUN", "O"])
        and not are_span_tags(["B-", "O"])
    )


# --- sequences ---------------------------------------------------------------------------------


def test_the_first_token_of_each_word_has_its_tag(tokenizer):
    words = ["the", "bakers", "unwalk"]
    ids, word_indices = tokenizer.encode_words(words)
    assert len(ids) > len(words)
    ((row,),) = word_sequences(tokenizer, [words], 40)
    assert list(row.ids) == [tokenizer.special_tokens.start, *ids, tokenizer.special_tokens.end]
    assert list(row.firsts) == [1 + word_indices.index(i) for i in range(3)]
    batch = WordTargets([row, row], [[5, 6, 7], [7, 6, 5]]).batch(
        [0, 1], tokenizer.special_tokens.pad
    )
    assert batch.words.nonzero()[:, 1].tolist() == [*row.firsts, *row.firsts]
    assert batch.targets.tolist() == [5, 6, 7, 7, 6, 5]
    assert batch.texts.types is None


def test_long_sentences_are_cut_between_words_and_no_word_is_lost(tokenizer):
    sentences = [["the", "old", "baker"] * 7, ["unhappily"] * 3, ["a"]]
    whole = word_sequences(tokenizer, sentences, 500)
    assert all(len(rows) == 1 for rows in whole)
    cut = word_sequences(tokenizer, sentences, 9)
    assert len(cut[0]) > 1 and len(cut[2]) == 1
    for (uncut,), rows, words in zip(whole, cut, sentences, strict=True):
        assert all(len(row.ids) <= 9 for row in rows)
        assert sum(len(row.firsts) for row in rows) == len(words)
        assert [i for row in rows for i in row.ids[1:-1]] == list(uncut.ids[1:-1])
    lengths = [len(row.ids) for row in cut[0][:-1]]
    assert min(lengths) > 9 - max(len(tokenizer.encode(word)) for word in sentences[0])


def test_words_without_tokens_and_words_too_long_keep_their_position(tokenizer):
    words = ["a", "\u200b", "unhappily" * 5, "fox"]
    assert tokenizer.encode("\u200b") == []
    rows = word_sequences(tokenizer, [words], 8)[0]
    assert sum(len(row.firsts) for row in rows) == 4 and all(len(row.ids) <= 8 for row in rows)
    assert rows[0].ids[rows[0].firsts[1]] == tokenizer.special_tokens.mask
    assert word_sequences(tokenizer, [[]], 8) == [[]]
