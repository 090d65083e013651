"""The job of a masked-language-modelling run: pre-trains a text encoder.

Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa), Gururangan et al. 2020 (domain adaptation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.base.devices import Machine
from headway.base.errors import DataError
from headway.base.settings import override
from headway.bundle import EncoderBundle
from headway.data.padding import IGNORED
from headway.data.stream import Batches
from headway.models import Bert, start_from
from headway.tasks.job import Emit, Example, prepare_blocks, update_size
from headway.tasks.masked_language_modeling.config import EncoderRunConfig, EncoderScoring
from headway.tasks.masked_language_modeling.data import (
    PreparedSentences,
    held_out_sentences,
    prepare_encoder,
)
from headway.tasks.masked_language_modeling.evaluation import entropy, evenly
from headway.tasks.masked_language_modeling.held_out import (
    HELD_OUT,
    HeldOutText,
    held_out_folders,
    sources_of,
)
from headway.tasks.masked_language_modeling.masked_batches import (
    MaskedBatch,
    MaskedSequences,
    evaluation_batches,
    predictions_per_sequence,
)
from headway.tasks.masked_language_modeling.objective import MaskedLanguageModelingObjective
from headway.tasks.masked_language_modeling.pseudo_perplexity import pseudo_perplexity
from headway.tasks.text_data import opened
from headway.training import Stream


class PretrainingJob:
    """A `Job` that pre-trains a BERT on sentences. start: the pre-trained encoder, or None."""

    def __init__(
        self,
        config: EncoderRunConfig,
        prepared: PreparedSentences,
        start: EncoderBundle | None,
        machine: Machine,
    ) -> None:
        self.config = _fitted(config, prepared, start)
        self.prepared, self.start, self.machine = prepared, start, machine
        tokenizer = prepared.tokenizer
        train = sources_of(self.config, prepared.train, tokenizer, 0)
        self.sequences = MaskedSequences(train)
        self.train_batches = Batches(self.sequences, self.sequences.batch, machine.device)
        sources = sources_of(self.config, prepared.valid, tokenizer, HELD_OUT)
        names = held_out_folders(self.config, Path())
        self.held_out = HeldOutText(
            sources=dict(zip(names, sources, strict=True)),
            batch_size=config.training.batch_size,
            read_sentences=partial(held_out_sentences, config.data),
        )
        evaluation = config.evaluation
        self.evaluation = EncoderScoring(
            sequences=-(-evaluation.sequences // len(sources)),
            sentences=0 if start is None else evaluation.sentences,
            sample=evaluation.sample,
        )
        self.objective = MaskedLanguageModelingObjective(predictions_per_sequence(train[0]))

    def build(self) -> nn.Module:
        model = Bert(self.config.model)
        if self.start is not None:
            start_from(model, self.start.model, self.prepared.new, self.start.tokenizer.size)
        prepare_blocks(model, self.config.training, self.config.machine)
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return self.train_batches.stream(epoch, position)

    def held_out_batches(self) -> Iterator[MaskedBatch]:
        """Yield the held-out batches; every call yields the same sequences and masked words."""
        text, device = self.held_out, self.machine.device
        for source in text.sources.values():
            yield from evaluation_batches(
                source, text.batch_size, self.evaluation.sequences, device
            )

    @cached_property
    def unigram(self) -> tuple[float, float]:
        """Two unigram baselines of the masked words in held-out sequences, in nats per word.

        The first is their entropy, which no unigram model can beat. The second is their
        cross-entropy by the word frequencies of the training text. Raises DataError if no word is
        masked.
        """
        targets = [batch.targets[batch.targets != IGNORED] for batch in self.held_out_batches()]
        size = self.prepared.tokenizer.size
        masked = np.bincount(torch.cat(targets).cpu().numpy(), minlength=size)
        if not masked.any():
            data = self.config.data
            raise DataError(
                "the held-out text has no word to mask",
                ", ".join(data.valid or data.train),
                "a longer text, or --data.valid FILE",
            )
        counts = np.ones(size)
        for source in self.sequences.sources:
            counts += source.corpus.counts(size)
        counts[list(self.prepared.tokenizer.special_ids)] = 0
        occurs = masked > 0
        fractions = masked[occurs] / masked.sum()
        cross_entropy = -float((fractions * np.log(counts[occurs] / counts.sum())).sum())
        return entropy(masked), cross_entropy

    @cached_property
    def sentences(self) -> list[str]:
        """Some held-out sentences, decoded by the tokenizer."""
        corpus, most = self.prepared.valid[0], self.config.evaluation.sentences
        chosen = np.unique(np.linspace(0, len(corpus) - 1, most).round().astype(int))
        texts = [self.prepared.tokenizer.decode(corpus.sentence(int(i))) for i in chosen]
        return [text for text in texts if text]

    def baseline(self, progress: Callable[..., None]) -> str | None:
        """Compute the pseudo-perplexity of the pre-trained model; return it as a note."""
        if self.start is None:
            return None
        if self.start.model.masked_lm_head is None:
            return "the pre-trained model has no head for masked words: a new one is initialised"
        self.start.model.to(self.machine.device)
        sentences = evenly(self.held_out.sentences, self.evaluation.sentences)
        with self.machine.precision():
            before = pseudo_perplexity(self.start, sentences, progress)
        return (
            f"before: pseudo-perplexity {before.per_word:,.1f} per word "
            f"({math.log(before.per_word):.3f} nats), {before.fertility:.3f} tokens per word"
        )

    def example(self) -> Example | None:
        short = (text for text in self.sentences if 5 <= len(text.split()) <= 30)
        text = next(short, None)
        return None if text is None else Example(text)

    def bundle(self, model: Any) -> EncoderBundle:
        settings = () if self.start is None else (self.start.pooling, self.start.length)
        return EncoderBundle(model, self.prepared.tokenizer, *settings)

    def plan(self) -> dict[str, Any]:
        model, training = self.config.model, self.config.training
        kind = "pairs" if model.next_sentence else "sequences"
        examples = update_size(training, self.train_batches.examples_per_epoch)
        return {
            "model": f"{model.num_layers} layers, d={model.model_dim}, {model.num_heads} heads, "
            f"vocabulary size {model.vocabulary:,}",
            "batches": f"{examples:,} {kind} of up to {training.length} tokens",
            "batches_per_epoch": self.train_batches.batches_per_epoch,
            "unit": "words",
        }


def _fitted(
    config: EncoderRunConfig, prepared: PreparedSentences, start: EncoderBundle | None
) -> EncoderRunConfig:
    """Set the shape of the pre-trained model, or the vocabulary size and the maximum length."""
    vocabulary = prepared.tokenizer.size
    if start is not None:
        shape = {f"model.{name}": value for name, value in asdict(start.config).items()}
        shape["model.dropout"] = config.model.dropout
        shape["model.masked_lm_head"] = True
        shape["model.vocabulary"] = max(start.config.vocabulary, vocabulary)
        return override(config, shape, "the pre-trained model")
    length = max(config.model.max_length, config.training.length)
    return override(
        config, {"model.vocabulary": vocabulary, "model.max_length": length}, "the tokenizer"
    )


def prepare(config: EncoderRunConfig, folder: Path, machine: Machine, emit: Emit) -> PretrainingJob:
    """Prepare the sentences, and load the pre-trained encoder if any."""
    training = config.training
    start = opened(EncoderBundle, training.start, training.length) if training.start else None
    prepared = prepare_encoder(config, start, folder, emit)
    job = PretrainingJob(config, prepared, start, machine)

    def note(text: str) -> None:
        emit({"kind": "note", "text": text})

    unigram_entropy, cross_entropy = job.unigram
    note(
        f"the held-out masked words have a unigram entropy of {unigram_entropy:.3f} nats, and a "
        f"cross-entropy of {cross_entropy:.3f} nats by the frequencies of the training text"
    )
    if job.config.model.next_sentence:
        for source in job.sequences.sources:
            if len(source.corpus.documents) == 2:
                note(
                    f"{source.corpus.text.folder.name} is one document: the random second texts of "
                    "next-sentence prediction are distant parts of it; --data.split splits it into "
                    "documents"
                )
    if len(prepared.train) > 1:
        weights = ", ".join(f"{fraction:.1%}" for fraction in job.sequences.fractions)
        note(
            f"sampling weights of the texts: {weights} (--data.smoothing {config.data.smoothing:g})"
        )
        if job.config.model.next_sentence and training.mixed:
            epochs = "epoch" if training.mixed == 1 else f"{training.mixed} epochs"
            note(
                f"in the first {epochs} random second texts are of any text, afterwards of the "
                "same text (--training.mixed)"
            )
    if start is not None and config.optimizer.kind == "muon":
        note(
            f"the learning rates of the recipe {config.recipe} are for training from scratch; "
            "headway train bert-domain has lower ones"
        )
    return job
