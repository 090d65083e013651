"""Unigram tokenizers: learned by EM, encoded by Viterbi, sampled in training."""

import itertools
import json
import math
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers, trainers

from headway.base.errors import DataError
from headway.tasks.translation.batches import collate
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.parallel_corpus import prepare
from headway.tasks.translation.random_splits import RandomSplits
from headway.text import TextUnigram, Tokenizer, TokenizerPair, UnigramTokenizer, load_tokenizer
from headway.text.unigram_sampling import Lattice, UnigramSampling, best_segmentation
from headway.text.unigram_training import _Corpus, _losses, _maximised, learn_unigram
from tests.fixtures.command_line import sentences

SYLLABLES = ["ba", "ker", "fox", "lem", "on", "wa", "ves", "to", "a", "gar", "den", "bäck"]
DRAW = Random(2)
NEW_WORDS = ["".join(DRAW.choices(SYLLABLES, k=DRAW.randint(1, 4))) for _ in range(500)]
TEXTS = [text for pair in sentences() for text in pair]
TEXTS += [" ".join(DRAW.choices(NEW_WORDS, k=8)) for _ in range(200)]
TOKENIZER = UnigramTokenizer.train(iter(TEXTS), 420)
LOG_P = TOKENIZER.log_probabilities()
RUNNING = TextUnigram.train([" ".join(TEXTS[:80]) + "\n\n  two lines"], 400)
ANY_TEXT = st.text(max_size=40) | st.text(alphabet="a é\n\t\r\u2028\x85\u00a0🦊ก</s>", max_size=40)
WORDS = ["abab", "aba", "ab", "b", "cab"]


def segmentations(word):
    """All ways to cut a word, by the 2^(n - 1) sets of cuts."""
    for cuts in itertools.product([False, True], repeat=len(word) - 1):
        bounds = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(word)]
        yield tuple(word[a:b] for a, b in itertools.pairwise(bounds))


def possible(word, log_p):
    """The segmentations into tokens, with their log-probabilities."""
    found = {x: sum(log_p[t] for t in x) for x in segmentations(word) if all(t in log_p for t in x)}
    assert found
    return found


@given(ANY_TEXT.filter(lambda text: not text.startswith(" ")))
def test_any_text_is_decoded_exactly(text):
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text and TOKENIZER.encode_batch([text, text]) == [ids, ids]
    assert not {TOKENIZER.pad, TOKENIZER.bos, TOKENIZER.eos} & set(ids)
    assert " ".join(word for word, _ in TOKENIZER.words(ids)) == text


@given(ANY_TEXT)
def test_a_running_text_is_decoded_exactly(text):
    assert RUNNING.decode(RUNNING.encode(text)) == text


@given(ANY_TEXT)
def test_the_tokens_of_a_word_are_its_most_probable_segmentation(text):
    """The engine's tokens have the probability of the plain twin's; ties may differ."""
    names = {index: token for token, index in TOKENIZER.ids_by_letters().items()}
    ours = [t for word in TOKENIZER.words_in_letters(text) for t in _best(word)]
    engines = [names[index] for index in TOKENIZER.encode(text)]
    assert "".join(engines) == "".join(ours)
    assert sum(LOG_P[t] for t in engines) == pytest.approx(sum(LOG_P[t] for t in ours), abs=1e-5)


def _best(word):
    return best_segmentation(word, LOG_P, max(map(len, LOG_P)))


def test_the_most_probable_segmentation_is_that_of_all_segmentations():
    for word in [*WORDS, "fuchs", "bäcker"[:1]]:
        log_p = {token: LOG_P[token] for token in LOG_P if token in word}
        ways = possible(word, log_p)
        best = best_segmentation(word, log_p, 16)
        assert sum(log_p[t] for t in best) == pytest.approx(max(ways.values()))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 2.5])
def test_samples_have_the_probabilities_of_the_equation(alpha):
    log_p = {"a": -2.0, "b": -2.5, "c": -3.0, "ab": -1.2, "bc": -1.9, "abc": -2.2, "ca": -2.0}
    word, draws, random = "abcab", 20_000, Random(5)
    ways = possible(word, log_p)
    total = sum(math.exp(alpha * way) for way in ways.values())
    lattice = Lattice(word, log_p, 3, alpha)
    assert lattice.log_total[-1] == pytest.approx(math.log(total))
    counts = Counter(tuple(lattice.sample(random)) for _ in range(draws))
    assert set(counts) <= set(ways)
    for way, log_probability in ways.items():
        expected = math.exp(alpha * log_probability) / total
        assert counts[way] / draws == pytest.approx(expected, abs=0.015)


