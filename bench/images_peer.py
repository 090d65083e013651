"""The peer of `bench.images`: transformers' ViT and the usual training loop.

Images are decoded once and kept in memory; each step flips and shifts those of its batch.
"""

from __future__ import annotations

import io
import json
import math
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from headway.base.files import write_file

MEAN, SPREAD = 0.5, 0.5
CLIP = 1.0


def main(settings: dict[str, Any]) -> None:
    """Train, evaluate, and write the accuracy to the path settings["output"]."""
    from transformers import ViTConfig, ViTForImageClassification

    torch.set_num_threads(settings["threads"])
    torch.set_flush_denormal(True)
    budget = settings["budget"]
    torch.manual_seed(budget["seed"])
    (train, labels, names), (valid, true, _) = (_read(Path(file)) for file in settings["files"])
    outputs: dict[str, Any] = {"num_labels": len(names)}  # of the class above ViTConfig
    model = ViTForImageClassification(
        ViTConfig(
            hidden_size=budget["width"],
            num_hidden_layers=budget["layers"],
            num_attention_heads=budget["heads"],
            intermediate_size=budget["ffn"],
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            image_size=train.shape[-1],
            patch_size=budget["patch"],
            **outputs,
        )
    )
    narrow = settings["dtype"] == "bfloat16"
    _train(model, train, labels, budget, narrow)
    model.eval()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=narrow):
        predicted = [model(_scaled(part)).logits.argmax(-1) for part in valid.split(256)]
    accuracy = float((torch.cat(predicted) == true).float().mean())
    write_file(Path(settings["output"]), json.dumps({"accuracy": accuracy}).encode())


def _read(file: Path) -> tuple[Tensor, Tensor, list[str]]:
    """Return images, uint8 N C Y X; their class numbers; the names of the classes."""
    with zipfile.ZipFile(file) as archive:
        members = sorted(name for name in archive.namelist() if name.endswith(".jpg"))
        names = sorted({name.split("/")[-2] for name in members})
        pixels = [np.asarray(Image.open(io.BytesIO(archive.read(name)))) for name in members]
    labels = torch.tensor([names.index(name.split("/")[-2]) for name in members])
    return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2), labels, names


def _scaled(images: Tensor) -> Tensor:
    return (images / 255.0 - MEAN) / SPREAD


def _moved(images: Tensor, padding: int) -> Tensor:
    """Flip images at random, and shift them by up to `padding` pixels in each direction."""
    count, _, height, width = images.shape
    flipped = torch.where(torch.rand(count, 1, 1, 1) < 0.5, images.flip(-1), images)
    padded = F.pad(flipped, [padding] * 4)
    down, right = torch.randint(0, 2 * padding + 1, (2, count)).tolist()
    parts = [
        image[:, y : y + height, x : x + width]
        for image, y, x in zip(padded, down, right, strict=True)
    ]
    return torch.stack(parts)


def _train(
    model: Any, images: Tensor, labels: Tensor, budget: dict[str, Any], narrow: bool
) -> None:
    model.train()
    parameters = list(model.parameters())
    update = torch.optim.AdamW(parameters, lr=budget["lr"], weight_decay=budget["weight_decay"])
    epoch_steps = len(images) // budget["batch_size"]
    steps, warmup = budget["epochs"] * epoch_steps, budget["warmup"]

    def rate(step: int) -> float:
        part = (step - warmup) / (steps - warmup)
        return min((step + 1) / warmup, 0.5 + 0.5 * math.cos(math.pi * max(0.0, part)))

    shape = torch.optim.lr_scheduler.LambdaLR(update, rate)
    for epoch in range(budget["epochs"]):
        order = torch.randperm(len(images))
        for step in range(epoch_steps):
            chosen = order[step * budget["batch_size"] : (step + 1) * budget["batch_size"]]
            batch = _scaled(_moved(images[chosen], budget["padding"]))
            update.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
                logits = model(batch).logits
            loss = F.cross_entropy(
                logits.float(), labels[chosen], label_smoothing=budget["smoothing"]
            )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            update.step()
            shape.step()
        print(f"epoch {epoch + 1} of {budget['epochs']}, loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
