"""Hidden words and next sentences: what BERT is trained by (lectures 3.5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from headway.data.masked_batches import IGNORED, MaskedBatch
from headway.models import Bert
from headway.shapes import Float, Int, Tensor
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class MaskedWords:
    """-sum_i log P(w_i | the row with words hidden) - c sum_b log P(next or not | row b).

    i goes over the chosen places only, and these are what is counted. c = `words_a_row`, how many
    words a row hides on the average: the loop divides by the hidden words of all rows, so that
    both terms become means, each of weight 1. c is a constant and not the batch's own ratio, so
    that batches of any sizes still add up to exactly the full batch's gradient. `nats` are those of
    the words alone. Devlin et al. 2019, section 3.1 and appendix A.2.
    """

    words_a_row: float = 1.0

    def __call__(self, model: Bert, batch: MaskedBatch) -> Loss:
        judged = judge(model, batch)
        words = F.cross_entropy(judged.words, judged.targets, reduction="sum")
        total = words
        if judged.follows is not None and batch.elsewhere is not None:
            pairs = F.cross_entropy(judged.follows, batch.elsewhere, reduction="sum")
            total = words + self.words_a_row * pairs
        return Loss(total, words.detach(), len(judged.targets))


@dataclass(frozen=True)
class Judged:
    """What a model makes of a batch, as logits: words at the chosen places, and whether the second
    text follows (0) or stands elsewhere (1), None where there are no pairs."""

    words: Float[Tensor, "N V"]
    targets: Int[Tensor, " N"]
    follows: Float[Tensor, "B 2"] | None


def judge(model: Bert, batch: MaskedBatch) -> Judged:
    """The model's logits for a batch, and the true words."""
    framed = batch.framed
    hidden = model.encode(framed.tokens, framed.keys, framed.types)
    asked = batch.targets != IGNORED  # B T
    follows = None if batch.elsewhere is None else model.follows(hidden).float()
    return Judged(model.words(hidden[asked]).float(), batch.targets[asked], follows)
