"""BPE-dropout: other splits of the same text, and the same ones for a resumed run."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from headway.tasks.translation.batches import collate
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.parallel_corpus import prepare
from headway.tasks.translation.random_splits import RandomSplits
from headway.text import Tokenizer, TokenizerPair
from headway.text.bpe_dropout import BPEDropout
from tests.fixtures.command_line import sentences

TEXTS = [text for pair in sentences() for text in pair]
ODD = ["naïve café 1234!", "don't  stop", "犬 and 🦊", "a", "the the the", "x" * 50, "tab\there"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(iter(TEXTS), 420)


def test_without_dropout_the_tokens_are_those_of_the_tokenizer(tokenizer):
    plain = BPEDropout(tokenizer, 0.0)
    for text in [*TEXTS[:100], *ODD]:
        assert plain.encode(text, Random(0)) == tokenizer.encode(text)


@pytest.mark.parametrize("probability", [0.1, 0.5, 1.0])
def test_every_split_is_the_same_text(tokenizer, probability):
    dropout, random = BPEDropout(tokenizer, probability), Random(1)
    for text in [*TEXTS[:40], *ODD]:
        ids = dropout.encode(text, random)
        assert tokenizer.decode(ids) == text
        assert dropout.again(tokenizer.encode(text), Random(2)) == dropout.encode(text, Random(2))
        if probability == 1:
            assert len(ids) == len((" " + text).encode())


def test_splits_have_the_probabilities_of_the_algorithm():
    """The word abc with the merges a+b, b+c and ab+c, in this order."""

    class Three(Tokenizer):
        def __init__(self):
            self.special_ids = {}  # without an engine

        def merges(self):
            return [("a", "b"), ("b", "c"), ("ab", "c")]

        def ids_by_letters(self):
            return {token: i for i, token in enumerate(["a", "b", "c", "ab", "bc", "abc"])}

        def words_in_letters(self, text):
            return [text]

    p, draws, random = 0.3, 20_000, Random(3)
    counts = Counter(tuple(BPEDropout(Three(), p).encode("abc", random)) for _ in range(draws))
    # first step: ab with 1 - p, else bc with 1 - p, else nothing; after ab: abc with 1 - p
    expected = {(5,): (1 - p) ** 2, (3, 2): (1 - p) * p, (0, 4): p * (1 - p), (0, 1, 2): p * p}
    assert set(counts) == set(expected)
    for split, probability in expected.items():
        assert counts[split] / draws == pytest.approx(probability, abs=0.015)


def test_a_batch_is_split_anew_in_each_epoch_and_alike_after_a_resume(tmp_path):
    pairs = [Pair(source, target, i) for i, (source, target) in enumerate(sentences()[:12])]
    tokenizers = TokenizerPair.train(lambda: ((p.source, p.target) for p in pairs), 420, True)
    corpus = prepare(pairs, tokenizers, tmp_path / "corpus", 100)
    chosen = np.array([3, 7, 0])

    def batch(epoch, seed=5, longest=100):
        dropout = BPEDropout(tokenizers.source, 0.3)
        splits = RandomSplits(dropout, dropout, seed, longest)
        return collate(corpus, chosen, tokenizers, splits, epoch)

    first = batch(0)
    assert first.source.equal(batch(0).source) and first.target_in.equal(batch(0).target_in)
    assert not any(first.source.equal(other.source) for other in (batch(1), batch(0, seed=6)))
    for row, i in zip(first.target_out.tolist(), chosen, strict=True):
        assert tokenizers.target.decode(row) == pairs[i].target
    plain = collate(corpus, chosen, tokenizers)
    assert batch(0, longest=1).source.equal(plain.source)
    with pytest.raises(ValueError, match="between 0 and 1"):
        BPEDropout(tokenizers.source, 1.5)
