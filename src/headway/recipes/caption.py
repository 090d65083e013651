"""Captioners as a run: pictures and what was said of them in, the captioner with the best CIDEr-D
out.

Show, Attend and Tell (Xu et al. 2015) with Transformers; from nothing, or from an encoder that has
learned to see and a language model that has learned to write (Rothe et al. 2020).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.blocks import recompute
from headway.bundle import CaptionerBundle, TextBundle
from headway.data.captions import CaptionBatch, CaptionBatches
from headway.errors import UsageError
from headway.evaluation import cider_d, mean_nats, score_against_several
from headway.machine import Machine
from headway.models import Captioner, start_vit, start_writing
from headway.recipes.caption_catalogue import caption
from headway.recipes.caption_config import WRITES, CaptionRunConfig
from headway.recipes.caption_data import (
    PreparedCaptions,
    Starts,
    check_captions,
    prepare_all,
    referenced,
    spoken,
)
from headway.settings import override
from headway.tasks.image_config import SHAPE
from headway.tasks.image_start import open_image_start, settings_of_start, size_settings
from headway.tasks.job import Emit, Example, Family, Job, moved
from headway.tasks.opening import load_as
from headway.training import CaptionObjective, Stream

TOGETHER = 64  # pictures captioned at once


class CaptionJob:
    """A `Job`: pictures with captions, and a captioner."""

    def __init__(
        self, config: CaptionRunConfig, prepared: PreparedCaptions, starts: Starts, machine: Machine
    ) -> None:
        self.config = _fitted(config, prepared, starts)
        self.prepared, self.starts, self.machine = prepared, starts, machine
        self.rows, self.longer = self._batches(prepared.train)
        self.held_out, _ = self._batches(prepared.valid)
        self.objective = CaptionObjective(config.training.smoothing)
        self.plain = CaptionObjective()

    def _batches(self, corpus: Any) -> tuple[CaptionBatches, int]:
        config, reader = self.config, self.prepared.reader
        captions, longer = spoken(corpus, config.data.text, reader)
        batches = CaptionBatches(
            corpus.images,
            captions,
            reader.images.normalised,
            config.augmentation,
            config.training.rows,
            config.training.seed,
        )
        return batches, longer

    def build(self) -> nn.Module:
        config, tokenizer = self.config, self.prepared.reader.tokenizer
        model = Captioner(config.model.captioner)
        if self.starts.encoder is not None:
            model.vit = start_vit(self.starts.encoder.vit, model.config.vit)
            model.vit.requires_grad_(not config.training.frozen)
        if self.starts.decoder is not None:
            start_writing(model, self.starts.decoder.model, tokenizer.size, tokenizer.bos)
        if config.training.recompute:
            recompute(model)
        if config.machine.compile:
            halves: Any = model
            halves.encode = torch.compile(model.encode)
            halves.decode = torch.compile(model.decode, dynamic=True)
        return model

    def stream(self, epoch: int, position: int) -> Stream:
        return moved(self.rows.stream(epoch, position), self.machine.device)

    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> dict[str, float]:
        """Perplexity of all held-out captions; CIDEr-D, BLEU and chrF of what is written of some
        held-out pictures, the mean over languages. `emit` shows a few."""
        nats = self._nats(model, go_on)
        bundle = CaptionerBundle(model, self.prepared.reader)
        found = [self._scores(bundle, each, emit, go_on) for each in self.config.data.text]
        every = [scores for scores in found if scores]
        if not every:
            raise UsageError("two held-out pictures with captions are needed, at least")
        means = {name: sum(one[name] for one in every) / len(every) for name in every[0]}
        return {"nats": nats, "negative_nats": -nats, **means}

    def _scores(
        self,
        bundle: CaptionerBundle,
        language: str,
        emit: Callable[..., None],
        go_on: Callable[..., None],
    ) -> dict[str, float]:
        settings, corpus = self.config.evaluation, self.prepared.valid
        pairs = list(referenced(corpus, language, settings.pictures))
        if len(pairs) < 2:
            return {}
        named = language if bundle.languages else None
        how = (settings.beam, 1, settings.length_penalty)
        outputs: list[str] = []
        for start in range(0, len(pairs), TOGETHER):
            go_on()
            chosen = [picture for picture, _ in pairs[start : start + TOGETHER]]
            images = bundle.reader.images.normalised(torch.from_numpy(corpus.images.pixels[chosen]))
            outputs += [best[0].text for best in bundle.search_images(images, named, how)]
        references = [texts for _, texts in pairs]
        for i in range(settings.samples):
            place = (2 * i + 1) * len(pairs) // (2 * settings.samples)
            emit("sample", language=named, reference=references[place][0], output=outputs[place])
        scores, ciders = score_against_several(outputs, references), cider_d(outputs, references)
        return {"cider": sum(ciders) / len(ciders), "bleu": scores.bleu, "chrf": scores.chrf}

    def _nats(self, model: Any, go_on: Callable[..., None]) -> float:
        """Mean surprise of a token of the held-out captions."""

        def loss(batch: CaptionBatch) -> tuple[float, int]:
            go_on()
            with self.machine.precision():
                found = self.plain(model, batch.to(self.machine.device))
            return found.nats.item(), found.count

        return mean_nats(loss, self.held_out.in_order())

    def example(self) -> Example | None:
        corpus, language = self.prepared.valid, self.config.data.text[0]
        shown = next(iter(referenced(corpus, language, 1)), None)
        if shown is None:
            return None
        place, texts = shown
        named = language if self.prepared.reader.languages else None
        pixels = corpus.images.pixels[place].transpose(1, 2, 0)
        return Example(pixels, target=texts[0], language=named)

    def bundle(self, model: Any) -> CaptionerBundle:
        return CaptionerBundle(model, self.prepared.reader)

    def plan(self) -> dict[str, Any]:
        model, training = self.config.model.captioner, self.config.training
        (y, x), (height, width) = model.vit.image, model.vit.patch
        languages = ", ".join(self.prepared.reader.languages)
        return {
            "model": f"pictures of {y} x {x} x {model.vit.channels} in patches of {height} x "
            f"{width}, {model.vit.num_layers}+{model.gpt.num_layers} layers, "
            f"d={model.vit.model_dim}+{model.gpt.model_dim}"
            + (f", speaks {languages}" if languages else ""),
            "batches": f"{training.rows * training.accumulate:,} pictures"
            + (f" ({self.longer:,} captions left out as too long)" if self.longer else ""),
            "batches_an_epoch": self.rows.batches_an_epoch,
            "unit": "tok",
        }


def _fitted(
    config: CaptionRunConfig, prepared: PreparedCaptions, starts: Starts
) -> CaptionRunConfig:
    """With what was left to the data, and the shapes of the models to start from."""
    asked, usual = config.model, caption().model
    decided = size_settings("model.vit", prepared.reader.images)
    if starts.encoder is not None:
        seen = starts.encoder.vit.config
        decided = settings_of_start("model.vit", asked.vit, usual.vit, seen, SHAPE) | decided
    if starts.decoder is not None:
        written = starts.decoder.model.config
        decided |= settings_of_start("model.gpt", asked.gpt, usual.gpt, written, WRITES)
    decided["model.gpt.vocabulary"] = prepared.reader.size
    return override(config, decided, "the data and the models to start from")


def _prepare(config: CaptionRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
    training = config.training
    encoder = open_image_start(training.encoder, "a captioner")
    decoder = None if training.decoder is None else load_as(TextBundle, training.decoder)
    room = None if decoder is None else decoder.model.max_length
    if room is not None and room <= config.data.max_length:
        raise UsageError(
            f"captions of {config.data.max_length} pieces do not fit into the {room} places that "
            f"{training.decoder} knows",
            hint=f"--data.max-length {room - 1}",
        )
    starts = Starts(encoder, decoder)
    return CaptionJob(config, prepare_all(config, starts, folder, emit), starts, machine)


CAPTIONING = Family(check=check_captions, prepare=_prepare)
"""All that the training run of a captioner does differently."""
