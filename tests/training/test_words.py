"""Word vectors: the loss beside a loop in float64, and the lecture's four words."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

import headway
from headway.bundle import WordsBundle
from headway.data.windows import BLOCK, WordBatch
from headway.errors import DataError, UsageError
from headway.models import NextWord, WordsConfig, WordVectors, words_model
from headway.recipes import amended, recipe, train
from headway.text import Vocabulary
from headway.training import NegativeSampling, NextWordObjective, negative_sampling_sum

V, D = 11, 5
KINDS = ["skip-gram", "cbow", "next-word"]


def test_a_one_hot_row_times_the_matrix_is_the_row():
    model = NextWord(WordsConfig(kind="next-word", dim=D, vocabulary=V))
    words = torch.tensor([3, 0, 10, 3])
    assert torch.equal(model.hidden(words), model.one_hot(words))
    assert torch.equal(model.hidden(words)[0], model.vectors[3])
    assert_close(model(words), model.one_hot(words) @ model.output.weight.T)


def test_the_gradient_of_a_look_up_is_that_of_the_product():
    model = NextWord(WordsConfig(kind="next-word", dim=D, vocabulary=V)).double()
    words = torch.tensor([3, 0, 10, 3])
    found = []
    for embed in (model.hidden, model.one_hot):
        model.zero_grad()
        embed(words).pow(3).sum().backward()
        found.append(model.vectors.grad.clone())
    assert_close(*found)
    assert found[0][1].abs().sum() == 0  # a word that was not read has not moved


def loop(h, contexts, words, negatives):
    """The formula, one pair and one sampled word at a time."""
    targets, owner, sampled = words
    total = torch.zeros((), dtype=torch.float64)
    for target, b in zip(targets.tolist(), owner.tolist(), strict=True):
        total = total - torch.sigmoid(contexts[target] @ h[b]).log()
        row = sampled[b // BLOCK].tolist()
        for word in row:
            total = total - negatives / len(row) * torch.sigmoid(-contexts[word] @ h[b]).log()
    return total


def test_the_loss_and_its_gradient_are_the_formulas():
    bags = BLOCK + 7  # two blocks, one of them not full
    words = (
        torch.randint(1, V, (150,)),
        torch.randint(0, bags, (150,)).sort().values,
        torch.randint(1, V, (2, 9)),
    )
    results = []
    for compute in (negative_sampling_sum, loop):
        torch.manual_seed(4)
        h = torch.randn(bags, D, dtype=torch.float64, requires_grad=True)
        contexts = torch.randn(V, D, dtype=torch.float64, requires_grad=True)
        total = compute(h, contexts, words, 5)
        total.backward()
        results.append((total.detach(), h.grad, contexts.grad))
    for found, expected in zip(*results, strict=True):
        assert_close(found, expected, rtol=0, atol=1e-10)


def test_the_loss_survives_extreme_scores_in_float32():
    words = (torch.tensor([1, 2]), torch.tensor([0, 1]), torch.ones(1, 64, dtype=torch.long))
    h = torch.tensor([[300.0], [-300.0]], requires_grad=True)
    total = negative_sampling_sum(h, torch.tensor([[0.0], [-5.0], [5.0]]), words, 5)
    total.backward()
    assert h.grad.isfinite().all()
    assert total.item() == pytest.approx(1500 + 1500 + 5 * 1500)


def test_a_bags_vector_is_the_mean_of_its_words():
    model = WordVectors(WordsConfig(kind="cbow", dim=D, vocabulary=V))
    bags = [[3], [1, 3, 3, 9], [10, 2]]
    found = model.hidden(torch.tensor([w for bag in bags for w in bag]), torch.tensor([0, 1, 5]))
    expected = torch.stack([torch.stack([model.vectors[w] for w in bag]).mean(0) for bag in bags])
    assert_close(found, expected)


def test_objectives_count_what_they_sum():
    batch = WordBatch(
        torch.tensor([2, 5, 7]),
        torch.tensor([0, 1, 2]),
        torch.tensor([1, 4, 4, 8]),
        torch.tensor([0, 0, 2, 2]),
        torch.randint(1, V, (1, BLOCK)),
    )
    vectors = WordVectors(WordsConfig(dim=D, vocabulary=V))
    loss = NegativeSampling(5)(vectors, batch)
    assert loss.count == 4
    assert loss.total.item() == pytest.approx(4 * 6 * math.log(2))  # all scores start at 0
    next_word = NextWord(WordsConfig(kind="next-word", dim=D, vocabulary=V))
    single = WordBatch(batch.words, batch.starts, batch.targets[:3], batch.starts, batch.sampled)
    found = NextWordObjective()(next_word, single)
    expected = torch.nn.functional.cross_entropy(
        next_word(single.words), single.targets, reduction="sum"
    )
    assert found.count == 3
    assert_close(found.total, expected)


def lecture_run(folder, kind: str, seed: int, steps: int = 300):
    text = folder / "lecture.txt"
    text.write_text("Pizza is great\nPizza is awesome\n")
    changes = {
        "data.train": [str(text)],
        "data.min_count": 1,
        "model.kind": kind,
        "model.dim": 8,
        "training.subsample": 0,
        "training.steps": steps,
        "training.seed": seed,
        "optimizer.lr": 1e-2,
        "schedule.warmup": 10,
        "evaluation.every": steps,
    }
    return recipe("words", ("test", changes))


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_great_and_awesome_lie_together(tmp_path, kind, seed):
    """Lectures 3.1: they keep the same company, so they become the nearest two of the four."""
    train(lecture_run(tmp_path, kind, seed), tmp_path / "run")
    bundle = headway.load(tmp_path / "run")
    words = bundle.vocabulary.words[1:]
    assert sorted(words) == ["awesome", "great", "is", "pizza"]
    found = {frozenset(pair): bundle.similarity(*pair) for pair in itertools.combinations(words, 2)}
    together = found.pop(frozenset({"great", "awesome"}))
    assert together > 0.9 and together > max(found.values())
    assert bundle.nearest("great", 1)[0].word == "awesome"
    assert bundle.nearest("awesome", 1)[0].word == "great"


def a_bundle() -> WordsBundle:
    """Four words in a plane, one of them longer than the others."""
    model = WordVectors(WordsConfig(dim=2, vocabulary=6))
    rows = [[9, 9], [1, 0], [0, 1], [-1, 0], [3, 0.3], [0.6, 0.8]]
    with torch.no_grad():
        model.embedding.weight.copy_(torch.tensor(rows))
    return WordsBundle(model, Vocabulary(["east", "north", "west", "far", "skew"], [5, 4, 3, 2, 1]))


def test_the_nearest_are_those_of_greatest_cosine_without_the_word_itself():
    found = a_bundle().nearest("East", 9)
    assert [one.word for one in found] == ["far", "skew", "north", "west"]
    assert found[1].cosine == pytest.approx(0.6) and found[-1].cosine == pytest.approx(-1)
    assert [one.word for one in a_bundle().nearest("east", 2)] == ["far", "skew"]
    with pytest.raises(UsageError, match="count=0"):
        a_bundle().nearest("east", 0)


def test_an_analogy_is_b_minus_a_plus_c_of_vectors_of_length_one():
    found = a_bundle().analogy("far", "north", "east", 5)
    assert {one.word for one in found} == {"west", "skew"}
    unit = torch.tensor([3, 0.3]) / torch.tensor([3, 0.3]).norm()
    query = torch.tensor([0.0, 1.0]) - unit + torch.tensor([1.0, 0.0])
    expected = torch.cosine_similarity(query, torch.tensor([0.6, 0.8]), dim=0)
    assert found[0].word == "skew" and found[0].cosine == pytest.approx(float(expected))


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_word_model_loads_as_itself_and_with_no_other_vocabulary(tmp_path, kind):
    model = words_model(WordsConfig(kind=kind, dim=3, vocabulary=4))
    WordsBundle(model, Vocabulary(["a", "b", "c"], [3, 2, 1])).save(tmp_path / "m")
    again = headway.load(tmp_path / "m")
    assert again.config == model.config and type(again.model) is type(model)
    for mine, yours in zip(model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(mine, yours)
    assert torch.equal(again.vector("b"), model.vectors[2])
    Vocabulary(["a", "b", "d"], [3, 2, 1]).save(tmp_path / "m")
    with pytest.raises(DataError, match="tokenizer"):
        headway.load(tmp_path / "m", verify=False)
    with pytest.raises(DataError, match="entries"):
        WordsBundle(model, Vocabulary(["a"], [1]))


def test_evaluating_changes_nothing(tmp_path):
    """The same weights whether a run is evaluated once or ten times."""
    ends = []
    for every in (4, 40):
        config = lecture_run(tmp_path, "skip-gram", 1, 40)
        config = amended(config, ("test", {"evaluation.every": every}))
        train(config, tmp_path / f"every-{every}")
        ends.append(headway.load(tmp_path / f"every-{every}").vectors)
    assert torch.equal(*ends)


@pytest.mark.slow
def test_words_of_a_real_text_lie_beside_their_like(real_data, tmp_path):
    changes = {
        "data.train": [str(real_data("lm/bible_web.train.txt.gz"))],
        "training.steps": 1500,
        "evaluation.every": 1500,
    }
    train(recipe("words", ("test", changes)), tmp_path / "run")
    bundle = headway.load(tmp_path / "run")
    for word, other in (
        ("gold", "silver"),
        ("moses", "aaron"),
        ("david", "saul"),
        ("sword", "pestilence"),
        ("bread", "unleavened"),
        ("mother", "sister"),
    ):
        assert other in [one.word for one in bundle.nearest(word, 10)], word
    for asked, answer in (
        (("man", "woman", "brother"), "sister"),
        (("man", "woman", "king"), "queen"),
        (("go", "went", "come"), "came"),
    ):
        assert answer in [one.word for one in bundle.analogy(*asked, 10)], asked
