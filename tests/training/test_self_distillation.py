"""DINO: the objective compared with its equations, and the update of the teacher."""

import math

import pytest
import torch
from torch import nn

from headway.blocks import PrototypeHead
from headway.models import SelfDistilled, ViT, ViTConfig
from headway.tasks.self_distillation.multi_crop import ViewBatch
from headway.tasks.self_distillation.objective import (
    SelfDistillationConfig,
    SelfDistillationObjective,
)
from headway.training.state import StepReport, TrainingState

SHAPE = ViTConfig(
    image_size=8,
    patch_size=4,
    channels=3,
    model_dim=12,
    num_heads=3,
    ffn_dim=20,
    num_layers=2,
    positions="sinusoidal",
)
CONFIG = SelfDistillationConfig(temperature=0.2, teacher_start=0.05, teacher_end=0.1, warm=0.5)
REPORT = StepReport(loss=0.0, nats=0.0, targets=1, grad_norm=0.0, lr=0.0, seconds=0.0)


@pytest.fixture
def model():
    torch.manual_seed(3)
    new_model = SelfDistilled(ViT(SHAPE), PrototypeHead(12, 16, 6, 10), 0.05)
    with torch.no_grad():
        for value in (*new_model.student.parameters(), *new_model.head.parameters()):
            value.add_(0.05 * torch.randn_like(value))  # the two differ
        new_model.centre.copy_(torch.randn(10))
    return new_model


def views(count=5, seed=0):
    torch.manual_seed(seed)
    large = [torch.randn(count, 3, 8, 8) for _ in range(2)]
    return ViewBatch((*large, *[torch.randn(count, 3, 4, 4) for _ in range(3)]), 2)


def logits_of(vit, head, view):
    return head(vit.encode(view)[:, 0])


def test_the_loss_is_that_of_the_paper(model):
    batch, total, terms = views(), 0.0, 0
    for g in range(2):
        logits = logits_of(model.teacher, model.teacher_head, batch.views[g])
        target = torch.softmax((logits - model.centre) / 0.05, -1)
        for v in range(5):
            if v != g:
                prediction = logits_of(model.student, model.head, batch.views[v])
                total -= (target * torch.log_softmax(prediction / 0.2, -1)).sum().item()
                terms += 1
    loss = SelfDistillationObjective(CONFIG, 100)(model, batch)
    assert terms == 8 and loss.count == 5
    assert loss.total.item() == pytest.approx(total / terms, rel=1e-5)


def test_only_the_student_has_gradients(model):
    SelfDistillationObjective(CONFIG, 100)(model, views()).total.backward()
    learned = [name for name, value in model.named_parameters() if value.grad is not None]
    assert learned and all(name.startswith(("student.", "head.")) for name in learned)
    unused = {n for n, v in model.named_parameters() if v.requires_grad and v.grad is None}
    assert unused == set()


def test_micro_batches_add_up_to_the_whole_batch(model):
    objective, batch = SelfDistillationObjective(CONFIG, 100), views()
    whole = objective(model, batch).total
    parts = [
        objective(model, ViewBatch(tuple(v[rows] for v in batch.views), 2)).total
        for rows in (slice(0, 2), slice(2, 5))
    ]
    torch.testing.assert_close(sum(parts), whole, rtol=1e-5, atol=1e-5)


def test_the_teacher_and_its_centre_are_updated_after_each_step(model):
    objective, batch = SelfDistillationObjective(CONFIG, 100), views()
    teacher_logits = torch.cat(
        [logits_of(model.teacher, model.teacher_head, v) for v in batch.views[:2]]
    )
    old_centre, old = model.centre.clone(), [v.clone() for v in model.teacher.parameters()]
    objective(model, batch)
    assert model.centre.equal(old_centre)  # not before the update
    run = TrainingState(model, torch.optim.SGD(model.student.parameters()))
    run.step = 25
    objective.after_step(run, REPORT)
    torch.testing.assert_close(model.centre, 0.9 * old_centre + 0.1 * teacher_logits.mean(0))
    momentum = 1 - (1 - CONFIG.momentum) * (1 + math.cos(math.pi * 0.25)) / 2
    for before, after, student in zip(
        old, model.teacher.parameters(), model.student.parameters(), strict=True
    ):
        torch.testing.assert_close(after, momentum * before + (1 - momentum) * student)
    assert model.temperature.item() == pytest.approx(0.075)
    assert model.logit_sum.eq(0).all() and model.logit_count == 0
    run.step = 80
    objective.after_step(run, REPORT)
    assert model.temperature.item() == pytest.approx(0.1)


def test_outputs_do_not_depend_on_the_batch_size_or_on_other_views(model):
    batch = views()
    batched = model(batch.views)
    for view, logits in zip(batch.views, batched, strict=True):
        torch.testing.assert_close(logits, logits_of(model.student, model.head, view))


def test_the_heads_outputs_are_cosines():
    torch.manual_seed(0)
    head = PrototypeHead(12, 16, 6, 10)
    logits = head(torch.randn(7, 12) * 50)
    assert logits.abs().max() <= 1 + 1e-6
    with torch.no_grad():
        head.prototypes.mul_(9.0)
    torch.manual_seed(0)
    head2 = PrototypeHead(12, 16, 6, 10)
    x = torch.randn(7, 12)
    torch.testing.assert_close(head(x), head2(x))
    assert isinstance(head, nn.Module)


def test_an_encoder_without_a_class_token_is_refused():
    plain = ViT(
        ViTConfig(
            image_size=8, model_dim=12, num_heads=3, ffn_dim=20, num_layers=1, class_token=False
        )
    )
    with pytest.raises(ValueError, match="class_token"):
        SelfDistilled(plain, PrototypeHead(12, 16, 6, 10), 0.04)
