"""Classifiers of pictures as a run: a Vision Transformer from nothing, or from one that has learned
to see.

Dosovitskiy et al. 2021, section 3; how it is trained on few pictures: Touvron et al. 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from headway.blocks import patchify
from headway.bundle import ImageClassifierBundle, ImageEncoderBundle
from headway.data.image_batches import ImageBatches, in_order
from headway.data.image_reader import ImageReader
from headway.errors import UsageError
from headway.evaluation import class_scores
from headway.machine import Machine
from headway.models import ViT, ViTClassifier, ViTConfig, start_vit
from headway.recipes.vision_config import EPOCHS, SHAPE, PicturesViTConfig, VisionRunConfig
from headway.recipes.vision_data import PreparedImages, check_pictures, prepare_pictures
from headway.settings import override
from headway.shapes import Float, Int, Tensor
from headway.tasks.job import Emit, Example, Family, Job, moved, planned_steps, prepare_blocks
from headway.tasks.opening import load
from headway.training import ImageObjective, Stream

PRINCIPAL = 2000  # pictures whose patches tell the principal components
TOP = 5
ImageStart = ImageEncoderBundle | ImageClassifierBundle


class VisionJob:
    """A `Job`: pictures of known classes, and a ViT. start: what it begins as, or None."""

    def __init__(
        self,
        config: VisionRunConfig,
        prepared: PreparedImages,
        start: ImageStart | None,
        machine: Machine,
    ) -> None:
        self.prepared, self.start, self.machine = prepared, start, machine
        self.rows = ImageBatches(
            prepared.train,
            prepared.classes.reader.normalised,
            config.augmentation,
            config.training.rows,
            config.training.seed,
        )
        self.config = _fitted(config, prepared, start, self.rows.batches_an_epoch)
        self.objective = ImageObjective(config.training.smoothing)

    def build(self) -> nn.Module:
        config = self.config
        shape = config.model.vit
        vit = ViT(shape) if self.start is None else start_vit(self.start.vit, shape)
        if config.model.projection == "pca":
            vit.embedding.patches.fix(self._some_patches(shape))
        classes = len(self.prepared.classes.labels)
        model = ViTClassifier(vit, classes, config.model.pooling, config.model.head_dropout)
        prepare_blocks(model, config.training, config.machine, vit, "encode")
        return model

    def _some_patches(self, shape: ViTConfig) -> Float[Tensor, "N I"]:
        """Of training pictures, the same ones for the same seed."""
        train = self.prepared.train
        random = np.random.default_rng(self.config.training.seed)
        chosen = np.sort(random.permutation(len(train))[:PRINCIPAL])
        images = self.prepared.classes.reader.normalised(torch.from_numpy(train.pixels[chosen]))
        return patchify(images, *shape.patch).flatten(0, 1)

    def stream(self, epoch: int, position: int) -> Stream:
        return moved(self.rows.stream(epoch, position), self.machine.device)

    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> dict[str, float]:
        """Scores on the held-out pictures."""
        logits, labels = self._logits(model, go_on)
        return scores(logits, labels)

    @torch.inference_mode()
    def _logits(
        self, model: Any, go_on: Callable[..., None]
    ) -> tuple[Float[Tensor, "N C"], Int[Tensor, " N"]]:
        normalise, found, true = self.prepared.classes.reader.normalised, [], []
        for images, labels in in_order(self.prepared.valid, normalise, self.config.training.rows):
            go_on()
            with self.machine.precision():
                found.append(model(images.to(self.machine.device)).float().cpu())
            true.append(labels)
        return torch.cat(found), torch.cat(true)

    def example(self) -> Example:
        return Example(self.prepared.valid.pixels[0].transpose(1, 2, 0))

    def bundle(self, model: Any) -> ImageClassifierBundle:
        return ImageClassifierBundle(model, self.prepared.classes)

    def plan(self) -> dict[str, Any]:
        shape, training = self.config.model, self.config.training
        (y, x), (height, width) = shape.vit.image, shape.patch
        return {
            "model": f"{shape.num_layers} layers, d={shape.model_dim}, {shape.num_heads} heads, "
            f"pictures of {y} x {x} x {shape.channels} in patches of {height} x {width}, "
            f"{len(self.prepared.classes.labels)} classes",
            "batches": f"{training.rows * training.accumulate:,} pictures",
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": "pictures",
        }


def scores(logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, float]:
    """`class_scores` and the mean loss; of more than five classes also how often the right one is
    among the five likeliest."""
    loss = F.cross_entropy(logits, labels).item()
    found = class_scores(logits.argmax(-1).tolist(), labels.tolist())
    if logits.shape[1] > TOP:
        among = (logits.topk(TOP, dim=-1).indices == labels[:, None]).any(1)
        found["top5"] = float(among.float().mean())
    return {**found, "loss": loss, "negative_loss": -loss}


def _fitted(
    config: VisionRunConfig, prepared: PreparedImages, start: ImageStart | None, batches: int
) -> VisionRunConfig:
    """With what was left to the pictures and to the start. UsageError where they disagree."""
    decided: dict[str, Any] = planned_steps(config.training, batches, 1, EPOCHS)
    decided |= decided_of(config.model, prepared.classes.reader, start)
    return override(config, decided, "the pictures" if start is None else "the model")


def decided_of(
    model: PicturesViTConfig, reader: ImageReader, start: ImageStart | None
) -> dict[str, Any]:
    """Settings of the model that the pictures and the start decide. UsageError where another value
    than the start's was asked for."""
    usual = type(model)()
    decided = {} if start is None else taken("model", model, usual, start.vit.config, SHAPE)
    return decided | size_of("model", reader)


def size_of(key: str, reader: ImageReader) -> dict[str, Any]:
    """The settings, under `key`, that say which pictures are seen."""
    width = None if reader.width == reader.height else reader.width
    size = {"image_size": reader.height, "image_width": width, "channels": reader.channels}
    return {f"{key}.{name}": value for name, value in size.items()}


def taken(key: str, asked: Any, usual: Any, start: Any, names: Sequence[str]) -> dict[str, Any]:
    """The settings, under `key`, of the model to start from. UsageError where another value was
    asked for, which is not the usual one either."""
    for name in names:
        value, has = getattr(asked, name), getattr(start, name)
        if value not in (getattr(usual, name), has) and name != "image_width":
            raise UsageError(f"{key}.{name}={value}, and the model to start from has {has}")
    return {f"{key}.{name}": getattr(start, name) for name in names}


def open_images(name: str | None, what: str) -> ImageStart | None:
    """The model to start from, if one is named. UsageError if it does not look at pictures."""
    if name is None:
        return None
    start = load(name)
    if not isinstance(start, ImageStart):
        raise UsageError(
            f"{name} holds a {start.kind}; {what} is made from an image encoder or a classifier of "
            "pictures"
        )
    return start


def _prepare(config: VisionRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    start = open_images(config.training.start, "a classifier of pictures")
    reader = None if start is None else start.reader
    return VisionJob(config, prepare_pictures(config, reader, folder, emit), start, machine)


VISION = Family(check=check_pictures, prepare=_prepare)
"""How a classifier of images is trained: its check and its preparation."""
