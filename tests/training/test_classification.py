"""Fine-tuning of classifiers: the loss of the paper, and that it is learned."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.models import GPT, Bert, BertClassifier, BertConfig, GPTConfig, TextClassifier
from headway.tasks.classification.data import LabelledBatch, collate_labelled
from headway.tasks.classification.objective import ClassificationObjective, RegressionObjective
from headway.training import OptimizerConfig, StopRequest, TrainingState, fit, optimizer

SMALL = GPTConfig(model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, max_length=9, vocabulary=11)
READER = BertConfig(
    model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, max_length=9, vocabulary=11
)
TEXTS, CLASSES = [[4, 5, 6, 7, 2], [7, 2], [2], [3, 9, 9, 2]], [0, 2, 1, 2]


def gradients(model: TextClassifier, batches: list[LabelledBatch], auxiliary: float):
    model.zero_grad()
    losses = [ClassificationObjective(auxiliary)(model, batch) for batch in batches]
    sum(loss.total for loss in losses).backward()
    return {n: p.grad.clone() for n, p in model.named_parameters()}, losses


def test_the_loss_is_that_of_the_class_and_a_weighted_language_modeling_loss():
    model = TextClassifier(GPT(SMALL), 3).eval()
    loss = ClassificationObjective(0.3)(model, collate_labelled(TEXTS, CLASSES, 0))
    class_vector = of_text = 0.0
    for text, label in zip(TEXTS, CLASSES, strict=True):
        tokens = torch.tensor([text])
        logits = model(tokens, torch.ones_like(tokens, dtype=torch.bool))
        class_vector += F.cross_entropy(logits, torch.tensor([label]))
        if len(text) > 1:
            of_text += F.cross_entropy(model.gpt(tokens)[0, :-1], tokens[0, 1:])
    assert loss.count == 4
    assert_close(loss.nats, class_vector.detach(), rtol=0, atol=1e-5)
    assert_close(loss.total, class_vector + 0.3 * of_text, rtol=0, atol=1e-5)
    assert_close(loss.total - loss.nats, 0.3 * of_text, rtol=0, atol=1e-5)


@pytest.mark.parametrize("auxiliary", [0.0, 0.5])
def test_micro_batches_of_texts_give_the_gradient_of_the_whole_batch(auxiliary):
    model = TextClassifier(GPT(SMALL), 3).eval()
    whole, _ = gradients(model, [collate_labelled(TEXTS, CLASSES, 0)], auxiliary)
    parts = [collate_labelled([t], [c], 9) for t, c in zip(TEXTS, CLASSES, strict=True)]
    accumulated, losses = gradients(model, parts, auxiliary)
    assert sum(loss.count for loss in losses) == 4
    for name, expected in whole.items():
        assert_close(accumulated[name], expected, rtol=0, atol=1e-6)


def test_padding_is_neither_encoded_nor_predicted():
    model = TextClassifier(GPT(SMALL), 3).eval()
    totals = []
    for pad in (0, 8):
        batch = collate_labelled(TEXTS, CLASSES, pad)
        totals.append(ClassificationObjective()(model, batch).total)
    assert torch.equal(*totals)


def encoder(outputs: int) -> BertClassifier:
    return BertClassifier(Bert(READER), outputs).eval()


def test_the_loss_of_an_encoder_is_that_of_the_class_alone():
    model, batch = encoder(3), collate_labelled(TEXTS, CLASSES, 0)
    loss = ClassificationObjective(0.0)(model, batch)
    logits = model(batch.tokens, batch.keys)
    assert_close(loss.total, F.cross_entropy(logits, batch.targets, reduction="sum"))
    assert torch.equal(loss.total, loss.nats) and loss.count == 4
    with pytest.raises(ValueError, match="predicts no next word"):
        ClassificationObjective(0.5)(model, batch)


def test_class_weights_change_the_loss_and_not_the_nats():
    model, batch, weights = encoder(3), collate_labelled(TEXTS, CLASSES, 0), (0.5, 4.0, 1.5)
    loss = ClassificationObjective(0.0, weights)(model, batch)
    logits = model(batch.tokens, batch.keys)
    counted = F.cross_entropy(logits, batch.targets, torch.tensor(weights), reduction="sum")
    assert_close(loss.total, counted)
    assert_close(loss.nats, F.cross_entropy(logits, batch.targets, reduction="sum").detach())


@pytest.mark.parametrize("make", [encoder, lambda outputs: TextClassifier(GPT(SMALL), outputs)])
def test_regression_minimises_the_squared_error(make):
    model, numbers = make(1).eval(), [0.5, -1.0, 2.0, 0.25]
    batch = collate_labelled(TEXTS, numbers, 0)
    loss = RegressionObjective()(model, batch)
    predictions = model(batch.tokens, batch.keys)[:, 0]
    assert_close(loss.total, F.mse_loss(predictions, torch.tensor(numbers), reduction="sum"))
    assert loss.count == 4 and not loss.nats.requires_grad


def test_token_types_reach_an_encoder():
    model, types = encoder(2), [[0, 0, 0, 1, 1], [0, 1], [1], [0, 0, 1, 1]]
    batch = collate_labelled(TEXTS, [0, 1, 1, 0], 0, types=types)
    plain = collate_labelled(TEXTS, [0, 1, 1, 0], 0, types=[[0] * len(text) for text in TEXTS])
    assert plain.types is None and batch.types is not None
    losses = [ClassificationObjective(0.0)(model, labelled).total for labelled in (batch, plain)]
    assert not torch.allclose(*losses)


def ordered(count: int, seed: int) -> LabelledBatch:
    """Texts of 3 to 7 tokens, ended by 2: class 1 if they contain a 5."""
    generator = torch.Generator().manual_seed(seed)
    texts = []
    for _ in range(count):
        length = int(torch.randint(3, 8, (1,), generator=generator))
        text = torch.randint(3, 11, (length,), generator=generator)
        text[text == 5] = 6
        if torch.rand((), generator=generator) < 0.5:
            text[torch.randint(0, length, (1,), generator=generator)] = 5
        texts.append([*text.tolist(), 2])
    return collate_labelled(texts, [int(5 in text) for text in texts], 0)


def test_it_learns_a_rule_about_the_whole_text():
    model = TextClassifier(GPT(SMALL), 2)
    run = TrainingState(model, optimizer(model, OptimizerConfig(lr=0.01)))
    fit(
        run,
        ((0, 0, ordered(32, seed)) for seed in range(1000)),
        ClassificationObjective(),
        [],
        steps=120,
        learning_rate=lambda step: 0.01,
        precision=nullcontext,
        request=StopRequest(),
    )
    fresh = ordered(300, 5000)
    with torch.no_grad():
        predicted = model.eval()(fresh.tokens, fresh.keys).argmax(1)
    assert 0.3 < fresh.targets.float().mean() < 0.7
    assert (predicted == fresh.targets).float().mean() > 0.95
