"""Tags of words: named entities, parts of speech."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F

from headway.data.word_targets import WordBatch
from headway.models import BertTagger
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class TaggingObjective:
    """-sum w log P(tag of word), each word by its first piece; the other pieces are not asked.

    Devlin et al. 2019, section 5.3. The target that is counted is the word. weights: w of each tag,
    none for 1 each.
    """

    weights: tuple[float, ...] = ()

    def __call__(self, model: BertTagger, batch: WordBatch) -> Loss:
        texts = batch.texts
        logits = model(texts.tokens, texts.keys, texts.types)[batch.words].float()  # B T C -> N C
        losses = F.cross_entropy(logits, batch.targets, reduction="none")
        nats = losses.detach().sum()
        if self.weights:
            losses = losses * losses.new_tensor(self.weights)[batch.targets]
        return Loss(losses.sum(), nats, len(logits))
