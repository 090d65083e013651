"""Losses of image classification."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.models import ViT, ViTClassifier, ViTConfig
from headway.tasks.image_classification.data import ImageBatch
from headway.training import ImageObjective

B, C = 4, 3


IMAGES = torch.randn(B, 1, 2, 2)


@pytest.fixture
def model():
    vit = ViT(
        ViTConfig(model_dim=8, num_heads=2, ffn_dim=8, image_size=2, patch_size=2, channels=1)
    )
    classifier = ViTClassifier(vit, C)
    torch.nn.init.normal_(classifier.head.weight)
    return classifier


def batch(second_targets=None, fractions=None):
    targets = torch.tensor([2, 0, 1, 2])
    return ImageBatch(
        IMAGES,
        targets,
        targets if second_targets is None else torch.tensor(second_targets),
        torch.ones(B) if fractions is None else torch.tensor(fractions),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_images_of_one_class_have_the_smoothed_cross_entropy(smoothing, model):
    loss, logits = ImageObjective(smoothing)(model, batch()), model(IMAGES)
    targets = batch().targets
    assert_close(
        loss.total, F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    )
    assert loss.count == B
    assert_close(loss.nats, F.cross_entropy(logits, targets, reduction="sum").detach())


def test_mixed_images_have_the_cross_entropy_of_both_classes_by_their_fractions(model):
    second_targets, fractions = [0, 0, 2, 1], [0.9, 0.5, 0.6, 1.0]
    loss = ImageObjective()(model, batch(second_targets, fractions))
    mixed = torch.zeros(B, C)
    for i, (first, second, fraction) in enumerate(
        zip([2, 0, 1, 2], second_targets, fractions, strict=True)
    ):
        mixed[i, first] += fraction
        mixed[i, second] += 1 - fraction
    logits = model(IMAGES)
    assert_close(loss.total, F.cross_entropy(logits, mixed, reduction="sum"))
    loss.total.backward()
    assert_close(model.head.bias.grad, (logits.softmax(1) - mixed).sum(0).detach())
