"""Contrastive learning: the loss of the papers, and that it is learned."""

from contextlib import nullcontext

import pytest
import torch
from torch.testing import assert_close

from headway.data.padding import collate_encoder_batch
from headway.models import Bert, BertConfig
from headway.tasks.sentence_embedding.data import SimilarPairs
from headway.tasks.sentence_embedding.task import (
    ContrastiveObjective,
    CosineObjective,
    text_vectors,
)
from headway.training import OptimizerConfig, StopRequest, TrainingState, fit, optimizer

SMALL = BertConfig(
    model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, max_length=9, vocabulary=31, dropout=0.0
)
FIRST = [[2, 5, 6, 3], [2, 7, 3], [2, 8, 9, 10, 3], [2, 11, 3]]
SECOND = [[2, 12, 3], [2, 13, 14, 15, 3], [2, 16, 3], [2, 17, 18, 3]]


@pytest.fixture
def model():
    new_model = Bert(SMALL).eval()
    with torch.no_grad():
        for parameter in new_model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return new_model


def batch(first=FIRST, second=SECOND, scores=None):
    pairs = SimilarPairs(first, second, scores)
    return pairs.batch(range(len(first)), pad=0)


def cosines(model, first, second):
    """One text at a time, no padding."""
    a, b = (
        torch.stack([model.encode(torch.tensor([row]))[0].mean(0) for row in side])
        for side in (first, second)
    )
    return torch.nn.functional.cosine_similarity(a[:, None], b[None], dim=-1)


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_loss_ranks_the_paired_text_among_all_of_the_batch(model, symmetric):
    loss = ContrastiveObjective(7.0, symmetric)(model, batch())
    scores = 7.0 * cosines(model, FIRST, SECOND)
    ways = [scores, scores.T] if symmetric else [scores]
    expected = sum(
        torch.logsumexp(row, 0) - row[i] for way in ways for i, row in enumerate(way)
    ) / len(ways)
    assert loss.count == 4
    assert_close(loss.total, expected, rtol=0, atol=1e-4)
    assert_close(loss.nats, expected.detach(), rtol=0, atol=1e-4)


def test_pairs_that_share_a_text_are_no_negatives_of_each_other(model):
    first, second = [*FIRST, FIRST[0], SECOND[1]], [*SECOND, [2, 20, 3], [2, 21, 3]]
    loss = ContrastiveObjective(20.0)(model, batch(first, second))
    scores = 20.0 * cosines(model, first, second)
    friends = {0: {4}, 4: {0}, 1: {5}, 5: {1}}
    expected = 0.0
    for i, row in enumerate(scores):
        rivals = [row[j] for j in range(6) if j not in friends.get(i, set())]
        expected += torch.logsumexp(torch.stack(rivals), 0) - row[i]
    assert_close(loss.total, expected, rtol=0, atol=1e-4)


def test_a_single_pair_has_no_negatives_and_no_loss(model):
    loss = ContrastiveObjective()(model, batch(FIRST[:1], SECOND[:1]))
    loss.total.backward()
    assert loss.total.item() == pytest.approx(0, abs=1e-6) and loss.count == 1
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_the_cosine_objective_is_the_squared_error_of_the_scores(model):
    scores = [1.0, 0.25, 0.0, 0.5]
    loss = CosineObjective()(model, batch(scores=scores))
    similarities = cosines(model, FIRST, SECOND).diagonal()
    assert_close(
        loss.total, (similarities - torch.tensor(scores)).square().sum(), rtol=0, atol=1e-5
    )
    assert loss.count == 4
    with pytest.raises(ValueError, match="no scores"):
        CosineObjective()(model, batch())


def test_micro_batches_of_scored_pairs_give_the_gradient_of_the_whole_batch(model):
    scores = [1.0, 0.25, 0.0, 0.5]
    grads = []
    for size in (4, 1):
        model.zero_grad()
        for start in range(0, 4, size):
            part = slice(start, start + size)
            CosineObjective()(
                model, batch(FIRST[part], SECOND[part], scores[part])
            ).total.backward()
        grads.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    for name, expected in grads[0].items():
        assert_close(grads[1][name], expected, rtol=0, atol=1e-6)


def test_vectors_have_length_one_and_do_not_depend_on_padding(model):
    for pad in (0, 19):
        vectors = text_vectors(model, collate_encoder_batch(FIRST, None, pad))
        assert_close(vectors.norm(dim=-1), torch.ones(4))
        alone = text_vectors(model, collate_encoder_batch(FIRST[1:2], None, pad))
        assert_close(vectors[1:2], alone, rtol=0, atol=1e-6)


def named(count: int, seed: int):
    """A text of three words from 4 to 15, and the same words in another language, 16 to 27."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(4, 16, (count, 3), generator=generator).tolist()
    first = [[2, *row, 3] for row in words]
    return batch(first, [[2, *(i + 12 for i in reversed(row)), 3] for row in words])


@pytest.mark.parametrize("symmetric", [pytest.param(False, marks=pytest.mark.slow), True])
def test_it_learns_which_texts_have_the_same_meaning(symmetric):
    model = Bert(SMALL)
    run = TrainingState(model, optimizer(model, OptimizerConfig(lr=3e-3)))

    def right() -> float:
        fresh = named(64, 9999)
        with torch.no_grad():
            a, b = text_vectors(model.eval(), fresh.first), text_vectors(model, fresh.second)
        return float(((a @ b.T).argmax(1) == torch.arange(64)).float().mean())

    assert right() < 0.2
    fit(
        run,
        ((0, 0, named(16, seed)) for seed in range(1000)),
        ContrastiveObjective(symmetric=symmetric),
        [],
        steps=150,
        learning_rate=lambda step: 3e-3,
        precision=nullcontext,
        request=StopRequest(),
    )
    assert right() > 0.7
