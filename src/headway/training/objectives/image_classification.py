"""What pictures show: classes, of which a mixed picture has two."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from headway.data.image_batches import ImageBatch
from headway.models import ViTClassifier
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class ImageObjective:
    """-sum over classes c of q_c log P(c | picture), q = (1 - e) t + e / C.

    t: all on the class, or of a mixed picture its share on the one and the rest on the other (Zhang
    et al. 2018, mixup). e, `smoothing`: Szegedy et al. 2016, section 7. `nats` is without
    smoothing. The target that is counted is the picture.
    """

    smoothing: float = 0.0

    def __call__(self, model: ViTClassifier, batch: ImageBatch) -> Loss:
        logs = F.log_softmax(model(batch.images).float(), dim=-1)  # B C
        own = logs.gather(1, batch.targets[:, None])[:, 0]
        other = logs.gather(1, batch.others[:, None])[:, 0]
        nats = -(batch.shares * own + (1 - batch.shares) * other)
        total = (1 - self.smoothing) * nats - self.smoothing * logs.mean(1)
        return Loss(total.sum(), nats.detach().sum(), len(batch.targets))
