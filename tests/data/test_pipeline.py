"""Shards, buckets and batches: from pairs to tensors and back."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.base.errors import DataError, HeadwayError
from headway.data.stream import ByTokens
from headway.tasks.translation.batches import collate, collate_sources
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.parallel_corpus import Corpus, prepare
from headway.text import PretrainedSentenceTokenizer, TokenizerPair
from headway.text.language_tokens import Roles
from tests.fixtures import sentencepiece as written
from tests.fixtures.manifests import reseal

SENTENCES = [
    ("The old baker waves.", "Der alte Bäcker winkt."),
    ("Bread!", "Brot!"),
    ("A fox sleeps under the red tree.", "Ein Fuchs schläft unter dem roten Baum."),
]


def pairs() -> Iterator[Pair]:
    return (Pair(*SENTENCES[i % 3], line=i + 1) for i in range(30))


TOKENIZERS = TokenizerPair.train(lambda: iter(SENTENCES), 300, joint=False)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return prepare(pairs(), TOKENIZERS, tmp_path / "shards", max_length=100)


def test_shards_hold_the_pairs_in_order(corpus: Corpus) -> None:
    assert len(corpus) == 30
    for i in range(30):
        assert TOKENIZERS.source.decode(corpus.source[i].tolist()) == SENTENCES[i % 3][0]
        assert TOKENIZERS.target.decode(corpus.target[i].tolist()) == SENTENCES[i % 3][1]
        assert corpus.target.lengths[i] == len(corpus.target[i])
    assert corpus.source.lengths.dtype == np.int32
    assert isinstance(corpus.source.parts[0][0].base, np.memmap)


def test_empty_and_long_pairs_are_left_out_and_counted(tmp_path: Path) -> None:
    odd = [Pair("", "x", 1), Pair("x", "", 2), Pair("word " * 60, "x", 3), Pair("a", "b", 4)]
    indices: list[int] = []
    corpus = prepare(odd, TOKENIZERS, tmp_path / "shards", 50, indices.append)
    assert len(corpus) == 1
    assert corpus.skipped == {"empty": 2, "too long": 1}
    assert indices[-1] == 4


def test_pairs_with_a_side_without_tokens_are_left_out_and_counted_as_empty(
    tmp_path: Path,
) -> None:
    content = written.model(written.unigram_pieces())
    roles = Roles(pad=1, start=1, end=2, unknown=0, size=len(written.unigram_pieces()))
    names = tuple(map(str, range(roles.size)))
    side = PretrainedSentenceTokenizer.of_sentencepiece(content, roles, names, "m")
    blank = " "  # has characters, but no tokens, as U+200B has none in many models
    assert side.encode(blank) == []
    odd = [Pair(blank, "the fox", 1), Pair("the fox", "the dog", 2), Pair("the fox", blank, 3)]
    corpus = prepare(odd, TokenizerPair(side, side), tmp_path / "shards", 50)
    assert len(corpus) == 1 and corpus.skipped == {"empty": 2, "too long": 0}


def test_a_corpus_without_a_usable_pair_is_an_error_and_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        prepare([Pair("", "", 1)], TOKENIZERS, tmp_path / "shards", 50)
    assert list(tmp_path.iterdir()) == []


def test_shards_of_another_tokenizer_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    corpus = prepare(pairs(), TOKENIZERS, folder, max_length=100)
    other_tokenizers = TokenizerPair.train(lambda: iter(SENTENCES[:1]), 270, joint=True)
    with pytest.raises(DataError) as caught:
        Corpus.open(folder, other_tokenizers)
    assert other_tokenizers.fingerprint[:12] in str(caught.value)
    assert TOKENIZERS.fingerprint[:12] in str(caught.value)
    (folder / "target.bin").write_bytes(b"\xff" * 2 * int(corpus.target.lengths.sum()))
    reseal(folder)
    with pytest.raises(DataError, match="numbers must be from 0 to"):
        Corpus.open(folder, TOKENIZERS)


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80)


@given(LENGTHS, st.integers(31, 200), st.integers(1, 100), st.integers(0, 3))
def test_every_index_occurs_once_and_no_batch_exceeds_the_budget(
    lengths: list[tuple[int, int]], tokens: int, pool: int, epoch: int
) -> None:
    source, target = np.array(lengths, dtype=np.int32).T
    order = ByTokens(source, target, tokens, seed=5, pool=pool)
    batches = order(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        longest = max(int(source[batch].max()), int(target[batch].max())) + 1
        assert 0 < len(batch) * longest <= tokens
    assert 0 <= order.padding(batches) < 1


def test_a_pair_above_the_budget_is_refused_with_both_numbers() -> None:
    with pytest.raises(HeadwayError, match="51") as caught:
        ByTokens(np.array([3, 50]), np.array([4, 5]), tokens=40, seed=0)
    assert "40" in str(caught.value)


def test_a_batch_has_its_special_tokens_and_padding_at_the_right_positions(corpus: Corpus) -> None:
    batch = collate(corpus, np.array([0, 1]), TOKENIZERS)
    source, target = TOKENIZERS.source, TOKENIZERS.target
    assert batch.source_keys is not None
    for row in (0, 1):
        s, t = corpus.source[row].tolist(), corpus.target[row].tolist()
        assert batch.source[row][batch.source_keys[row]].tolist() == [*s, source.eos]
        assert (batch.source[row][~batch.source_keys[row]] == source.pad).all()
        assert batch.target_in[row, : len(t) + 1].tolist() == [target.bos, *t]
        assert batch.target_out[row, : len(t) + 1].tolist() == [*t, target.eos]
        assert (batch.target_out[row, len(t) + 1 :] == target.pad).all()
    assert batch.indices == (0, 1)
    assert batch.source.dtype == torch.int64
    assert torch.equal(batch.to("cpu").target_in, batch.target_in)


def test_keys_are_none_when_nothing_is_padded(corpus: Corpus) -> None:
    assert collate(corpus, np.array([0, 3]), TOKENIZERS).source_keys is None
    tokens, keys = collate_sources([[5, 6], []], TOKENIZERS.source)
    assert keys is not None
    assert keys.tolist() == [[True, True, True], [True, False, False]]
    assert tokens[1, 0] == TOKENIZERS.source.eos
