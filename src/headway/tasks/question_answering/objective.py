"""Where an answer begins and ends in a text."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from headway.models import BertAnswerer
from headway.tasks.question_answering.windows import AnswerBatch
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class AnsweringObjective:
    """-(log P(begin) + log P(end)) / 2 of each window, over the tokens that stand in it.

    A window without the answer begins and ends at [CLS]. Devlin et al. 2019, section 4.2 and
    released code. The target that is counted is the window.
    """

    def __call__(self, model: BertAnswerer, batch: AnswerBatch) -> Loss:
        texts = batch.texts
        logits = model(texts.tokens, texts.keys, texts.types).float()
        begin, end = logits.masked_fill(~texts.keys[..., None], -torch.inf).unbind(-1)  # B T
        total = 0.5 * (
            F.cross_entropy(begin, batch.starts, reduction="sum")
            + F.cross_entropy(end, batch.ends, reduction="sum")
        )
        return Loss(total, total.detach(), len(batch.starts))
