"""Text classifiers as a run: a language model and labelled texts in, a classifier out.

Radford et al. 2018, sections 3.2 and 3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from headway.blocks import recompute
from headway.bundle import ClassifierBundle, TextBundle, load
from headway.data.labelled import LabelledRows, labelled_in_order
from headway.errors import UsageError
from headway.machine import Machine
from headway.models import GPT, TextClassifier
from headway.recipes.classify_config import ClassifyRunConfig
from headway.recipes.classify_data import PreparedTexts, check_texts, prepare_texts
from headway.recipes.family import Emit, Family, Job
from headway.training import ClassificationObjective, Stream


class ClassifyJob:
    """A `Job`: a GPT, a head on its last token, and texts of known classes."""

    def __init__(
        self,
        config: ClassifyRunConfig,
        prepared: PreparedTexts,
        start: TextBundle,
        machine: Machine,
    ) -> None:
        self.config, self.prepared, self.start, self.machine = config, prepared, start, machine
        training, self.pad = config.training, start.tokenizer.eos
        self.objective = ClassificationObjective(training.auxiliary)
        self.rows = LabelledRows(
            prepared.train, training.rows, self.pad, training.seed, machine.device
        )

    def build(self) -> nn.Module:
        gpt = GPT(replace(self.start.config, dropout=self.config.model.dropout))
        gpt.load_state_dict(self.start.model.state_dict())
        classes = len(self.prepared.reader.labels)
        model = TextClassifier(gpt, classes, self.config.model.head_dropout)
        if self.config.training.recompute:
            recompute(model)
        if self.config.machine.compile:
            hidden: Any = torch.compile(gpt.hidden)
            gpt.hidden = hidden  # type: ignore[method-assign]
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return self.rows.stream(epoch, position)

    @torch.inference_mode()
    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> dict[str, float]:
        """The share of held-out texts whose likeliest class is right, and the mean loss."""
        valid, total, right = self.prepared.valid, 0.0, 0
        rows = self.config.training.rows
        for batch in labelled_in_order(valid, rows, self.pad, self.machine.device):
            go_on()
            with self.machine.precision():
                logits = model(batch.tokens, batch.keys).float()
            total += F.cross_entropy(logits, batch.classes, reduction="sum").item()
            right += int((logits.argmax(-1) == batch.classes).sum())
        return {"accuracy": right / len(valid.rows), "loss": total / len(valid.rows)}

    def save(self, model: Any, folder: Path) -> None:
        ClassifierBundle(model, self.prepared.reader).save(folder, overwrite=True)

    def plan(self) -> dict[str, Any]:
        gpt, training = self.start.config, self.config.training
        return {
            "model": f"{gpt.num_layers} layers, d={gpt.model_dim}, {gpt.num_heads} heads, "
            f"{len(self.prepared.reader.labels)} classes",
            "batches": f"{training.rows * training.accumulate:,} texts",
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": "texts",
        }


def _of_gpt(
    config: ClassifyRunConfig, start: TextBundle, folder: Path, machine: Machine, emit: Emit
) -> Job:
    room = start.model.max_length
    prepared = prepare_texts(config, start.tokenizer, room, folder, emit)
    return ClassifyJob(config, prepared, start, machine)


STARTS: dict[type[Any], Callable[..., Job]] = {TextBundle: _of_gpt}
"""The class of the bundle that a classifier starts from -> what makes its job: what `--from` names
decides which kind of classifier it is."""


def _prepare(config: ClassifyRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    start = load(str(config.training.start))
    if type(start) not in STARTS:
        kinds = " or a ".join(kind.kind for kind in STARTS)
        raise UsageError(
            f"{config.training.start} holds a {start.kind}; a classifier is made from a {kinds}",
            hint="headway train gpt-tiny TEXT makes one",
        )
    return STARTS[type(start)](config, start, folder, machine, emit)


CLASSIFICATION = Family(check=check_texts, prepare=_prepare)
