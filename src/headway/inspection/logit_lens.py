"""Logit lens: the predictions from the vectors of every layer."""

import torch

from headway.base.errors import UsageError
from headway.base.shapes import Float, Tensor
from headway.blocks.hidden_states import record_hidden_states
from headway.bundle import Probe, Unembedding
from headway.inspection.document import Lens
from headway.inspection.top_predictions import most_probable_predictions


@torch.inference_mode()
def lens_logits(probe: Probe) -> list[Float[Tensor, "B T V"]]:
    """Return W_out norm(h_l) for l = 0 (the embedding) to L: the final norm and the output
    projection applied to the vectors of each layer. The last item is bit-identical to the output of
    the model.

    nostalgebraist 2020. Raises UsageError for a model that predicts no tokens, or has no blocks.
    """
    unembedding = unembedding_of(probe)
    if unembedding is None:
        raise UsageError(
            "the logit lens needs a model that predicts tokens",
            hint="use a Transformer that generates text (gpt, translator, captioner) or a masked "
            "language model",
        )
    with record_hidden_states(unembedding.stack) as stream:
        probe.reading.run()
    return [unembedding.logits(hidden) for hidden in stream]


def unembedding_of(probe: Probe) -> Unembedding | None:
    """Return the final norm and output projection of a model; None if it predicts no tokens."""
    return None if probe.readout is None else probe.readout.unembedding


def logit_lens(probe: Probe, top: int = 5) -> Lens:
    """Return the `top` most probable tokens at each position for each layer (`lens_logits`)."""
    by_layer = lens_logits(probe)
    assert probe.readout is not None  # lens_logits has checked it
    return Lens(
        side=probe.readout.side,
        layers=["embedding", *(str(i + 1) for i in range(len(by_layer) - 1))],
        predictions=[most_probable_predictions(probe.readout, logits, top) for logits in by_layer],
    )