def test_a_large_alpha_gives_the_most_probable_segmentation():
    sampling = UnigramSampling(TOKENIZER, 1000.0)
    for text in TEXTS[:60]:
        ids = sampling.encode(text, Random(1))
        assert TOKENIZER.decode(ids) == text
        assert _score(ids) == pytest.approx(_score(TOKENIZER.encode(text)), abs=1e-2)


def _score(ids):
    names = {index: token for token, index in TOKENIZER.ids_by_letters().items()}
    return sum(LOG_P[names[index]] for index in ids)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_every_sample_is_the_same_text(alpha):
    sampling, random = UnigramSampling(TOKENIZER, alpha), Random(1)
    odd = ["naïve café 1234!", "don't  stop", "犬 and 🦊", "a", "x" * 5000, "tab\there", ""]
    for text in [*TEXTS[:40], *odd]:
        assert TOKENIZER.decode(sampling.encode(text, random)) == text
        again = sampling.again(TOKENIZER.encode(text), Random(2))
        assert again == sampling.encode(text, Random(2))
    several = {tuple(sampling.encode(TEXTS[-1], random)) for _ in range(20)}
    assert len(several) > 1
    with pytest.raises(ValueError, match="at least 0"):
        UnigramSampling(TOKENIZER, -1.0)


def test_a_batch_is_sampled_anew_in_each_epoch_and_alike_after_a_resume(tmp_path):
    pairs = [Pair(TEXTS[-1 - i], TEXTS[-20 - i], i) for i in range(12)]
    tokenizers = TokenizerPair(TOKENIZER, TOKENIZER)
    corpus = prepare(pairs, tokenizers, tmp_path / "corpus", 100)
    chosen = np.array([3, 7, 0])

    def batch(epoch, seed=5):
        sampling = UnigramSampling(tokenizers.source, 0.2)
        splits = RandomSplits(sampling, sampling, seed, 100)
        return collate(corpus, chosen, tokenizers, splits, epoch)

    first = batch(0)
    assert first.source.equal(batch(0).source) and first.target_in.equal(batch(0).target_in)
    assert not any(first.source.equal(other.source) for other in (batch(1), batch(0, seed=6)))
    for row, i in zip(first.target_out.tolist(), chosen, strict=True):
        assert tokenizers.target.decode(row) == pairs[i].target


def test_expected_counts_are_those_of_all_segmentations():
    counts = {"abab": 3, "aba": 2, "ab": 4, "b": 1, "cab": 2}
    corpus = _Corpus(counts)
    vocabulary = corpus.seeds(50)
    names = [token for token, _ in _in_order(corpus, vocabulary)]
    log_p = dict(zip(names, vocabulary.log_p.tolist(), strict=True))
    expected = Counter()
    for word, count in counts.items():
        ways = possible(word, log_p)
        total = sum(map(math.exp, ways.values()))
        for way, log_probability in ways.items():
            for token in way:
                expected[token] += count * math.exp(log_probability) / total
    found = dict(zip(names, corpus.expected_counts(vocabulary).tolist(), strict=True))
    assert {t: c for t, c in found.items() if c > 1e-12} == pytest.approx(dict(expected))


def test_losses_are_those_of_the_best_other_split():
    corpus = _Corpus({"abab": 3, "aba": 2, "ab": 4, "b": 1, "cab": 2})
    vocabulary, expected = _maximised(corpus.seeds(50), corpus.expected_counts(corpus.seeds(50)))
    names = [token for token, _ in _in_order(corpus, vocabulary)]
    log_p = dict(zip(names, vocabulary.log_p.tolist(), strict=True))
    for token, loss, count in zip(
        names[256:], _losses(vocabulary, expected).tolist(), expected[256:].tolist(), strict=True
    ):
        others = {t: p for t, p in log_p.items() if t != token}
        split = max(possible(token, others).values())
        assert loss == pytest.approx(count * (log_p[token] - split))


def _in_order(corpus, vocabulary):
    """Tokens and rounded log-probabilities in the order of the ids, as `named` makes them."""
    unsorted = dict(corpus.named(vocabulary))
    at = {i: round(float(p), 6) for i, p in enumerate(vocabulary.log_p)}
    names = [token for token in unsorted if len(token) == 1]
    from headway.text.engine import BYTE_OF_LETTER

    letter_of = {byte: letter for letter, byte in BYTE_OF_LETTER.items()}
    names = [letter_of[byte] for byte in range(256)]
    for first, length in zip(vocabulary.firsts, vocabulary.lengths, strict=True):
        names.append("".join(letter_of[b] for b in corpus.letters[first : first + length].tolist()))
    assert all(unsorted[name] == at[i] for i, name in enumerate(names))
    return [(name, at[i]) for i, name in enumerate(names)]


