"""The most probable predictions at each position, from the output of a forward pass."""

from headway.base.shapes import Tensor
from headway.bundle import Readout
from headway.inspection.document import Prediction


def most_probable_predictions(
    readout: Readout | None, output: Tensor, top: int
) -> list[Prediction]:
    """Return the `top` most probable classes or tokens at each position, p = softmax(logits).

    output: what the model returned. The list is empty for a model that returns vectors or a single
    number.
    """
    if readout is None:
        return []
    logits = readout.logits(output).float()
    if logits.shape[1] < 2:
        return []
    best = logits.softmax(-1).topk(min(top, logits.shape[1]))
    return [
        Prediction(position=position, tokens=readout.names(ids), probabilities=probabilities)
        for position, ids, probabilities in zip(
            readout.positions, best.indices.tolist(), best.values.tolist(), strict=True
        )
    ]
