"""Self-distillation: teacher <- m teacher + (1 - m) student; the student predicts the teacher.

DINO trains an image encoder without labels. The student sees a crop of an image and predicts the
distribution over prototypes that the teacher gives for another crop. The teacher is an exponential
moving average of the student and has no gradients.

>>> import torch
>>> from headway.blocks import PrototypeHead
>>> from headway.models import SelfDistilled, ViT, ViTConfig
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1}
>>> vit = ViT(ViTConfig(image_size=4, patch_size=2, channels=1, **size))
>>> model = SelfDistilled(vit, PrototypeHead(8, 8, 4, prototypes=5), temperature=0.04)
>>> image = torch.arange(16.0).view(1, 1, 4, 4)  # B C Y X: four patches of 2 x 2 pixels
>>> (distribution,) = model.teacher_probabilities([image])
>>> distribution.shape, distribution.sum().item() > 0.999  # over the 5 prototypes
(torch.Size([1, 5]), True)
>>> _ = model.student.encoder.norm.gain.data.fill_(3.0)  # the teacher's are still 1
>>> model.update_teacher(momentum=0.75, centre_momentum=0.9)
>>> model.teacher.encoder.norm.gain[0].item()  # 0.75 x 1 + 0.25 x 3
1.5
"""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import nn

from headway.base.shapes import Float, Tensor
from headway.blocks import PrototypeHead
from headway.models.vit import ViT


class SelfDistilled(nn.Module):
    """A student encoder, and a teacher that is an exponential moving average of the student.

    Only the student has gradients. The buffers are part of the saved state, so that a run resumes
    exactly. centre: moving average of the teacher's logits, which is subtracted from them;
    temperature: divisor of the teacher's logits; logit_sum, logit_count: sum and number of the
    teacher's logits since the last `update_teacher`. summed: the buffers that processes which train
    together add up. Raises ValueError if the encoder has no class
    token. Caron et al. 2021, section 3.1, figure 2 and algorithm 1.
    """

    summed = ("logit_sum", "logit_count")

    centre: Float[Tensor, " K"]
    temperature: Float[Tensor, ""]
    logit_sum: Float[Tensor, " K"]
    logit_count: Float[Tensor, ""]

    def __init__(self, student: ViT, head: PrototypeHead, temperature: float) -> None:
        super().__init__()
        if not student.config.class_token:
            raise ValueError("self-distillation uses the vector of [CLS]: set class_token=true")
        self.student, self.head = student, head
        self.teacher, self.teacher_head = deepcopy(student), deepcopy(head)
        for module in (self.teacher, self.teacher_head):
            module.requires_grad_(False)
        prototypes = len(head.prototypes)
        self.register_buffer("centre", torch.zeros(prototypes))
        self.register_buffer("temperature", torch.tensor(temperature))
        self.register_buffer("logit_sum", torch.zeros(prototypes))
        self.register_buffer("logit_count", torch.zeros(()))

    def forward(self, views: Sequence[Float[Tensor, "B C _ _"]]) -> list[Float[Tensor, "B K"]]:
        """Return the student's logits of each view; views of one size are one batch."""
        logits: list[Tensor] = []
        for batch in _by_size(views):
            vectors = self.student.class_vector(self.student.encode(torch.cat(list(batch))))
            logits += self.head(vectors).float().chunk(len(batch))
        return logits

    @torch.no_grad()
    def teacher_probabilities(
        self, views: Sequence[Float[Tensor, "B C _ _"]]
    ) -> list[Float[Tensor, "B K"]]:
        """Return P_t = softmax((t - centre) / temperature) of each view, t the teacher's logits.

        The logits are added to the sums from which `update_teacher` updates the centre.
        """
        probabilities: list[Tensor] = []
        for batch in _by_size(views):
            vectors = self.teacher.class_vector(self.teacher.encode(torch.cat(list(batch))))
            logits = self.teacher_head(vectors).float()
            self.logit_sum += logits.sum(0)
            self.logit_count += len(logits)
            sharpened = ((logits - self.centre) / self.temperature).softmax(-1)
            probabilities += sharpened.chunk(len(batch))
        return probabilities

    @torch.no_grad()
    def update_teacher(self, momentum: float, centre_momentum: float) -> None:
        """Update the teacher and the centre, once per step of the student.

        teacher <- m teacher + (1 - m) student; centre <- c centre + (1 - c) mean of the teacher's
        logits since the last update. Caron et al. 2021, section 3.1 and equation 4.
        """
        pairs = ((self.teacher, self.student), (self.teacher_head, self.head))
        for teacher, student in pairs:
            for old, new in zip(teacher.parameters(), student.parameters(), strict=True):
                old.lerp_(new, 1 - momentum)
        if self.logit_count > 0:
            self.centre.lerp_(self.logit_sum / self.logit_count, 1 - centre_momentum)
            self.logit_sum.zero_()
            self.logit_count.zero_()


def _by_size(views: Sequence[Tensor]) -> list[list[Tensor]]:
    """Group consecutive views of one size, in order."""
    groups: list[list[Tensor]] = []
    for view in views:
        if groups and groups[-1][0].shape == view.shape:
            groups[-1].append(view)
        else:
            groups.append([view])
    return groups
