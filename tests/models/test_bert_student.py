"""A student begins with what it can take from its teacher."""

import pytest
import torch
from torch.testing import assert_close

from headway.models import Bert, BertConfig, student_config, student_of

TEACHER = {"model_dim": 12, "num_heads": 3, "ffn_dim": 20, "num_layers": 4, "vocabulary": 40}
TOKENS = torch.randint(40, (2, 5), generator=torch.Generator().manual_seed(1))


def teacher(**others):
    torch.manual_seed(3)
    return Bert(BertConfig(**TEACHER, max_length=9, dropout=0.0, **others)).eval()


def test_a_shape_leaves_all_else_as_it_is():
    config = student_config(teacher().config, {"num_layers": 2, "model_dim": 6, "num_heads": None})
    assert (config.num_layers, config.model_dim, config.num_heads) == (2, 6, 3)
    assert config.ffn_dim == 10  # as many times the width
    assert config.vocabulary == 40 and config.max_length == 9


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ({"num_layers": 5}, "at most"),
        ({"model_dim": 7}, "multiple"),
        ({"vocabulary": 7}, "not of a student's shape"),
    ],
)
def test_impossible_shapes_are_refused(shape, says):
    with pytest.raises(ValueError, match=says):
        student_config(teacher().config, shape)


def test_a_student_of_its_teachers_shape_computes_the_same():
    model = teacher()
    student = student_of(model, student_config(model.config, {})).eval()
    assert_close(student.encode(TOKENS), model.encode(TOKENS))
    assert student.tokens.weight is not model.tokens.weight


def test_a_shallower_student_has_the_blocks_it_will_be_compared_with():
    model = teacher()
    student = student_of(model, student_config(model.config, {"num_layers": 2})).eval()
    for ours, theirs in ((0, 1), (1, 3)):
        for a, b in zip(
            student.encoder.blocks[ours].parameters(),
            model.encoder.blocks[theirs].parameters(),
            strict=True,
        ):
            assert torch.equal(a, b)
    assert torch.equal(student.pooler.project.weight, model.pooler.project.weight)


def test_narrow_embeddings_are_the_best_of_their_rank_and_lead_back():
    model = teacher()
    student = student_of(model, student_config(model.config, {"embedding_dim": 5})).eval()
    back = student.tokens.weight @ student.widen.weight.T
    words = model.tokens.weight
    values = torch.linalg.svdvals(words)
    assert_close((back - words).norm(), values[5:].norm(), rtol=1e-4, atol=1e-5)
    types = model.embedding.types.weight @ student.widen.weight
    assert_close(student.embedding.types.weight, types)


def test_a_narrower_model_takes_the_embeddings_only():
    model = teacher()
    shape = {"num_layers": 1, "model_dim": 6}
    student = student_of(model, student_config(model.config, shape)).eval()
    assert student.encode(TOKENS).shape == (2, 5, 6)
    assert student.tokens.weight.abs().sum() > 0
    kept = student.tokens.weight.norm() / model.tokens.weight.norm()
    assert 0.5 < kept < 1  # the six strongest of twelve directions
