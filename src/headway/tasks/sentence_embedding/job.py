"""The job of a sentence-embedding run: fine-tunes an encoder on pairs of similar texts.

Reimers and Gurevych 2019; Henderson et al. 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.bundle import EncoderBundle
from headway.data.stream import Indices
from headway.models import Bert
from headway.models.bert_heads import remove_heads
from headway.tasks.encoder_job import EncoderJob
from headway.tasks.finetuning import describe_shape, load_encoder
from headway.tasks.job import Emit, Job
from headway.tasks.sentence_embedding.config import EmbedRunConfig, EmbedScoring
from headway.tasks.sentence_embedding.data import FILE, PreparedPairs, prepare_pairs
from headway.tasks.sentence_embedding.evaluation import evaluate
from headway.tasks.sentence_embedding.objective import ContrastiveObjective, CosineObjective
from headway.tasks.sentence_embedding.similar_pairs import SimilarBatch


class EmbedJob(EncoderJob):
    """A `Job` that fine-tunes an encoder on pairs of similar texts.

    is_new: whether the run has just been started, not resumed.
    """

    unit = targets = "pairs"

    def __init__(
        self,
        config: EmbedRunConfig,
        prepared: PreparedPairs,
        start: EncoderBundle,
        machine: Machine,
        is_new: bool = False,
    ) -> None:
        self.prepared, self.held_out = prepared, prepared.held_out
        self.evaluation = EmbedScoring(pairs=config.evaluation.pairs)
        self.is_new = is_new
        training = config.training
        self.objective = CosineObjective(start.pooling)
        if prepared.train.scores is None:
            self.objective = ContrastiveObjective(training.scale, training.symmetric, start.pooling)
        scored = prepared.held_out.scores is not None
        super().__init__(
            config,
            start,
            machine,
            prepared.train.lengths,
            least=500,
            decided={"evaluation.metric": "spearman" if scored else "reciprocal_rank"},
        )

    def batch(self, chosen: Indices) -> SimilarBatch:
        return self.prepared.train.batch(chosen, self.pad)

    def with_head(self, bert: Bert) -> Bert:
        """Remove the heads, which would not be trained with the encoder.

        The pooler stays, as an initialisation for other tasks.
        """
        return remove_heads(bert, bert.config.pooler)

    def baseline(self, progress: Callable[..., None]) -> str | None:
        """Evaluate the pre-trained encoder, if the run is new."""
        if not self.is_new:
            return None
        start = self.bundle(self.start.model.to(self.machine.device))
        with self.machine.precision():
            scores = evaluate(start, self.held_out, self.evaluation, progress)
        metrics = ", ".join(f"{name} {value:.3f}" for name, value in scores.numbers().items())
        return f"before training: {metrics}"

    def bundle(self, model: Any) -> EncoderBundle:
        return EncoderBundle(model, self.start.tokenizer, self.start.pooling, self.start.length)

    @property
    def described(self) -> str:
        pooling = "mean of all tokens" if self.start.pooling == "mean" else "[CLS]"
        return f"{describe_shape(self.start)}, pooling: {pooling}"


def prepare(config: EmbedRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """Load the pre-trained encoder, and encode the pairs."""
    start = load_encoder(config.training.start)
    is_new = not (folder / FILE).exists()
    room = start.config.max_length
    prepared = prepare_pairs(config, start.tokenizer, room, folder, emit)
    return EmbedJob(config, prepared, start, machine, is_new)
