"""Image classification with label smoothing and mixup."""

from dataclasses import dataclass
from typing import Protocol

import torch.nn.functional as F

from headway.base.shapes import Float, Int, Tensor
from headway.models import ViTClassifier
from headway.training.objectives.contract import Loss


class Images(Protocol):
    """Normalised images, the class of each, and the class of the image mixed in, with the mixing
    weight of the first image."""

    @property
    def images(self) -> Float[Tensor, "B C Y X"]: ...

    @property
    def targets(self) -> Int[Tensor, " B"]: ...

    @property
    def mixed_targets(self) -> Int[Tensor, " B"]: ...

    @property
    def mixing_weights(self) -> Float[Tensor, " B"]: ...


@dataclass(frozen=True)
class ImageObjective:
    """Classification loss: -sum_c q_c log P(c | image) over classes c, q = (1 - e) t + e / C.

    t: one-hot target distribution; for an image mixed of two, their fractions (Zhang et al. 2018,
    mixup). smoothing: e (Szegedy et al. 2016, section 7). `nats` is without smoothing. Each image
    counts as one target.
    """

    smoothing: float = 0.0

    def __call__(self, model: ViTClassifier, batch: Images) -> Loss:
        logs = F.log_softmax(model(batch.images).float(), dim=-1)  # B C
        first = logs.gather(1, batch.targets[:, None])[:, 0]
        second = logs.gather(1, batch.mixed_targets[:, None])[:, 0]
        nats = -(batch.mixing_weights * first + (1 - batch.mixing_weights) * second)
        total = (1 - self.smoothing) * nats - self.smoothing * logs.mean(1)
        return Loss(total.sum(), nats.detach().sum(), len(batch.targets))
