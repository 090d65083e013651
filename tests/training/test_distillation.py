"""Losses of TinyBERT: which layers and positions are compared, and which weights are trained."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.base.errors import UsageError
from headway.blocks.hidden_states import layer_map, record_blocks, stack_of
from headway.data.padding import collate_encoder_batch
from headway.models import (
    GPT,
    Bert,
    BertClassifier,
    BertConfig,
    BertQuestionAnswering,
    BertTagger,
    GPTConfig,
)
from headway.training.objectives.distillation import (
    DistillationBatch,
    DistillationConfig,
    DistillationObjective,
    DistillationStudent,
    View,
    filled_weights,
)
from headway.transforms import recompute

ROWS = [[2, 5, 7, 3], [2, 9, 3], [2, 4, 6, 8, 10, 3]]
NOTHING = {"embedding": 0.0, "hidden": 0.0, "attention": 0.0, "prediction": 0.0}
EVERYTHING = filled_weights(DistillationConfig(), 1.0)


def bert(width, layers, heads=2, dropout=0.0):
    torch.manual_seed(width)
    return Bert(
        BertConfig(
            model_dim=width,
            num_heads=heads,
            ffn_dim=2 * width,
            num_layers=layers,
            dropout=dropout,
            vocabulary=13,
            max_length=8,
        )
    )


def read(model, batch):
    return model(batch.tokens, batch.keys, batch.types)


def view(batch, **options):
    return View(
        logits=lambda model: read(model, batch), keys=batch.keys, count=len(batch.keys), **options
    )


def differences(teacher, model, batch, config, **options):
    objective = DistillationObjective(teacher, lambda batch: [view(batch, **options)])
    return objective(model, DistillationBatch(batch, config))


def only(term, **weights):
    return DistillationConfig(**{**NOTHING, term: 1.0, **weights})


def pair(width=6, layers=2):
    teacher = BertClassifier(bert(8, 4), 3, dropout=0.0)
    student = BertClassifier(bert(width, layers), 3, dropout=0.0)
    return teacher, DistillationStudent(student, width, 8)


def batch(rows=ROWS):
    return collate_encoder_batch(rows, None, 0)


def test_student_blocks_map_to_evenly_spaced_teacher_blocks_and_the_last_to_the_last():
    assert layer_map(4, 12) == [3, 6, 9, 12]
    assert layer_map(2, 6) == [3, 6]
    assert layer_map(3, 3) == [1, 2, 3]
    assert layer_map(1, 6) == [6]
    with pytest.raises(ValueError, match="at most"):
        layer_map(4, 3)


@pytest.mark.parametrize("term", list(NOTHING))
def test_each_term_is_its_equation_text_by_text(term):
    teacher, model = pair()
    loss = differences(teacher, model, batch(), only(term, temperature=2.0))
    expected = torch.zeros(())
    for row in ROWS:  # alone, nothing is padded
        single = batch([row])
        with record_blocks(stack_of(teacher)) as t, record_blocks(stack_of(model.student)) as s:
            a, b = read(model.student, single), read(teacher, single)
        if term == "embedding":
            expected = expected + F.mse_loss(model.project_embedding(s.hidden[0]), t.hidden[0])
        if term == "hidden":
            expected = expected + F.mse_loss(model.project_hidden(s.hidden[1]), t.hidden[2])
            expected = expected + F.mse_loss(model.project_hidden(s.hidden[2]), t.hidden[4])
        if term == "attention":
            expected = expected + F.mse_loss(s.scores[0], t.scores[1])
            expected = expected + F.mse_loss(s.scores[1], t.scores[3])
        if term == "prediction":
            expected = expected + 4 * F.cross_entropy(a / 2, (b / 2).softmax(-1))
    assert loss.count == 3
    assert_close(loss.total, expected)


def test_a_student_equal_to_its_teacher_has_no_loss_but_the_entropy_of_the_outputs():
    teacher, _ = pair()
    student = BertClassifier(bert(8, 4), 3, dropout=0.0)
    student.load_state_dict(teacher.state_dict())
    config = filled_weights(DistillationConfig(prediction=0.0), 1.0)
    loss = differences(teacher, DistillationStudent(student, 8, 8), batch(), config)
    assert_close(loss.total, torch.zeros(()), atol=1e-9, rtol=0)


def test_the_student_and_its_projections_learn_and_the_teacher_does_not():
    teacher, model = pair()
    before = {name: p.clone() for name, p in teacher.state_dict().items()}
    update = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(30):
        loss = differences(teacher, model, batch(), EVERYTHING)
        update.zero_grad()
        loss.total.backward()
        update.step()
        losses.append(loss.total.item())
    assert losses[-1] < 0.6 * losses[0]
    assert all(p.grad is not None for p in model.parameters())
    assert all(torch.equal(p, before[name]) for name, p in teacher.state_dict().items())


def test_answers_are_compared_over_positions_without_padding():
    teacher, student = BertQuestionAnswering(bert(8, 4)), BertQuestionAnswering(bert(6, 2))
    config, model = only("prediction"), DistillationStudent(student, 6, 8)

    def total(rows):
        return differences(teacher, model, batch(rows), config, over_positions=True).total

    assert_close(total(ROWS), torch.stack([total([row]) for row in ROWS]).sum())
    a, b = read(student, batch(ROWS[:1])), read(teacher, batch(ROWS[:1]))
    expected = -(b.softmax(1) * a.log_softmax(1)).sum(1).mean()
    assert_close(total(ROWS[:1]), expected)


def test_tags_are_compared_at_the_requested_positions_only():
    teacher, student = BertTagger(bert(8, 4), 3, 0.0), BertTagger(bert(6, 2), 3, 0.0)
    single = batch(ROWS[2:])
    positions = torch.tensor([[False, True, False, False, True, False]])
    model = DistillationStudent(student, 6, 8)
    loss = differences(teacher, model, single, only("prediction"), target_mask=positions).total
    a, b = (read(network, single)[0, [1, 4]] for network in (student, teacher))
    assert_close(loss, F.cross_entropy(a, b.softmax(-1)))
    everywhere = differences(teacher, model, single, only("prediction")).total
    assert not torch.isclose(loss, everywhere)


def test_regression_outputs_are_compared_by_squared_error():
    teacher, student = (BertClassifier(bert(n, 2), 1, dropout=0.0) for n in (8, 6))
    loss = differences(
        teacher, DistillationStudent(student, 6, 8), batch(), only("prediction")
    ).total
    assert_close(loss, (read(teacher, batch()) - read(student, batch())).square().sum())
    assert loss > 0


def test_attention_of_language_models_is_compared_where_the_causal_mask_allows_it():
    torch.manual_seed(1)
    shape = {"num_heads": 2, "ffn_dim": 12, "vocabulary": 13, "max_length": 8}
    teacher = GPT(GPTConfig(**shape, num_layers=4, model_dim=8))
    student = GPT(GPTConfig(**shape, num_layers=2, model_dim=6))
    tokens, keys = batch().tokens, batch().keys
    weights = keys.sum(1).float()
    views = [View(logits=lambda m: m(tokens), keys=keys, weights=weights, count=13)]

    def total(term, made=views):
        objective = DistillationObjective(teacher, lambda batch: made)
        return objective(DistillationStudent(student, 6, 8), DistillationBatch(None, only(term)))

    expected, nats = torch.zeros(()), torch.zeros(())
    for row in ROWS:
        row_ids = torch.tensor([row])
        with record_blocks(stack_of(teacher)) as t, record_blocks(stack_of(student)) as s:
            a, b = student(row_ids), teacher(row_ids)
        allowed = torch.ones(len(row), len(row)).tril().bool()
        for student_layer, teacher_layer in ((0, 1), (1, 3)):
            difference = (s.scores[student_layer] - t.scores[teacher_layer])[..., allowed]
            expected = expected + len(row) * difference.square().mean()
        nats = nats + F.cross_entropy(a[0], b[0].softmax(-1), reduction="sum")
    assert total("attention").count == 13
    assert_close(total("attention").total, expected)
    assert_close(total("prediction").total, nats)


def test_a_batch_in_several_views_has_the_loss_of_the_batch():
    teacher, model = pair()
    parts = [view(batch(ROWS[:1])), view(batch(ROWS[1:]))]
    objective = DistillationObjective(teacher, lambda batch: parts)
    loss = objective(model, DistillationBatch(None, EVERYTHING))
    whole = differences(teacher, model, batch(), EVERYTHING)
    assert_close(loss.total, whole.total)
    assert loss.count == whole.count == 3


def test_what_cannot_be_compared_is_refused():
    teacher = BertClassifier(bert(8, 4, heads=4), 3)
    model = DistillationStudent(BertClassifier(bert(6, 2), 3), 6, 8)
    with pytest.raises(ValueError, match="heads"):
        differences(teacher, model, batch(), EVERYTHING)
    with pytest.raises(ValueError, match="nothing to learn"):
        differences(teacher, model, batch(), DistillationConfig(**NOTHING))


def test_a_student_that_recomputes_activations_has_no_hidden_layers_to_compare():
    teacher, model = pair()
    recompute(teacher), recompute(model.student)
    with pytest.raises(UsageError, match="this BertClassifier recompute them"):
        differences(teacher, model, batch(), only("hidden"))
    differences(teacher, model, batch(), only("prediction")).total.backward()
    assert any(parameter.grad is not None for parameter in model.student.parameters())