def test_a_vocabulary_has_all_bytes_and_probabilities_that_sum_to_one():
    counts = Counter(w for text in TEXTS for w in TOKENIZER.words_in_letters(text))
    learned = learn_unigram(counts, 380)
    assert len(learned) == 380 and learned == learn_unigram(dict(counts), 380)
    assert sum(math.exp(log_p) for _, log_p in learned) == pytest.approx(1, abs=1e-4)
    assert sum(len(token) == 1 for token, _ in learned) == 256
    assert [p for _, p in learned] == sorted((p for _, p in learned), reverse=True)


def test_the_likelihood_is_that_of_another_trainer_or_more():
    """Against the trainer of the package tokenizers, with its bytes and size."""
    counts = Counter(w for text in TEXTS for w in TOKENIZER.words_in_letters(text))
    ours = dict(learn_unigram(counts, 400))
    engine = Engine(models.Unigram())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.UnigramTrainer(
        vocab_size=400, initial_alphabet=alphabet, show_progress=False
    )
    engine.train_from_iterator(TEXTS, trainer)
    theirs = dict(json.loads(engine.to_str())["model"]["vocab"])

    def log_likelihood(log_p):
        return sum(n * Lattice(word, log_p, 16, 1.0).log_total[-1] for word, n in counts.items())

    assert log_likelihood(ours) >= log_likelihood(theirs) - 0.02 * abs(log_likelihood(theirs))


def test_files_preserve_the_tokenizers(tmp_path):
    TOKENIZER.save(tmp_path / "tokenizer.json")
    pair = TokenizerPair.load(tmp_path)
    assert isinstance(pair.source, UnigramTokenizer) and pair.joint
    assert pair.source.fingerprint == TOKENIZER.fingerprint
    assert pair.source.encode(TEXTS[3]) == TOKENIZER.encode(TEXTS[3])
    (tmp_path / "gpt").mkdir()
    RUNNING.save(tmp_path / "gpt")
    loaded = load_tokenizer(tmp_path / "gpt")
    assert isinstance(loaded, TextUnigram) and loaded.fingerprint == RUNNING.fingerprint
    assert UnigramTokenizer.train(iter(TEXTS), 420).fingerprint == TOKENIZER.fingerprint
    with pytest.raises(DataError, match="byte-level BPE, but is of type 'Unigram'"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_tags_are_one_token_at_the_start():
    tagged = UnigramTokenizer.train(iter(TEXTS), 400, ["<2de>", "<2fr>"])
    ids = tagged.encode("<2de> the fox")
    assert ids[0] == tagged.language_tags["de"] and tagged.decode(ids[1:]) == "the fox"
    sampled = UnigramSampling(tagged, 0.1).again(ids, Random(3))
    assert sampled[0] == ids[0] and tagged.decode(sampled[1:]) == "the fox"
    assert tagged.encode("the <2de> fox").count(ids[0]) == 0


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda m: m["vocab"].append(m["vocab"][0]), "no vocabulary"),
        (lambda m: m.update(vocab="x"), "no vocabulary"),
        (lambda m: m.update(vocab=[["a"]]), "no vocabulary"),
        (lambda m: m["vocab"][0].__setitem__(1, True), "no vocabulary"),
        (lambda m: m.update(unk_id=0), "unknown token"),
        (lambda m: m.update(byte_fallback=True), "byte_fallback"),
        (lambda m: m["vocab"][0].__setitem__(1, 3.0), "between -10000 and 0"),
        (lambda m: m["vocab"][0].__setitem__(1, -1e300), "between -10000 and 0"),
        (lambda m: m["vocab"][0].__setitem__(0, "犬"), "not in the byte alphabet|lacks"),
        (lambda m: m["vocab"][-1].__setitem__(0, "a" * 2000), "2,000 bytes"),
        (lambda m: m["vocab"][-1].__setitem__(0, "</s>"), "has a probability"),
        (lambda m: m.update(type="WordPiece"), "is of type 'WordPiece'"),
    ],
)
def test_a_hostile_file_is_refused_with_the_reason(tmp_path, change, words):
    TOKENIZER.save(tmp_path / "good.json")
    content = json.loads((tmp_path / "good.json").read_text())
    change(content["model"])
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=words) as refused:
        UnigramTokenizer.load(tmp_path / "bad.json")
    assert refused.value.where == str(tmp_path / "bad.json")
