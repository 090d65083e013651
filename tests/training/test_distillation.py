"""A teacher's layers and answers as targets: TinyBERT's equations, and that a student learns."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.attention import record_attention
from headway.data.framed import collate_framed
from headway.models import Bert, BertClassifier, BertConfig
from headway.training import OptimizerConfig, StopRequest, TrainingState, fit, optimizer
from headway.training.objectives.distillation import (
    LayersObjective,
    PredictionObjective,
    Student,
    attention_error,
    every_nth,
    hidden_error,
    soft_cross_entropy,
    watched,
)

TEACHER = BertConfig(
    model_dim=24, num_heads=3, ffn_dim=40, num_layers=4, max_length=9, vocabulary=31, dropout=0.0
)
SMALL = BertConfig(
    model_dim=12, num_heads=3, ffn_dim=20, num_layers=2, max_length=9, vocabulary=31, dropout=0.0
)
ROWS = [[2, 5, 6, 7, 3], [2, 7, 3], [2, 8, 9, 3]]
TYPES = [[0, 0, 0, 1, 1], [0] * 3, [0, 0, 1, 1]]
BATCH = collate_framed(ROWS, TYPES, pad=0)


def bert(config):
    made = Bert(config)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return made


@pytest.fixture
def teacher():
    return bert(TEACHER)


def test_blocks_learn_from_every_nth_of_the_teachers():
    assert every_nth(4, 12) == (3, 6, 9, 12)
    assert every_nth(2, 2) == (1, 2) and every_nth(1, 6) == (6,)
    for student in (0, 5, 24):
        with pytest.raises(ValueError, match="multiple"):
            every_nth(student, 12)


def test_what_blocks_make_is_kept_and_no_number_changes(teacher):
    plain = teacher.encode(BATCH.tokens, BATCH.keys, BATCH.types)
    blocks = list(teacher.encoder.blocks)
    with watched(blocks) as seen, record_attention(teacher) as maps:
        again = teacher.encode(BATCH.tokens, BATCH.keys, BATCH.types)
    assert torch.equal(plain, again) and torch.equal(seen.hidden[-1], again)
    assert torch.equal(seen.hidden[0], teacher.embedding(BATCH.tokens, BATCH.types))
    assert len(seen.hidden) == 5 and len(seen.attention) == 4
    block = blocks[2].attention
    q, k = block._queries(block.query(seen.hidden[2])), block._keys(block.key(seen.hidden[2]))
    assert_close(seen.attention[2], q @ k.transpose(-1, -2) / 8**0.5)
    with watched(blocks, weights=True) as seen:
        teacher.encode(BATCH.tokens, BATCH.keys, BATCH.types)
    assert torch.equal(seen.attention[3], maps["encoder.blocks.3.attention"][0])
    assert seen.attention[3].requires_grad
    assert not any(module._forward_hooks for module in teacher.modules())


def test_shared_blocks_are_seen_each_time():
    shared = bert(BertConfig(**{**vars(TEACHER), "shared_layers": True}))
    with watched(list(shared.encoder.blocks)) as seen:
        shared.encode(BATCH.tokens, BATCH.keys)
    assert len(seen.hidden) == 5 and len(seen.attention) == 4


def test_a_kernel_without_a_softmax_has_no_scores():
    linear = bert(BertConfig(**{**vars(TEACHER), "attention": "linear"}))
    with pytest.raises(ValueError, match="no scores"), watched(list(linear.encoder.blocks)):
        pass


def test_errors_are_means_over_each_texts_real_tokens():
    student, wanted = torch.randn(2, 3, 5, 7).unbind(0)  # B3 T5 D7
    keys = BATCH.keys
    expected = [F.mse_loss(student[i, :n], wanted[i, :n]) for i, n in enumerate((5, 3, 4))]
    assert_close(hidden_error(student, wanted, keys), torch.stack(expected))
    student, wanted = torch.randn(2, 3, 2, 5, 5).unbind(0)  # B3 H2 T5
    expected = [
        sum(F.mse_loss(student[i, h, :n, :n], wanted[i, h, :n, :n]) for h in range(2)) / 2
        for i, n in enumerate((5, 3, 4))
    ]
    assert_close(attention_error(student, wanted, keys), torch.stack(expected))
    with pytest.raises(ValueError, match="2 heads, the teacher 1"):
        attention_error(student, wanted[:, :1], keys)


def test_soft_cross_entropy_is_the_teachers_surprise_at_the_student():
    student, wanted = torch.randn(2, 4, 3).unbind(0)
    shares = (wanted / 2).softmax(-1)
    expected = -(shares * torch.log((student / 2).softmax(-1))).sum(-1)
    assert_close(soft_cross_entropy(student, wanted, 2.0), expected)
    hard = torch.tensor([[0.0, 90.0, 0.0]]).expand(4, 3)
    assert_close(
        soft_cross_entropy(student, hard),
        F.cross_entropy(student, torch.ones(4).long(), reduction="none"),
    )
    least = soft_cross_entropy(wanted, wanted)
    assert (soft_cross_entropy(student, wanted) > least).all()


@pytest.mark.parametrize("weights", [False, True])
def test_the_loss_of_layers_is_the_sum_of_the_papers_equations(teacher, weights):
    model = Student(bert(SMALL), 24)
    loss = LayersObjective(teacher, (2, 4), weights)(model, BATCH)
    expected = 0.0
    for row, types in zip(ROWS, TYPES, strict=True):
        seen = []
        for each in (model.model, teacher):
            with watched(list(each.encoder.blocks), weights) as one:
                each.encode(torch.tensor([row]), None, torch.tensor([types]))
            seen.append(one)
        own, theirs = seen
        expected += F.mse_loss(own.hidden[0] @ model.embeddings.weight.T, theirs.hidden[0])
        for m, n in ((1, 2), (2, 4)):
            expected += F.mse_loss(own.hidden[m] @ model.hidden.weight.T, theirs.hidden[n])
            expected += F.mse_loss(own.attention[m - 1], theirs.attention[n - 1])
    assert loss.count == 3
    assert_close(loss.total, expected, rtol=0, atol=1e-4)
    loss.total.backward()
    assert all(p.grad is None for p in teacher.parameters())
    named = dict(model.named_parameters())
    for name in (
        "embeddings.weight",
        "hidden.weight",
        "model.encoder.blocks.0.attention.key.weight",
    ):
        assert named[name].grad.abs().max() > 0, name


def test_texts_apart_give_the_gradient_of_the_whole_batch(teacher):
    model = Student(bert(SMALL), 24)
    objective, grads = LayersObjective(teacher, (2, 4)), []
    for parts in ([slice(0, 3)], [slice(0, 2), slice(2, 3)]):
        model.zero_grad()
        for part in parts:
            objective(model, collate_framed(ROWS[part], TYPES[part], pad=5)).total.backward()
        grads.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    for name, expected in grads[0].items():
        assert_close(grads[1][name], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layers", [(4,), (2, 5), (1, 2, 3)])
def test_layers_that_are_not_there_are_refused(teacher, layers):
    with pytest.raises(ValueError, match="must name for each of 2 blocks one of the teacher's 4"):
        LayersObjective(teacher, layers)(Student(bert(SMALL), 24), BATCH)


def test_a_model_without_an_encoder_is_no_student():
    with pytest.raises(ValueError, match="a Linear has no encoder"):
        Student(torch.nn.Linear(2, 3), 24)


def test_answers_of_classifiers_are_learned_with_the_teachers_doubts(teacher):
    wise, young = BertClassifier(teacher, 3, dropout=0.0), BertClassifier(bert(SMALL), 3)
    young.eval()
    model = Student(young, 24)
    loss = PredictionObjective(wise, 2.0)(model, BATCH)
    logits = (each.eval()(BATCH.tokens, BATCH.keys, BATCH.types) for each in (young, wise))
    assert_close(loss.total, soft_cross_entropy(*logits, 2.0).sum())
    assert loss.count == 3
    layered = LayersObjective(wise, (2, 4))(model, BATCH)
    assert layered.total > 0 and layered.count == 3


def test_a_student_comes_to_see_as_its_teacher_does(teacher):
    model = Student(Bert(SMALL), 24)
    run = TrainingState(model, optimizer(model, OptimizerConfig(lr=1e-2)))

    def batch(seed):
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randint(4, 31, (16, 5), generator=generator).tolist()
        part = collate_framed([[2, *row, 3] for row in rows], None, 0)
        object.__setattr__(part, "indices", ())
        return part

    objective = LayersObjective(teacher, (2, 4))
    with torch.no_grad():
        before = objective(model, batch(9999)).total
    fit(
        run,
        ((0, 0, batch(seed)) for seed in range(1000)),
        objective,
        [],
        steps=100,
        learning_rate=lambda step: 1e-2,
        precision=nullcontext,
        request=StopRequest(),
    )
    with torch.no_grad():
        assert objective(model.eval(), batch(9999)).total < before / 2
