"""The job of a captioning run.

Show, Attend and Tell (Xu et al. 2015) with Transformers; from scratch, or from a pre-trained image
encoder and language model (Rothe et al. 2020).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from headway.base.devices import Machine
from headway.base.errors import DataError, UsageError
from headway.base.settings import override
from headway.bundle import TextBundle
from headway.data.stream import Array, Batches, Shuffled
from headway.models import Captioner, initialise_decoder, initialise_vit
from headway.tasks.captioning.batches import CaptionBatch, CaptionCorpus, CaptionedImages
from headway.tasks.captioning.bundle import CaptionerBundle
from headway.tasks.captioning.config import WRITES, CaptionRunConfig, caption
from headway.tasks.captioning.data import (
    PreparedCaptions,
    Starts,
    caption_tokens,
    prepare_all,
    prepared_examples,
)
from headway.tasks.captioning.evaluation import CaptionEvaluation
from headway.tasks.captioning.objective import CaptionObjective
from headway.tasks.image_config import SHAPE
from headway.tasks.image_start import load_image_encoder, settings_of_pretrained, size_settings
from headway.tasks.job import Emit, Example, Job, update_size
from headway.tasks.opening import load_as
from headway.training import Stream
from headway.transforms import compile, recompute


class CaptionJob:
    """A `Job` that trains a captioner on images with captions."""

    def __init__(
        self, config: CaptionRunConfig, prepared: PreparedCaptions, starts: Starts, machine: Machine
    ) -> None:
        self.config = _fitted(config, prepared, starts)
        self.prepared, self.starts, self.machine = prepared, starts, machine
        self.train_batches, self.longer = self._batches(prepared.train)
        self._batches(prepared.valid)  # raises now if all its captions are too long
        self.objective = CaptionObjective(config.training.smoothing)
        self.held_out = prepared_examples(prepared.valid, config.data.text)
        settings = config.evaluation
        self.evaluation = CaptionEvaluation(
            beam=settings.beam,
            length_penalty=settings.length_penalty,
            images=settings.images,
            samples=settings.samples,
        )

    def _batches(self, corpus: CaptionCorpus) -> tuple[Batches[Array, CaptionBatch], int]:
        config, reader = self.config, self.prepared.reader
        columns = config.data.text
        captions, longer = caption_tokens(corpus.captions, columns, reader, reader.longest)
        if not captions:
            raise DataError(
                f"all captions have more than {reader.longest} tokens",
                hint="a greater --data.max-length",
            )
        training, normalise = config.training, reader.images.normalised
        images = CaptionedImages(
            corpus.images, captions, normalise, config.augmentation, training.seed
        )
        count = len(images.images_with_captions)
        order = Shuffled(count, training.batch_size, training.seed)
        return Batches(order, images.batch, self.machine.device), longer

    def build(self) -> nn.Module:
        config, tokenizer = self.config, self.prepared.reader.tokenizer
        model = Captioner(config.model.captioner)
        if self.starts.encoder is not None:
            model.vit = initialise_vit(self.starts.encoder.vit, model.config.vit)
            model.vit.requires_grad_(not config.training.frozen)
        if self.starts.decoder is not None:
            initialise_decoder(model, self.starts.decoder.model, tokenizer.size, tokenizer.bos)
        if config.training.recompute:
            recompute(model)
        if config.machine.compile:
            compile(model.vit)
            compile(model.decoder, dynamic=True)  # captions of another length in each batch
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return self.train_batches.stream(epoch, position)

    def example(self) -> Example | None:
        corpus, language = self.prepared.valid, self.config.data.text[0]
        chosen = self.held_out.chosen(language, 1)
        if not chosen:
            return None
        name = language if self.prepared.reader.languages else None
        pixels = corpus.images.pixels[chosen[0]].transpose(1, 2, 0)
        return Example(pixels, target=corpus.captions[chosen[0]][language][0], language=name)

    def bundle(self, model: Any) -> CaptionerBundle:
        return CaptionerBundle(model, self.prepared.reader)

    def plan(self) -> dict[str, Any]:
        model, training = self.config.model.captioner, self.config.training
        (y, x), (height, width) = model.vit.image, model.vit.patch
        languages = ", ".join(self.prepared.reader.languages)
        examples = update_size(training, self.train_batches.examples_per_epoch)
        return {
            "model": f"images of {y} x {x} x {model.vit.channels} in patches of {height} x "
            f"{width}, {model.vit.num_layers}+{model.gpt.num_layers} layers, "
            f"d={model.vit.model_dim}+{model.gpt.model_dim}"
            + (f", languages {languages}" if languages else ""),
            "batches": f"{examples:,} images"
            + (f" ({self.longer:,} captions left out as too long)" if self.longer else ""),
            "batches_per_epoch": self.train_batches.batches_per_epoch,
            "unit": "tok",
        }


def _fitted(
    config: CaptionRunConfig, prepared: PreparedCaptions, starts: Starts
) -> CaptionRunConfig:
    """Set the settings that the data and the pre-trained models decide."""
    requested, defaults = config.model, caption().model
    decided = size_settings("model.vit", prepared.reader.images)
    if starts.encoder is not None:
        vit = starts.encoder.vit.config
        decided = (
            settings_of_pretrained("model.vit", requested.vit, defaults.vit, vit, SHAPE) | decided
        )
    if starts.decoder is not None:
        gpt = starts.decoder.model.config
        decided |= settings_of_pretrained("model.gpt", requested.gpt, defaults.gpt, gpt, WRITES)
    decided["model.gpt.vocabulary"] = prepared.reader.size
    return override(config, decided, "the data and the pre-trained models")


def prepare(config: CaptionRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    """Prepare images, captions and tokenizer, and load the pre-trained models."""
    training = config.training
    encoder = load_image_encoder(training.encoder, "a captioner")
    decoder = None if training.decoder is None else load_as(TextBundle, training.decoder)
    limit = None if decoder is None else decoder.model.max_length
    if limit is not None and limit <= config.data.max_length:
        raise UsageError(
            f"data.max_length={config.data.max_length} is too large: the decoder "
            f"{training.decoder} has {limit} positions, one of them for the start token",
            hint=f"--data.max-length {limit - 1}",
        )
    starts = Starts(encoder, decoder)
    return CaptionJob(config, prepare_all(config, starts, folder, emit), starts, machine)
