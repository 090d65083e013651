"""Links between words, spread over tokens."""

import numpy as np
import pytest
import torch
from bench.alignment import aligned_pairs, pharaoh, write_aligned
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.base.errors import DataError
from headway.tasks.translation.batches import collate
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.parallel_corpus import Corpus, prepare
from headway.tasks.translation.random_splits import RandomSplits
from headway.tasks.translation.word_alignment import (
    split_words,
    token_alignment,
    with_links,
    word_of_each_token,
)
from headway.text import TokenizerPair
from headway.text.bpe_dropout import BPEDropout

ROWS = aligned_pairs(30, words=60)
PAIRS = [Pair(s, t, line, links=links) for line, (s, t, links) in enumerate(ROWS, 1)]


@pytest.fixture(scope="module")
def tokenizers():
    return TokenizerPair.train(lambda: ((s, t) for s, t, _ in ROWS), 320, False, ["<2b>"])


def test_each_row_of_the_gold_attention_is_uniform_over_the_tokens_of_the_linked_words():
    links = [(0, 1), (2, 1), (1, 0)]
    source_words, target_words = [None, 0, 0, 1, 2], [0, 1, 1, 2]
    expected = torch.tensor(
        [
            [0, 0, 0, 1, 0],
            [0, 1 / 3, 1 / 3, 0, 1 / 3],
            [0, 1 / 3, 1 / 3, 0, 1 / 3],
            [0, 0, 0, 0, 0],  # no link
        ]
    )
    torch.testing.assert_close(token_alignment(links, source_words, target_words), expected)
    turned = [(t, s) for s, t in links]
    assert not torch.equal(token_alignment(turned, source_words, target_words), expected)
    assert token_alignment([], source_words, []).shape == (0, 5)


@settings(max_examples=150, deadline=None)
@given(text=st.text(alphabet="ab .,'é犬\u00a0\t-1", max_size=30))
def test_every_token_belongs_to_the_word_between_spaces_that_contains_it(tokenizers, text):
    text = text.strip()
    ids = tokenizers.source.encode(text)
    numbers = word_of_each_token(tokenizers.source, ids)
    words = split_words(text)
    assert sorted({n for n in numbers if n is not None}) == list(range(len(words)))
    for number, word in enumerate(words):
        of_word = [i for i, n in zip(ids, numbers, strict=True) if n == number]
        assert tokenizers.source.decode(of_word).strip(" ") == word


def test_a_language_tag_is_no_word(tokenizers):
    plain = tokenizers.source.encode("bado kule")
    numbers = word_of_each_token(tokenizers.source, plain)
    tagged = tokenizers.source.encode("<2b> bado kule")
    assert word_of_each_token(tokenizers.source, tagged) == [None, *numbers]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_batch_has_the_gold_attention_of_its_pairs_in_any_split(tokenizers, tmp_path, dropout):
    corpus = prepare(PAIRS, tokenizers, tmp_path / "c", 200, aligned=True)
    joined = Corpus.joined([corpus, corpus])
    assert pairs_of(joined.links[len(corpus) + 3]) == list(PAIRS[3].links)
    splitters = [BPEDropout(side, dropout) for side in (tokenizers.source, tokenizers.target)]
    splits = RandomSplits(*splitters, 1, 200) if dropout else None
    batch = collate(joined, np.array([3, len(corpus) + 7]), tokenizers, splits, epoch=2).to("cpu")
    assert batch.alignment.shape == (2, batch.target_out.shape[1], batch.source.shape[1])
    for row, pair in enumerate((PAIRS[3], PAIRS[7])):
        of_source = word_of_each_token(tokenizers.source, batch.source[row].tolist())
        of_target = word_of_each_token(tokenizers.target, batch.target_out[row].tolist())
        for t, word in enumerate(of_target):
            linked = [s for s, t_word in pair.links if t_word == word and word is not None]
            tokens = [s for s, number in enumerate(of_source) if number in linked]
            expected = torch.zeros(len(of_source))
            expected[tokens] = 1 / max(1, len(tokens))
            torch.testing.assert_close(batch.alignment[row, t], expected)


def pairs_of(links):
    return list(map(tuple, links.reshape(-1, 2).tolist()))


def test_links_survive_the_disk_and_follow_the_pairs_that_are_kept(tokenizers, tmp_path):
    pairs = [PAIRS[0], Pair("", "x", 2, links=((0, 0),)), Pair("a", "b", 3), PAIRS[1]]
    prepare(pairs, tokenizers, tmp_path / "c", 200, aligned=True)
    corpus = Corpus.open(tmp_path / "c", tokenizers)
    assert [pairs_of(corpus.links[i]) for i in range(3)] == [
        [*PAIRS[0].links],
        [],
        [*PAIRS[1].links],
    ]
    plain = prepare(PAIRS, tokenizers, tmp_path / "d", 200)
    assert plain.links is None and collate(plain, np.array([0]), tokenizers).alignment is None


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (2, "0-0 4-1", "link 4-1 is to source word 4, .* in line 3 has 4 words"),
        (2, "0-5", "link 0-5 is to target word 5, .* has 5 words"),
        (1, "0-0 1:1", "'1:1' is no link"),
        (3, None, "the alignments end after 2 lines, but there are more training pairs"),
        (4, "", "there are 3 training pairs, but the alignments have more lines"),
    ],
)
def test_alignments_that_do_not_fit_the_pairs_are_errors_with_file_and_line(
    tmp_path, line, text, message
):
    pairs = [Pair("a b c d", "e f g h i", number) for number in (2, 3, 4)]
    lines = ["0-0 3-4", "1-2", "2?2"]
    lines = lines[: line - 1] if text is None else [*lines[: line - 1], text, *lines[line:]]
    path = tmp_path / "x.align"
    path.write_text("".join(f"{one}\n" for one in lines))
    with pytest.raises(DataError, match=message) as error:
        list(with_links(pairs, path))
    assert error.value.where == f"{path}:{line}"


def test_alignments_are_read_in_step_with_the_pairs(tmp_path):
    _, path = write_aligned(tmp_path, ROWS)
    plain = [Pair(pair.source, pair.target, pair.line) for pair in PAIRS]
    assert list(with_links(plain, path)) == PAIRS
    assert pharaoh(PAIRS[0].links) == path.read_text().split("\n")[0]
