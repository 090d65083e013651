"""The logit lens: what each layer's vectors would say if the model ended there."""

from __future__ import annotations

import torch

from headway.blocks.hidden_states import watch_stream
from headway.bundle import Probe, Unembedding
from headway.errors import UsageError
from headway.inspection.document import Lens
from headway.inspection.top_predictions import top_guesses
from headway.shapes import Float, Tensor


@torch.inference_mode()
def lens_logits(probe: Probe) -> list[Float[Tensor, "B T V"]]:
    """W_out norm(h_l) for l = 0 (the embedding) to L: the last norm and the output head applied to
    the vectors that leave each layer. The last is the model's own output, bit by bit.

    nostalgebraist 2020. UsageError for a model that has no words to say, or no blocks.
    """
    unembedding = unembedding_of(probe)
    if unembedding is None:
        raise UsageError(
            "this model's layers say no words",
            hint="a Transformer that writes (gpt, translator, captioner), or one that guesses "
            "hidden words",
        )
    with watch_stream(unembedding.stack) as stream:
        probe.reading.run()
    return [unembedding.logits(hidden) for hidden in stream]


def unembedding_of(probe: Probe) -> Unembedding | None:
    """What the lens applies to every layer; None for a model without it."""
    return None if probe.readout is None else probe.readout.unembedding


def logit_lens(probe: Probe, top: int = 5) -> Lens:
    """The `top` likeliest words at each place, layer by layer: `lens_logits`."""
    found = lens_logits(probe)
    assert probe.readout is not None  # it has the unembedding
    return Lens(
        side=probe.readout.side,
        layers=["embedding", *(str(i + 1) for i in range(len(found) - 1))],
        guesses=[top_guesses(probe.readout, logits, top) for logits in found],
    )
