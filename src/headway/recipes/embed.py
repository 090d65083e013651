"""Sentence encoders as a run: an encoder and pairs of similar texts in, an encoder out.

Reimers and Gurevych 2019; Henderson et al. 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.bundle import EncoderBundle
from headway.data.by_length import ByLength
from headway.data.framed import collate_framed, shortest_first
from headway.data.similar import SimilarPairs, share_texts
from headway.evaluation import pearson, places_of_right, spearman
from headway.machine import Machine
from headway.models.bert_tasks import drop_heads
from headway.recipes.embed_config import EmbedRunConfig
from headway.recipes.embed_data import FILE, PreparedPairs, check_pairs, prepare_pairs
from headway.settings import override
from headway.shapes import Float, Tensor
from headway.tasks.finetuning import copy_of
from headway.tasks.job import Emit, Family, Job, planned_steps, prepare_blocks
from headway.tasks.opening import load_as
from headway.training import ContrastiveObjective, CosineObjective, Objective, Stream, text_vectors

Encode = Callable[[Sequence[Sequence[int]]], Tensor]


class EmbedJob:
    """A `Job`: an encoder, and pairs of texts that mean the same or nearly."""

    def __init__(
        self,
        config: EmbedRunConfig,
        prepared: PreparedPairs,
        start: EncoderBundle,
        machine: Machine,
        is_new: bool = False,
    ) -> None:
        scored = prepared.valid.scores is not None
        self.is_new = is_new
        self.prepared, self.start, self.machine = prepared, start, machine
        training, self.pad = config.training, start.tokenizer.marks.pad
        self.objective: Objective = CosineObjective(start.pooling)
        if prepared.train.scores is None:
            self.objective = ContrastiveObjective(training.scale, training.symmetric, start.pooling)
        train = prepared.train
        self.rows = ByLength(
            train.lengths,
            lambda chosen: train.batch(chosen, self.pad).to(machine.device),
            training.rows,
            training.seed,
        )
        decided = {
            **planned_steps(training, self.rows.batches_an_epoch, 500),
            "evaluation.metric": "spearman" if scored else "reciprocal_rank",
        }
        self.config: EmbedRunConfig = override(config, decided, "the pairs")

    def build(self) -> nn.Module:
        bert = copy_of(self.start, self.config.model.dropout)
        # heads that do not learn along fit no more afterwards; the pooler is a start for others
        drop_heads(bert, bert.config.pooler)
        prepare_blocks(bert, self.config.training, self.config.machine, bert, "encode")
        return bert

    def stream(self, epoch: int, position: int) -> Stream:
        return self.rows.stream(epoch, position)

    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> dict[str, float]:
        """How well cosines say how alike held-out texts are: `likeness`."""
        rows = self.config.training.rows

        def encode(texts: Sequence[Sequence[int]]) -> Tensor:
            seen = EncoderBundle(model, self.start.tokenizer, self.start.pooling)
            return vectors_of(seen, texts, self.machine, rows, go_on)

        return likeness(self.prepared.valid, self.config.evaluation.pairs, encode)

    def baseline(self, go_on: Callable[..., None]) -> str | None:
        """The scores of the encoder that it starts from, when the run is new."""
        if not self.is_new:
            return None
        start = self.start.model.to(self.machine.device)
        scores = self.evaluate(start, lambda *_, **__: None, go_on)
        shown = ", ".join(f"{name} {value:.3f}" for name, value in scores.items())
        return f"before training: {shown}"

    def bundle(self, model: Any) -> EncoderBundle:
        return EncoderBundle(model, self.start.tokenizer, self.start.pooling, self.start.length)

    def plan(self) -> dict[str, Any]:
        bert, training = self.start.config, self.config.training
        return {
            "model": f"{bert.num_layers} layers, d={bert.model_dim}, {bert.num_heads} heads, "
            f"a text's vector is {'its mean' if self.start.pooling == 'mean' else '[CLS]'}",
            "batches": f"{training.rows * training.accumulate:,} pairs",
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": "pairs",
        }


@torch.inference_mode()
def vectors_of(
    bundle: EncoderBundle,
    texts: Sequence[Sequence[int]],
    machine: Machine,
    rows: int = 32,
    go_on: Callable[..., None] = lambda: None,
) -> Float[Tensor, "N D"]:
    """`text_vectors` of framed ids, `rows` at a time."""
    found, pad = torch.zeros(len(texts), bundle.config.model_dim), bundle.tokenizer.marks.pad
    for chosen in shortest_first(texts, rows):
        go_on()
        batch = collate_framed([texts[i] for i in chosen], None, pad).to(machine.device)
        with machine.precision():
            found[chosen] = text_vectors(bundle.model, batch, bundle.pooling).cpu()
    return found


def likeness(pairs: SimilarPairs, most: int, encode: Encode) -> dict[str, float]:
    """What cosines say of the first `most` pairs.

    With scores: spearman and pearson, of cosines and scores. Without: each first text looks for its
    second among all second texts; accuracy is how often it stands first, reciprocal_rank the mean
    of 1 / its place. encode: framed ids to vectors of length 1.
    """
    rows = pairs.first[:most], pairs.second[:most]
    first, second = encode(rows[0]), encode(rows[1])
    if pairs.scores is not None:
        cosines, scores = (first * second).sum(-1), torch.tensor(pairs.scores[:most])
        return {"spearman": spearman(cosines, scores), "pearson": pearson(cosines, scores)}
    places = places_of_right(first @ second.T, share_texts(*rows)).double()
    return {
        "accuracy": (places == 1).double().mean().item(),
        "reciprocal_rank": (1 / places).mean().item(),
    }


def _prepare(config: EmbedRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    start = load_as(EncoderBundle, str(config.training.start))
    is_new = not (folder / FILE).exists()
    room = start.config.max_length
    prepared = prepare_pairs(config, start.tokenizer, room, folder, emit)
    return EmbedJob(config, prepared, start, machine, is_new)


EMBEDDING = Family(check=check_pairs, prepare=_prepare)
