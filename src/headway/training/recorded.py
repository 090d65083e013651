"""CUDA graphs for training: forward and backward pass of a batch are launched as a whole.

On a GPU, the passes of a small model, or of a large one with few sequences, are bound by launching
their kernels, about 40 for each layer. They are recorded for each shape of batches that returns
(`transforms/recorder.py`), and replayed on copies of the batches. Clipping and update, which take
few kernels, run as always.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import nn

from headway.base.errors import UsageError
from headway.base.shapes import Tensor
from headway.training.objectives.contract import Loss
from headway.training.objectives.image_classification import ImageObjective
from headway.training.objectives.language_modeling import TextObjective
from headway.training.state import StepReport, TrainingState
from headway.transforms.recompute import Recomputed
from headway.transforms.recorder import CudaRecorder, Recorder, first_line, refusal_of
from headway.transforms.stacks import stacked_blocks

Compute = Callable[[Any], Loss]
"""Adds the gradients of the loss of a batch to those of the parameters."""

RECORDABLE = (TextObjective, ImageObjective)
"""Objectives that compute only with the tensors of a batch, whose shapes return."""
MOST_GRAPHS = 4
MOST_SHAPES = 64
"""Shapes of batches that are remembered until they return."""
FIRST = 20
"""Batches after which a note may say that most of them have no graph."""
NO_SHAPE = ("indices",)
"""Fields of batches that no objective reads: they are for messages."""


class RecordedGradients:
    """Adds the gradients of batches to those of parameters, by CUDA graphs for batches whose shapes
    occurred before.

    At most `MOST_GRAPHS` are kept; batches of other shapes, and with documents, are computed as
    always. If the device refuses to record a batch, all are. Where the object is an observer of the
    run, a note says so, or that more than half of the first batches have no graph. Graphs are
    dropped if the memory of parameters changes. The random numbers, as of dropout, are those of
    ordinary steps. UsageError if steps of this kind cannot be recorded.
    """

    def __init__(
        self, model: nn.Module, objective: object, recorder: type[Recorder] = CudaRecorder
    ) -> None:
        obstacle = obstacle_to_recording(model, objective)
        if obstacle is not None:
            raise obstacle
        self.model, self.recorder = model, recorder
        self._parameters = list(model.parameters())
        self._graphs: dict[Hashable, _Recorded] = {}
        self._seen: deque[Hashable] = deque(maxlen=MOST_SHAPES)
        self._built_of: list[tuple[int, bool]] = []
        self._batches = self._replayed = 0
        self._is_noted = False
        self._refused: str | None = None

    def after_step(self, run: TrainingState, report: StepReport) -> None:
        """Emit the note."""
        if self._is_noted or (self._refused is None and self._batches < FIRST):
            return
        self._is_noted = True
        others = self._batches - self._replayed
        if self._refused is not None:
            run.emit(
                "note",
                text=f"graphs: the training goes on without, which is slower: {self._refused}",
            )
        elif others > self._batches // 2:
            run.emit(
                "note",
                text=f"graphs: {others} of the first {self._batches} batches were computed without "
                "one, as they are of several documents or have shapes that did not occur before",
            )

    def __call__(self, compute: Compute, batch: Any) -> Loss:
        """Return `compute(batch)`, which has the objective of this object."""
        self._batches += 1
        shape = None if self._refused is not None else shape_of(batch)
        if shape is None:
            return compute(batch)
        built_of = [(p.data_ptr(), p.requires_grad) for p in self._parameters]
        if built_of != self._built_of:
            self._graphs.clear()
            self._built_of = built_of
        graph = self._graphs.get(shape)
        if graph is None:
            if shape not in self._seen or len(self._graphs) == MOST_GRAPHS:
                self._seen.append(shape)
                return compute(batch)
            graph = self._recorded(compute, batch)
            if graph is None:
                return compute(batch)
            self._graphs[shape] = graph
        self._replayed += 1
        return graph.replay(batch)

    def _recorded(self, compute: Compute, batch: Any) -> _Recorded | None:
        """Return a graph of the batch; None, and drop all, if the device refuses."""
        beside = next((graph.recorder for graph in self._graphs.values()), None)
        recorder = self.recorder(self._parameters[0].device, beside)
        try:
            return _Recorded(compute, batch, self.model, recorder)
        except RuntimeError as error:  # a lack of memory, too
            self._refused = first_line(refusal_of(error))
        self._graphs.clear()
        return None


class _Recorded:
    """Forward and backward pass of one batch, recorded.

    The gradients of a replay are in tensors of the graph, to which those of earlier batches of the
    same update are added.
    """

    def __init__(
        self,
        compute: Compute,
        batch: Any,
        model: nn.Module,
        recorder: Recorder,
    ) -> None:
        self.recorder = recorder
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        copies = {name: tensor.clone() for name, tensor in _tensors(batch).items()}
        self._batch = replace(batch, **copies)
        self._count = 0
        earlier = [p.grad for p in self._parameters]
        buffers = list(model.buffers())
        before = [buffer.clone() for buffer in buffers]
        devices = [recorder.device] if recorder.device.type == "cuda" else []
        try:
            with torch.random.fork_rng(devices):  # the runs of a recording draw numbers, too
                self._total, self._nats, self._gradients = recorder.record(
                    lambda: self._run(compute)
                )
        finally:
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)
            for parameter, gradient in zip(self._parameters, earlier, strict=True):
                parameter.grad = gradient

    def _run(self, compute: Compute) -> tuple[Tensor, Tensor, list[Tensor | None]]:
        for parameter in self._parameters:
            parameter.grad = None
        loss = compute(self._batch)
        self._count = loss.count
        return loss.total.detach(), loss.nats.detach(), [p.grad for p in self._parameters]

    def replay(self, batch: Any) -> Loss:
        """Add the gradients of a batch of the same shape to those of the parameters."""
        for name, tensor in _tensors(batch).items():
            getattr(self._batch, name).copy_(tensor)
        earlier = [
            x.clone() if x is not None and p.grad is x else p.grad
            for p, x in zip(self._parameters, self._gradients, strict=True)
        ]
        self.recorder.replay()
        for p, x, before in zip(self._parameters, self._gradients, earlier, strict=True):
            if before is None:
                p.grad = x
            elif x is not None:
                p.grad = before.add_(x)
        # the next replay overwrites them
        return Loss(self._total.clone(), self._nats.clone(), self._count)


def obstacle_to_recording(model: nn.Module, objective: object) -> UsageError | None:
    """Return the error that says why training steps of this kind cannot be recorded, if so."""
    if not isinstance(objective, RECORDABLE):
        return UsageError(
            f"machine.graphs=true: batches of the {type(objective).__name__} have different shapes",
            hint="leave out --graphs; language models and image classifiers can be recorded",
        )
    if any(isinstance(block.forward, Recomputed) for block in stacked_blocks(model)):
        return UsageError(
            "machine.graphs=true: blocks that recompute their activations cannot be recorded",
            hint="leave out --graphs, or set training.recompute=false",
        )
    return None


def shape_of(batch: Any) -> Hashable | None:
    """Return what a recording of the batch depends on, besides the numbers in its tensors.

    None if the batch has anything else than tensors of a device and numbers.
    """
    if not is_dataclass(batch):
        return None
    shape: list[Hashable] = [type(batch).__name__]
    for field in fields(batch):
        value = getattr(batch, field.name)
        if field.name in NO_SHAPE:
            continue
        if isinstance(value, Tensor):
            shape.append((value.shape, value.stride(), value.dtype))
        elif value is None or isinstance(value, (bool, int, float)):
            shape.append(value)
        else:
            return None
    return tuple(shape)


def _tensors(batch: Any) -> dict[str, Tensor]:
    """Return the fields of the batch that are tensors."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
