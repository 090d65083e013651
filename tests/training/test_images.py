"""What a classifier of pictures learns from."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from headway.data.image_batches import ImageBatch
from headway.training import ImageObjective

B, C = 4, 3


class Fixed(nn.Module):
    """The same logits whatever it sees."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, images):
        return self.logits


@pytest.fixture
def model():
    return Fixed(torch.randn(B, C))


def batch(others=None, shares=None):
    targets = torch.tensor([2, 0, 1, 2])
    return ImageBatch(
        torch.zeros(B, 1, 2, 2),
        targets,
        targets if others is None else torch.tensor(others),
        torch.ones(B) if shares is None else torch.tensor(shares),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_pictures_of_one_class_have_its_cross_entropy(smoothing, model):
    loss = ImageObjective(smoothing)(model, batch())
    wanted = F.cross_entropy(
        model.logits, batch().targets, reduction="sum", label_smoothing=smoothing
    )
    assert_close(loss.total, wanted)
    assert loss.count == B
    assert_close(
        loss.nats, F.cross_entropy(model.logits, batch().targets, reduction="sum").detach()
    )


def test_mixed_pictures_have_that_of_both_by_their_shares(model):
    others, shares = [0, 0, 2, 1], [0.9, 0.5, 0.6, 1.0]
    loss = ImageObjective()(model, batch(others, shares))
    mixed = torch.zeros(B, C)
    for i, (own, other, share) in enumerate(zip([2, 0, 1, 2], others, shares, strict=True)):
        mixed[i, own] += share
        mixed[i, other] += 1 - share
    assert_close(loss.total, F.cross_entropy(model.logits, mixed, reduction="sum"))
    loss.total.backward()
    assert_close(model.logits.grad, model.logits.detach().softmax(1) - mixed)
