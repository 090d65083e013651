"""Tags of words: named entities, parts of speech."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from headway.data.packing import IGNORED
from headway.models import BertTagger
from headway.tasks.tagging.rows import TaggedBatch
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class TaggingObjective:
    """-sum w log P(tag of word), each word by its first piece; the other pieces are not asked.

    Devlin et al. 2019, section 5.3. The target that is counted is the word. weights: w of each tag,
    none for 1 each.
    """

    weights: tuple[float, ...] = ()

    def __call__(self, model: BertTagger, batch: TaggedBatch) -> Loss:
        texts = batch.texts
        asked = batch.tags != IGNORED  # B T
        logits = model(texts.tokens, texts.keys, texts.types)[asked].float()
        each = F.cross_entropy(logits, batch.tags[asked], reduction="none")
        nats = each.detach().sum()
        if self.weights:
            each = each * each.new_tensor(self.weights)[batch.tags[asked]]
        return Loss(each.sum(), nats, len(logits))
