"""Taggers of words as a run: an encoder and tagged sentences in, a tagger out.

Devlin et al. 2019, section 5.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from headway.bundle import EncoderBundle, TaggerBundle
from headway.data.by_length import ByLength
from headway.data.framed import shortest_first
from headway.data.packing import IGNORED
from headway.data.spans import tags_spans
from headway.data.tagged import TaggedBatch, TaggedTexts
from headway.evaluation import score_spans
from headway.machine import Machine
from headway.models import BertTagger
from headway.recipes.encoders import balanced, copy_of, open_start, shape_of
from headway.recipes.family import Emit, Family, Job, planned_steps, prepare_blocks
from headway.recipes.tag_config import TagRunConfig
from headway.recipes.tag_data import PreparedTags, check_tags, prepare_tags
from headway.settings import override
from headway.training import Stream, TaggingObjective


class TagJob:
    """A `Job`: an encoder, a head on every word, and sentences with tags."""

    def __init__(
        self, config: TagRunConfig, prepared: PreparedTags, start: EncoderBundle, machine: Machine
    ) -> None:
        self.spans = tags_spans(prepared.reader.tags)
        self.prepared, self.start, self.machine = prepared, start, machine
        training, train = config.training, prepared.train
        counts = Counter(tag for row in train.tags for tag in row)
        weights = balanced(counts, len(prepared.reader.tags)) if training.balance else ()
        self.objective = TaggingObjective(weights)
        self.pad = start.tokenizer.marks.pad
        lengths = [len(row.ids) for row in train.rows]
        self.rows = ByLength(
            lengths,
            lambda chosen: self._batch(train, chosen),
            training.rows,
            training.seed,
        )
        decided: dict[str, Any] = planned_steps(training, self.rows.batches_an_epoch, 600, 3.0)
        if not self.spans:
            decided["evaluation.metric"] = "accuracy"
        self.config: TagRunConfig = override(config, decided, "the tagged sentences")

    def _batch(self, texts: TaggedTexts, chosen: list[int]) -> TaggedBatch:
        return texts.batch(chosen, self.pad, self.machine.device)

    def build(self) -> nn.Module:
        given, asked = self.config.model, self.config.training
        bert = copy_of(self.start, given.dropout)
        model = BertTagger(bert, len(self.prepared.reader.tags), given.head_dropout)
        prepare_blocks(model, asked, self.config.machine, bert, "encode")
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return self.rows.stream(epoch, position)

    @torch.inference_mode()
    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> dict[str, float]:
        """Of held-out sentences: F1 of spans, the share of words tagged right, the mean loss."""
        valid, total = self.prepared.valid, 0.0
        found: list[list[int]] = [[] for _ in valid.rows]
        for chosen in shortest_first([row.ids for row in valid.rows], self.config.training.rows):
            go_on()
            batch = self._batch(valid, chosen)
            asked = batch.tags != IGNORED  # B T
            with self.machine.precision():
                logits = model(batch.texts.tokens, batch.texts.keys)[asked].float()
            total += F.cross_entropy(logits, batch.tags[asked], reduction="sum").item()
            left = iter(logits.argmax(-1).tolist())  # row by row, as firsts go up
            for i in chosen:
                found[i] = [next(left) for _ in valid.rows[i].firsts]
        return self._scores(valid.joined(found), total)

    def _scores(self, found: list[list[int]], total: float) -> dict[str, float]:
        names, true = self.prepared.reader.tags, self.prepared.valid_tags
        said = [[names[i] for i in sentence] for sentence in found]
        words = sum(map(len, true))
        right = sum(
            a == b for x, y in zip(said, true, strict=True) for a, b in zip(x, y, strict=True)
        )
        numbers = {"accuracy": right / words, "loss": total / words}
        return {"f1": score_spans(said, true).f1, **numbers} if self.spans else numbers

    def bundle(self, model: Any) -> TaggerBundle:
        return TaggerBundle(model, self.prepared.reader)

    def plan(self) -> dict[str, Any]:
        training = self.config.training
        return {
            "model": f"{shape_of(self.start)}, {len(self.prepared.reader.tags)} tags",
            "batches": f"{training.rows * training.accumulate:,} sentences",
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": "words",
        }


def _prepare(config: TagRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    start = open_start(config.training.start)
    prepared = prepare_tags(config, start.tokenizer, start.model.max_length, folder, emit)
    return TagJob(config, prepared, start, machine)


TAGGING = Family(check=check_tags, prepare=_prepare)
