"""The predictions of a model without each of its heads: which word of the output breaks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headway.base.shapes import Float, Tensor
from headway.bundle import ForwardPass, Readout
from headway.inspection.ablation import all_heads, heads_of, without_heads
from headway.inspection.document import HeadEffect
from headway.inspection.work import Work


@dataclass(frozen=True)
class Ablations:
    """importance[map][layer][head]: fall of the mean log-probability of the predictions, or of the
    number that a regression model predicts, without that head; effects[map][layer][head]: the
    predictions without it; empty for a regression model."""

    importance: dict[str, list[list[float]]]
    effects: dict[str, list[list[HeadEffect]]]


@torch.no_grad()
def ablations(reading: ForwardPass, readout: Readout, output: Tensor, work: Work) -> Ablations:
    """Ablate each head alone (`without_heads`), and compare with the most probable predictions of
    all heads. output: that of the forward pass with all heads. Michel et al. 2019, section 3.2.
    """
    whole = readout.logits(output).float()
    best = whole.argmax(-1, keepdim=True)
    is_number = whole.shape[1] == 1

    def scores(logits: Float[Tensor, "P V"]) -> Float[Tensor, " P"]:
        return (logits if is_number else logits.log_softmax(-1)).gather(1, best)[:, 0]

    counts = heads_of(reading.model)
    importance = {part: [[0.0] * n for n in layers] for part, layers in counts.items()}
    effects: dict[str, list[list[HeadEffect]]] = {
        part: [[] for _ in layers] for part, layers in counts.items()
    }
    before = float(scores(whole).mean())
    for part, layer, head in all_heads(counts):
        with without_heads(reading.model, [(part, layer, head)]):
            logits = readout.logits(reading.run()).float()
        after = scores(logits)
        importance[part][layer][head] = before - float(after.mean())
        if not is_number:
            effects[part][layer].append(_effect(readout, logits, best[:, 0], after.exp()))
        work.done()
    return Ablations(importance, {} if is_number else effects)


def _effect(readout: Readout, logits: Tensor, best: Tensor, probabilities: Tensor) -> HeadEffect:
    now = logits.argmax(-1)
    rows = (now != best).nonzero()[:, 0].tolist()
    names = readout.names(now[rows].tolist()) if rows else []
    return HeadEffect(
        probabilities=probabilities.tolist(), changed=dict(zip(rows, names, strict=True))
    )
