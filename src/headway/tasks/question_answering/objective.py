"""The objective of extractive question answering: start and end of the answer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from headway.models import BertQuestionAnswering
from headway.tasks.question_answering.windows import AnswerBatch
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class AnsweringObjective:
    """Computes -(log P(start) + log P(end)) / 2 of each window, over its tokens.

    The target of a window without the answer is [CLS]. The loss counts windows. Devlin et al. 2019,
    section 4.2 and released code.
    """

    def __call__(self, model: BertQuestionAnswering, batch: AnswerBatch) -> Loss:
        texts = batch.texts
        logits = model(texts.tokens, texts.keys, texts.types).float()
        begin, end = logits.masked_fill(~texts.keys[..., None], -torch.inf).unbind(-1)  # B T
        total = 0.5 * (
            F.cross_entropy(begin, batch.starts, reduction="sum")
            + F.cross_entropy(end, batch.ends, reduction="sum")
        )
        return Loss(total, total.detach(), len(batch.starts))
