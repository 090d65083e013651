"""Tags of words: named entities, parts of speech."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from headway.data.packing import IGNORED
from headway.data.tagged import TaggedBatch
from headway.models import BertTagger
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class TaggingObjective:
    """-sum log P(tag of word), each word by its first piece; the other pieces are not asked.

    Devlin et al. 2019, section 5.3. The target that is counted is the word.
    """

    def __call__(self, model: BertTagger, batch: TaggedBatch) -> Loss:
        texts = batch.texts
        asked = batch.tags != IGNORED  # B T
        logits = model(texts.tokens, texts.keys, texts.types)[asked].float()
        total = F.cross_entropy(logits, batch.tags[asked], reduction="sum")
        return Loss(total, total.detach(), len(logits))
