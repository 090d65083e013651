"""The predictions of a model without each of its heads: which word of the output breaks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headway.base.shapes import Float, Int, Tensor
from headway.bundle import ForwardPass, Readout
from headway.inspection.ablation import all_heads, heads_of, without_heads
from headway.inspection.document import AblationEffect
from headway.inspection.work import Work


@dataclass(frozen=True)
class WholeModel:
    """The most probable predictions of a whole model, with which those without a part of it are
    compared. is_number: whether it is a regression model, which predicts one number."""

    readout: Readout
    best: Int[Tensor, "P 1"]
    is_number: bool
    score: float

    @classmethod
    def of(cls, readout: Readout, output: Tensor) -> WholeModel:
        """Return the predictions of an output of the whole model."""
        logits = readout.logits(output).float()
        best, is_number = logits.argmax(-1, keepdim=True), logits.shape[1] == 1
        return cls(readout, best, is_number, float(_scores(logits, best, is_number).mean()))

    def without(self, output: Tensor) -> tuple[float, AblationEffect]:
        """Compare with the output of the model without a part.

        Returns the fall of the mean log-probability of the predictions, or of the predicted number,
        and the predictions without the part.
        """
        logits = self.readout.logits(output).float()
        after = _scores(logits, self.best, self.is_number)
        now = logits.argmax(-1)
        rows = (now != self.best[:, 0]).nonzero()[:, 0].tolist()
        names = self.readout.names(now[rows].tolist()) if rows else []
        changed = dict(zip(rows, names, strict=True))
        effect = AblationEffect(probabilities=after.exp().tolist(), changed=changed)
        return self.score - float(after.mean()), effect


def _scores(
    logits: Float[Tensor, "P V"], best: Int[Tensor, "P 1"], is_number: bool
) -> Float[Tensor, " P"]:
    return (logits if is_number else logits.log_softmax(-1)).gather(1, best)[:, 0]


@dataclass(frozen=True)
class Ablations:
    """importance[map][layer][head]: fall of the mean log-probability of the predictions, or of the
    number that a regression model predicts, without that head; effects[map][layer][head]: the
    predictions without it; empty for a regression model."""

    importance: dict[str, list[list[float]]]
    effects: dict[str, list[list[AblationEffect]]]


@torch.no_grad()
def ablations(reading: ForwardPass, whole: WholeModel, work: Work) -> Ablations:
    """Ablate each head alone (`without_heads`), and compare with the most probable predictions of
    all heads. Michel et al. 2019, section 3.2.
    """
    counts = heads_of(reading.model)
    importance = {part: [[0.0] * n for n in layers] for part, layers in counts.items()}
    effects: dict[str, list[list[AblationEffect]]] = {
        part: [[] for _ in layers] for part, layers in counts.items()
    }
    for part, layer, head in all_heads(counts):
        with without_heads(reading.model, [(part, layer, head)]):
            fall, effect = whole.without(reading.run())
        importance[part][layer][head] = fall
        effects[part][layer].append(effect)
        work.done()
    return Ablations(importance, {} if whole.is_number else effects)
