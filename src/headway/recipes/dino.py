"""An encoder of pictures that teaches itself, as a run: pictures in, a Vision Transformer out.

Caron et al. 2021 (DINO). The classes of the pictures, where they have some, are for the scores
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.blocks import PrototypeHead
from headway.bundle import ImageEncoderBundle
from headway.data.image_batches import in_order
from headway.data.image_corpus import ImageCorpus
from headway.data.image_views import ViewBatches
from headway.evaluation import neighbours_accuracy, spread
from headway.machine import Machine
from headway.models import SelfDistilled, ViT, start_vit
from headway.recipes.dino_config import DinoRunConfig
from headway.recipes.vision import ImageStart, decided_of, open_images
from headway.recipes.vision_data import PreparedImages, check_pictures, prepare_pictures
from headway.settings import override
from headway.shapes import Float, Int, Tensor
from headway.tasks.job import Emit, Example, Family, Job, moved, prepare_blocks
from headway.training import SelfDistillationObjective, Stream


class DinoJob:
    """A `Job`: pictures, and a ViT that learns to see them. start: what it begins as, or None."""

    def __init__(
        self,
        config: DinoRunConfig,
        prepared: PreparedImages,
        start: ImageStart | None,
        machine: Machine,
    ) -> None:
        decided = decided_of(config.model, prepared.classes.reader, start)
        if len(prepared.train.classes) < 2:
            decided["evaluation.metric"] = "spread"
        self.config: DinoRunConfig = override(config, decided, "the pictures")
        self.prepared, self.start, self.machine = prepared, start, machine
        model, training = self.config.model, self.config.training
        normalised = prepared.classes.reader.normalised
        self.rows = ViewBatches(
            prepared.train, normalised, config.views, model.patch, training.rows, training.seed
        )
        self.objective = SelfDistillationObjective(config.teacher, training.steps)

    def build(self) -> nn.Module:
        config = self.config
        shape = config.model.vit
        vit = ViT(shape) if self.start is None else start_vit(self.start.vit, shape)
        head = PrototypeHead(
            shape.model_dim,
            config.model.hidden_dim,
            config.model.bottleneck,
            config.model.prototypes,
        )
        model = SelfDistilled(vit, head, config.teacher.teacher_start)
        prepare_blocks(model, config.training, config.machine, model.student, "encode")
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return moved(self.rows.stream(epoch, position), self.machine.device)

    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> dict[str, float]:
        """Of the teacher: held-out pictures whose neighbours among training pictures are of their
        class, and how far its vectors spread."""
        evaluation, train = self.config.evaluation, self.prepared.train
        step = max(1, len(train) // evaluation.pictures)
        chosen = np.arange(0, len(train), step)[: evaluation.pictures]
        known, classes = self._vectors(model, train, chosen, go_on)
        valid = self.prepared.valid
        asked, true = self._vectors(model, valid, np.arange(len(valid)), go_on)
        numbers = {"spread": spread(asked)}
        if len(train.classes) > 1:
            k = evaluation.neighbours
            numbers["knn"] = neighbours_accuracy(known, classes, asked, true, k)
        return numbers

    @torch.inference_mode()
    def _vectors(
        self, model: Any, corpus: ImageCorpus, chosen: Any, go_on: Callable[..., None]
    ) -> tuple[Float[Tensor, "N D"], Int[Tensor, " N"]]:
        """Of [CLS], of these pictures as they are."""
        found, labels = [], []
        normalise, rows = self.prepared.classes.reader.normalised, self.config.training.rows
        for images, classes in in_order(corpus, normalise, rows, chosen):
            go_on()
            with self.machine.precision():
                hidden = model.teacher.encode(images.to(self.machine.device))
            found.append(model.teacher.of_class(hidden).float().cpu())
            labels.append(classes)
        return torch.cat(found), torch.cat(labels)

    def example(self) -> Example:
        return Example(self.prepared.valid.pixels[0].transpose(1, 2, 0))

    def bundle(self, model: Any) -> ImageEncoderBundle:
        """The teacher, which is the better of the two (Caron et al. 2021, section 5.2)."""
        reader = self.prepared.classes.reader
        return ImageEncoderBundle(model.teacher, reader)

    def plan(self) -> dict[str, Any]:
        shape, training, views = self.config.model, self.config.training, self.config.views
        (y, x), (height, width), small = shape.vit.image, shape.patch, self.rows.small
        return {
            "model": f"{shape.num_layers} layers, d={shape.model_dim}, {shape.num_heads} heads, "
            f"pictures of {y} x {x} x {shape.channels} in patches of {height} x {width}, and a "
            "teacher",
            "batches": f"{training.rows * training.accumulate:,} pictures, each in {views.whole} "
            f"large views and {views.local} of {small[0]} x {small[1]}",
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": "pictures",
        }


def _prepare(config: DinoRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    start = open_images(config.training.start, "an encoder of pictures")
    reader = None if start is None else start.reader
    return DinoJob(config, prepare_pictures(config, reader, folder, emit), start, machine)


DINO = Family(check=check_pictures, prepare=_prepare)
"""All that the training run of an encoder that teaches itself needs of its family."""
