"""Word corpora: context windows, subsampling and negative samples."""

import gzip
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from headway.base.errors import DataError, UsageError
from headway.base.ranks import Ranks
from headway.data.rows import read_texts
from headway.data.stream import Batches
from headway.tasks.word_vectors.context_windows import BLOCK, ContextWindowSettings, Windows
from headway.tasks.word_vectors.data import (
    WordCorpus,
    keep_probability,
    prepare_words,
    subsampled,
    uniform,
)
from headway.text import Vocabulary
from tests.fixtures.manifests import reseal

SENTENCES = ["a b c d e f", "", "g", "a x b c", "d a"]


@pytest.fixture
def text(tmp_path):
    vocabulary = Vocabulary(list("abcdefg"), [3, 2, 2, 2, 1, 1, 1])
    return prepare_words(SENTENCES, vocabulary, tmp_path / "text"), vocabulary


def windows(text, **changes) -> Batches:
    corpus, vocabulary = text
    settings = {"kind": "skip-gram", "batch_size": 4, "window": 2, **changes}
    order = Windows(corpus, vocabulary.counts, ContextWindowSettings(**settings))
    return Batches(order, order.batch)


def one_epoch(word_windows: Batches, epoch: int = 0) -> list:
    result = []
    for following, _, batch in word_windows.stream(epoch, 0):
        result.append(batch)
        if following > epoch:
            return result


def pairs(word_windows: Batches, epoch: int = 0) -> list[tuple[str, str]]:
    """Return the pairs (word, context word) of a skip-gram epoch, as letters."""
    result = []
    for batch in one_epoch(word_windows, epoch):
        centres = batch.words[batch.owner]
        both = zip(centres.tolist(), batch.targets.tolist(), strict=True)
        result += [(" abcdefg"[c], " abcdefg"[t]) for c, t in both]
    return sorted(result)


def test_a_text_is_its_known_words_with_borders_between_sentences(text):
    corpus, _ = text
    assert "".join(" abcdefg"[i] for i in corpus.ids) == " abcdef g abc da "
    assert (corpus.words, corpus.unknown, corpus.has_neighbours) == (12, 1, True)


def test_a_corpus_is_opened_only_with_its_vocabulary_and_undamaged(text, tmp_path):
    corpus, vocabulary = text
    reopened = WordCorpus.open(tmp_path / "text", vocabulary)
    assert np.array_equal(reopened.ids, corpus.ids)
    with pytest.raises(DataError, match="another vocabulary"):
        WordCorpus.open(tmp_path / "text", Vocabulary(["a"], [1]))
    ids = tmp_path / "text" / "ids.bin"
    ids.write_bytes(ids.read_bytes()[:-4] + b"\x09\0\0\0")
    reseal(tmp_path / "text")
    with pytest.raises(DataError, match="the numbers must be from 0 to"):
        WordCorpus.open(tmp_path / "text", vocabulary)


def test_context_words_are_within_the_window_in_the_same_sentence(text):
    near = pairs(windows(text, window=1))
    sentences = ["abcdef", "abc", "da"]
    expected = [(s[i], s[i + d]) for s in sentences for i in range(len(s)) for d in (-1, 1)
                if 0 <= i + d < len(s)]  # fmt: skip
    assert near == sorted(expected)
    allowed = {(s[i], s[j]) for s in sentences for i in range(len(s)) for j in range(len(s))
               if 0 < abs(i - j) <= 2}  # fmt: skip
    pairs_of_epochs = {pair for epoch in range(30) for pair in pairs(windows(text), epoch)}
    assert pairs_of_epochs == allowed


def test_the_window_size_is_sampled_uniformly(text):
    """A context word at distance d of window w is used with probability (w - d + 1) / w."""
    word_windows, epochs = windows(text, window=3), 900
    result = [pair for epoch in range(epochs) for pair in pairs(word_windows, epoch)]
    for neighbour, expected in (("e", 1.0), ("d", 2 / 3), ("c", 1 / 3)):
        fraction = result.count(("f", neighbour)) / epochs
        assert fraction == pytest.approx(expected, abs=4 * (1 / 4 / epochs) ** 0.5)


def test_cbow_reverses_each_pair(text):
    word_windows = windows(text, kind="cbow", window=1)
    result = []
    for batch in one_epoch(word_windows):
        assert batch.owner.tolist() == list(range(len(batch.starts)))
        ends = [*batch.starts.tolist()[1:], len(batch.words)]
        for start, end, target in zip(batch.starts.tolist(), ends, batch.targets, strict=True):
            assert end > start
            result += [(" abcdefg"[target], " abcdefg"[w]) for w in batch.words[start:end]]
    assert sorted(result) == pairs(windows(text, window=1))


def test_next_words_are_all_words_with_the_borders_around_them(text):
    result = []
    for batch in one_epoch(windows(text, kind="next-word", subsample=1e-9)):
        both = zip(batch.words.tolist(), batch.targets.tolist(), strict=True)
        result += [" abcdefg"[a] + " abcdefg"[b] for a, b in both]
    whole = " abcdef g abc da "
    assert sorted(result) == sorted(whole[i : i + 2] for i in range(len(whole) - 1))


