"""The job of a captioning run.

Show, Attend and Tell (Xu et al. 2015) with Transformers; from scratch, or from a pre-trained image
encoder and language model (Rothe et al. 2020).
"""

from __future__ import annotations

from pathlib import Path

from headway.base.devices import Machine
from headway.base.errors import DataError, UsageError
from headway.base.settings import override
from headway.bundle import TextBundle
from headway.data.stream import Batches, Shuffled
from headway.models import Captioner, initialise_decoder, initialise_vit
from headway.tasks.captioning.batches import CaptionBatch, CaptionedImages
from headway.tasks.captioning.bundle import CaptionerBundle
from headway.tasks.captioning.caption_corpus import CaptionCorpus
from headway.tasks.captioning.config import WRITES, CaptionEvaluation, CaptionRunConfig, caption
from headway.tasks.captioning.data import (
    CaptionExamples,
    PreparedCaptions,
    Starts,
    caption_tokens,
    prepare_all,
    prepared_examples,
)
from headway.tasks.captioning.objective import CaptionObjective
from headway.tasks.image_config import SHAPE
from headway.tasks.image_start import load_image_encoder, settings_of_pretrained, size_settings
from headway.tasks.job import Emit, Example, Job, Summary, update_size
from headway.tasks.opening import load_as
from headway.transforms import compile, recompute

CaptionJob = Job[CaptionBatch, CaptionExamples, CaptionEvaluation]


def captioning_job(
    config: CaptionRunConfig, prepared: PreparedCaptions, starts: Starts, machine: Machine
) -> CaptionJob:
    """Return the job that trains a captioner on images with captions."""
    config = _fitted(config, prepared, starts)
    reader, training, settings = prepared.reader, config.training, config.evaluation
    images, longer = _captioned(prepared.train, prepared, config)
    _captioned(prepared.valid, prepared, config)  # raises now if all its captions are too long
    order = Shuffled(len(images.images_with_captions), training.batch_size, training.seed)
    batches = Batches(order, images.batch, machine.device)
    held_out = prepared_examples(prepared.valid, config.data.text)

    def build() -> Captioner:
        model = Captioner(config.model.captioner)
        if starts.encoder is not None:
            model.vit = initialise_vit(starts.encoder.vit, model.config.vit)
            model.vit.requires_grad_(not training.frozen)
        if starts.decoder is not None:
            initialise_decoder(
                model, starts.decoder.model, reader.tokenizer.size, reader.tokenizer.bos
            )
        if training.recompute:
            recompute(model)
        if config.machine.compile:
            compile(model.vit)
            compile(model.decoder, dynamic=True)  # captions of another length in each batch
        return model

    size = f"{update_size(training, batches.examples_per_epoch):,} images"
    left_out = f" ({longer:,} captions left out as too long)" if longer else ""
    return Job(
        config=config,
        build=build,
        batches=batches,
        objective=CaptionObjective(training.smoothing),
        held_out=held_out,
        evaluation=CaptionEvaluation(
            beam=settings.beam,
            length_penalty=settings.length_penalty,
            images=settings.images,
            samples=settings.samples,
        ),
        bundle=lambda model: CaptionerBundle(model, reader),
        summary=Summary(
            model=_shape(config, reader.languages), batches=size + left_out, unit="tok"
        ),
        example=_example(prepared.valid, held_out, config.data.text[0], bool(reader.languages)),
    )


def _captioned(
    corpus: CaptionCorpus, prepared: PreparedCaptions, config: CaptionRunConfig
) -> tuple[CaptionedImages, int]:
    """Return what makes the batches of a corpus, and the number of captions that are left out as
    too long."""
    reader = prepared.reader
    captions, longer = caption_tokens(corpus.captions, config.data.text, reader, reader.longest)
    if not captions:
        raise DataError(
            f"all captions have more than {reader.longest} tokens",
            hint="a greater --data.max-length",
        )
    normalise, seed = reader.images.normalised, config.training.seed
    images = CaptionedImages(corpus.images, captions, normalise, config.augmentation, seed)
    return images, longer


def _example(
    corpus: CaptionCorpus, examples: CaptionExamples, language: str, several: bool
) -> Example | None:
    """Return the first held-out image with a caption in that language. several: whether the model
    has several languages."""
    chosen = examples.chosen(language, 1)
    if not chosen:
        return None
    pixels = corpus.images.pixels[chosen[0]].transpose(1, 2, 0)
    target = corpus.captions[chosen[0]][language][0]
    return Example(pixels, target=target, language=language if several else None)


def _shape(config: CaptionRunConfig, languages: tuple[str, ...]) -> str:
    """Describe the model for the terminal."""
    model = config.model.captioner
    (y, x), (height, width) = model.vit.image, model.vit.patch
    named = f", languages {', '.join(languages)}" if languages else ""
    return (
        f"images of {y} x {x} x {model.vit.channels} in patches of {height} x {width}, "
        f"{model.vit.num_layers}+{model.gpt.num_layers} layers, "
        f"d={model.vit.model_dim}+{model.gpt.model_dim}{named}"
    )


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


def prepare(config: CaptionRunConfig, folder: Path, machine: Machine, emit: Emit) -> CaptionJob:
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
    return captioning_job(config, prepare_all(config, starts, folder, emit), starts, machine)
