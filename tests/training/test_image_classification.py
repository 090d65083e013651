"""What a classifier of pictures learns from."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.data.image_batches import ImageBatch
from headway.models import ViT, ViTClassifier, ViTConfig
from headway.training import ImageObjective

B, C = 4, 3


IMAGES = torch.randn(B, 1, 2, 2)


@pytest.fixture
def model():
    vit = ViT(
        ViTConfig(model_dim=8, num_heads=2, ffn_dim=8, image_size=2, patch_size=2, channels=1)
    )
    found = ViTClassifier(vit, C)
    torch.nn.init.normal_(found.head.weight)
    return found


def batch(others=None, shares=None):
    targets = torch.tensor([2, 0, 1, 2])
    return ImageBatch(
        IMAGES,
        targets,
        targets if others is None else torch.tensor(others),
        torch.ones(B) if shares is None else torch.tensor(shares),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_pictures_of_one_class_have_its_cross_entropy(smoothing, model):
    loss, logits = ImageObjective(smoothing)(model, batch()), model(IMAGES)
    targets = batch().targets
    assert_close(
        loss.total, F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    )
    assert loss.count == B
    assert_close(loss.nats, F.cross_entropy(logits, targets, reduction="sum").detach())


def test_mixed_pictures_have_that_of_both_by_their_shares(model):
    others, shares = [0, 0, 2, 1], [0.9, 0.5, 0.6, 1.0]
    loss = ImageObjective()(model, batch(others, shares))
    mixed = torch.zeros(B, C)
    for i, (own, other, share) in enumerate(zip([2, 0, 1, 2], others, shares, strict=True)):
        mixed[i, own] += share
        mixed[i, other] += 1 - share
    logits = model(IMAGES)
    assert_close(loss.total, F.cross_entropy(logits, mixed, reduction="sum"))
    loss.total.backward()
    assert_close(model.head.bias.grad, (logits.softmax(1) - mixed).sum(0).detach())