@pytest.mark.parametrize("kind", ["skip-gram", "cbow", "next-word"])
def test_a_stream_started_in_the_middle_continues_the_same(text, kind):
    word_windows = windows(text, kind=kind, subsample=0.05, seed=3)
    stream = word_windows.stream(0, 0)
    read = [next(stream) for _ in range(12)]
    for k in range(11):
        epoch, position, _ = read[k]
        second_stream = windows(text, kind=kind, subsample=0.05, seed=3).stream(epoch, position)
        resumed, expected = next(second_stream), read[k + 1]
        assert resumed[:2] == expected[:2]
        for name in ("words", "starts", "targets", "owner", "sampled"):
            assert getattr(resumed[2], name).equal(getattr(expected[2], name))
    assert any(not a[2].words.equal(b[2].words) for a, b in zip(read, read[3:], strict=False))


def test_subsampling_keeps_each_word_with_the_probability_of_the_formula():
    counts = np.array([0, 700_000, 290_000, 10_000], np.float64)
    keep = keep_probability(counts, 0.03)
    assert keep.tolist() == pytest.approx([1, (0.03 / 0.7) ** 0.5, (0.03 / 0.29) ** 0.5, 1])
    assert keep_probability(counts, 0.0).tolist() == [1, 1, 1, 1]
    ids = np.repeat(np.arange(4, dtype=np.int32), [500, 400_000, 400_000, 3_000_000])
    kept_counts = np.bincount(subsampled(ids, keep, 5))
    for word in range(4):
        total = int((ids == word).sum())
        sigma = (total * keep[word] * (1 - keep[word])) ** 0.5
        assert abs(kept_counts[word] - total * keep[word]) <= 4 * sigma
    other_seed = subsampled(ids, keep, 6)
    assert len(other_seed) != len(subsampled(ids, keep, 5)) or not np.array_equal(
        other_seed, subsampled(ids, keep, 5)
    )


def test_random_numbers_are_uniform_and_depend_on_their_position():
    positions = np.arange(200_000, dtype=np.uint64)
    numbers = uniform(7, positions)
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 50  # chi square of 19 degrees
    assert np.array_equal(uniform(7, positions[500:900]), numbers[500:900])
    assert abs(np.corrcoef(numbers, uniform(8, positions))[0, 1]) < 0.02


def test_negative_samples_have_the_distribution_of_counts_to_the_three_quarters(text):
    order = windows(text, batch_size=500).order
    samples = np.concatenate([order._noise(50, epoch, 3).ravel() for epoch in range(100)])
    weights = np.array(order.counts) ** 0.75
    expected = weights / weights.sum()
    result = np.bincount(samples, minlength=8) / len(samples)
    assert result[0] == 0  # the border is not a word
    assert result == pytest.approx(expected, abs=4 * (0.25 / len(samples)) ** 0.5)
    (batch,) = one_epoch(windows(text, batch_size=500))
    assert batch.sampled.shape == (1, BLOCK)


def test_texts_are_lines_of_files_or_columns_of_tables(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\tcells\n")
    table = "en\tde\none\teins\n\ntwo\tzwei\n"
    with gzip.open(tmp_path / "b.tsv.gz", "wt") as file:
        file.write(table)
    both = [tmp_path / "a.txt", tmp_path / "b.tsv.gz"]
    assert list(read_texts(both, "de")) == ["one", "two\tcells", "eins", "", "zwei"]
    assert list(read_texts(both[1:], "1")) == ["one", "", "two"]
    with pytest.raises(UsageError, match="2 columns"):
        list(read_texts(both))
    with pytest.raises(UsageError, match="'fr'"):
        list(read_texts(both, "fr"))
    (tmp_path / "short.tsv").write_text("a\tb\nc\n")
    with pytest.raises(DataError, match="at least 2 columns, but has 1"):
        list(read_texts([tmp_path / "short.tsv"], "2"))


@pytest.mark.parametrize("kind", ["skip-gram", "cbow", "next-word"])
def test_the_parts_of_processes_are_the_batch_with_its_negative_samples(kind, tmp_path):
    vocabulary = Vocabulary(list("abcdefg"), [3, 2, 2, 2, 1, 1, 1])
    corpus = prepare_words(SENTENCES * 60, vocabulary, tmp_path / "text")
    whole = windows((corpus, vocabulary), kind=kind, seed=3, batch_size=300)

    def terms(batch):
        """Return each (bag, target, negative samples) of a batch, with its number of times."""
        ends = [*batch.starts[1:].tolist(), len(batch.words)]
        bags = [batch.words[a:b].tolist() for a, b in zip(batch.starts.tolist(), ends, strict=True)]
        has_samples = len(batch.sampled)
        return Counter(
            (
                tuple(bags[owner]),
                target,
                tuple(batch.sampled[owner // BLOCK].tolist()) if has_samples else (),
            )
            for target, owner in zip(batch.targets.tolist(), batch.owner.tolist(), strict=True)
        )

    for size in (2, 7):
        parts = [islice(whole.shared(Ranks(rank, size), 0, 0), 4) for rank in range(size)]
        for (*place, batch), *of_ranks in zip(islice(whole.stream(0, 0), 4), *parts, strict=True):
            assert all(place == list(own[:2]) for own in of_ranks)
            own = [terms(part) for *_, part in of_ranks if part is not None]
            assert sum(own, Counter()) == terms(batch)
