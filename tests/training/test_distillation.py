"""TinyBERT's losses: what is compared with what, over what, and what learns from it."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.blocks.watch import layer_map, stack_of, watch_blocks
from headway.data.framed import collate_framed
from headway.models import Bert, BertAnswerer, BertClassifier, BertConfig
from headway.training.objectives.distillation import (
    DistillationConfig,
    DistillationObjective,
    Distilled,
)

ROWS = [[2, 5, 7, 3], [2, 9, 3], [2, 4, 6, 8, 10, 3]]
NOTHING = {"embedding": 0.0, "hidden": 0.0, "attention": 0.0, "prediction": 0.0}


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


def pair(width=6, layers=2):
    teacher = BertClassifier(bert(8, 4), 3, dropout=0.0)
    student = BertClassifier(bert(width, layers), 3, dropout=0.0)
    return teacher, Distilled(student, width, 8)


def batch(rows=ROWS):
    return collate_framed(rows, None, 0)


def test_blocks_are_compared_evenly_and_the_last_with_the_last():
    assert layer_map(4, 12) == [3, 6, 9, 12]
    assert layer_map(2, 6) == [3, 6]
    assert layer_map(3, 3) == [1, 2, 3]
    assert layer_map(1, 6) == [6]
    with pytest.raises(ValueError, match="at most"):
        layer_map(4, 3)


@pytest.mark.parametrize("term", list(NOTHING))
def test_each_term_is_its_equation_text_by_text(term):
    teacher, model = pair()
    config = DistillationConfig(**{**NOTHING, term: 1.0, "temperature": 2.0})
    loss = DistillationObjective(teacher, read, config)(model, batch())
    wanted = torch.zeros(())
    for row in ROWS:  # alone, nothing is padded
        one = batch([row])
        with watch_blocks(stack_of(teacher)) as t, watch_blocks(stack_of(model.student)) as s:
            a, b = read(model.student, one), read(teacher, one)
        if term == "embedding":
            wanted = wanted + F.mse_loss(model.project_embedding(s.hidden[0]), t.hidden[0])
        if term == "hidden":
            wanted = wanted + F.mse_loss(model.project_hidden(s.hidden[1]), t.hidden[2])
            wanted = wanted + F.mse_loss(model.project_hidden(s.hidden[2]), t.hidden[4])
        if term == "attention":
            wanted = wanted + F.mse_loss(s.scores[0], t.scores[1])
            wanted = wanted + F.mse_loss(s.scores[1], t.scores[3])
        if term == "prediction":
            wanted = wanted + F.cross_entropy(a / 2, (b / 2).softmax(-1))
    assert loss.count == 3
    assert_close(loss.total, wanted)


def test_a_student_that_is_its_teacher_differs_in_nothing_but_the_outputs_entropy():
    teacher, _ = pair()
    student = BertClassifier(bert(8, 4), 3, dropout=0.0)
    student.load_state_dict(teacher.state_dict())
    config = DistillationConfig(prediction=0.0)
    loss = DistillationObjective(teacher, read, config)(Distilled(student, 8, 8), batch())
    assert_close(loss.total, torch.zeros(()), atol=1e-9, rtol=0)


def test_the_student_and_its_projections_learn_and_the_teacher_does_not():
    teacher, model = pair()
    before = {name: p.clone() for name, p in teacher.state_dict().items()}
    objective = DistillationObjective(teacher, read, DistillationConfig())
    update = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(30):
        loss = objective(model, batch())
        update.zero_grad()
        loss.total.backward()
        update.step()
        losses.append(loss.total.item())
    assert losses[-1] < 0.6 * losses[0]
    assert all(p.grad is not None for p in model.parameters())
    assert all(torch.equal(p, before[name]) for name, p in teacher.state_dict().items())


def test_answers_are_compared_over_places_and_padding_is_no_place():
    teacher, student = BertAnswerer(bert(8, 4)), BertAnswerer(bert(6, 2))
    config = DistillationConfig(**{**NOTHING, "prediction": 1.0})
    objective = DistillationObjective(teacher, read, config, axis=1)
    model = Distilled(student, 6, 8)
    together = objective(model, batch()).total
    apart = torch.stack([objective(model, batch([row])).total for row in ROWS]).sum()
    assert_close(together, apart)
    a, b = read(student, batch(ROWS[:1])), read(teacher, batch(ROWS[:1]))
    wanted = -(b.softmax(1) * a.log_softmax(1)).sum(1).mean()
    assert_close(objective(model, batch(ROWS[:1])).total, wanted)


def test_what_cannot_be_compared_is_refused():
    teacher = BertClassifier(bert(8, 4, heads=4), 3)
    model = Distilled(BertClassifier(bert(6, 2), 3), 6, 8)
    with pytest.raises(ValueError, match="heads"):
        DistillationObjective(teacher, read, DistillationConfig())(model, batch())
    with pytest.raises(ValueError, match="nothing to learn"):
        DistillationObjective(teacher, read, DistillationConfig(**NOTHING))(model, batch())
