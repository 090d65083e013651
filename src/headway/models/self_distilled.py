"""An encoder of images that teaches itself: DINO (lectures 3.9)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import nn

from headway.blocks import PrototypeHead
from headway.models.vit import ViT
from headway.shapes import Float, Tensor


class SelfDistilled(nn.Module):
    """A student, and a teacher that is the running mean of what the student was.

    Only the student has gradients. centre: the running mean of what the teacher says; temperature:
    what the teacher's logits are divided by. All of it is state, so that a run goes on exactly.
    Caron et al. 2021, section 3.1, figure 2 and algorithm 1.
    """

    centre: Float[Tensor, " K"]
    temperature: Float[Tensor, ""]
    said: Float[Tensor, " K"]
    heard: Float[Tensor, ""]

    def __init__(self, student: ViT, head: PrototypeHead, temperature: float) -> None:
        super().__init__()
        if not student.config.class_token:
            raise ValueError("an image's vector is [CLS]'s: class_token must be true")
        self.student, self.head = student, head
        self.teacher, self.teacher_head = deepcopy(student), deepcopy(head)
        for module in (self.teacher, self.teacher_head):
            module.requires_grad_(False)
        prototypes = len(head.prototypes)
        self.register_buffer("centre", torch.zeros(prototypes))
        self.register_buffer("temperature", torch.tensor(temperature))
        self.register_buffer("said", torch.zeros(prototypes))
        self.register_buffer("heard", torch.zeros(()))

    def forward(self, views: Sequence[Float[Tensor, "B C _ _"]]) -> list[Float[Tensor, "B K"]]:
        """What the student says of each view; views of one size are looked at together."""
        found: list[Tensor] = []
        for together in _by_size(views):
            vectors = self.student.of_class(self.student.encode(torch.cat(list(together))))
            found += self.head(vectors).float().chunk(len(together))
        return found

    @torch.no_grad()
    def teach(self, views: Sequence[Float[Tensor, "B C _ _"]]) -> list[Float[Tensor, "B K"]]:
        """P_t = softmax((t - centre) / temperature) of each view. What the teacher says is noted,
        for `follow`."""
        found = []
        for together in _by_size(views):
            vectors = self.teacher.of_class(self.teacher.encode(torch.cat(list(together))))
            logits = self.teacher_head(vectors).float()
            self.said += logits.sum(0)
            self.heard += len(logits)
            found += ((logits - self.centre) / self.temperature).softmax(-1).chunk(len(together))
        return found

    @torch.no_grad()
    def follow(self, momentum: float, centre_momentum: float) -> None:
        """teacher <- m teacher + (1 - m) student; centre <- c centre + (1 - c) mean of what the
        teacher said since the last time. Caron et al. 2021, equation 4."""
        pairs = ((self.teacher, self.student), (self.teacher_head, self.head))
        for teacher, student in pairs:
            for own, new in zip(teacher.parameters(), student.parameters(), strict=True):
                own.lerp_(new, 1 - momentum)
        if self.heard > 0:
            self.centre.lerp_(self.said / self.heard, 1 - centre_momentum)
            self.said.zero_()
            self.heard.zero_()


def _by_size(views: Sequence[Tensor]) -> list[list[Tensor]]:
    """Neighbours of one size together, in order."""
    found: list[list[Tensor]] = []
    for view in views:
        if found and found[-1][0].shape == view.shape:
            found[-1].append(view)
        else:
            found.append([view])
    return found
