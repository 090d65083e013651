"""Translation as a run: sentence pairs in, the translator with the best BLEU out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.blocks import recompute
from headway.bundle import TranslatorBundle
from headway.data.batches import Batches, TranslationBatch, collate
from headway.data.bucketing import Buckets
from headway.data.formats import Pair
from headway.errors import DataError, UsageError
from headway.evaluation import mean_nats, score_translations
from headway.machine import Machine
from headway.models import Translator
from headway.recipes.config import RunConfig
from headway.recipes.prepare import Prepared, prepare_data, splits_of
from headway.settings import override
from headway.tasks.job import Emit, Example, Family
from headway.training import Stream, TranslationObjective


class TranslationJob:
    """A `Job`: a translator, its shards and its validation pairs."""

    def __init__(self, config: RunConfig, prepared: Prepared, machine: Machine) -> None:
        self.config = _fitted(config, prepared)
        self.prepared, self.machine = prepared, machine
        training, corpus = config.training, prepared.train
        self.buckets = Buckets(
            corpus.source_lengths, corpus.target_lengths, training.tokens, training.seed
        )
        pad = prepared.tokenizers.target.pad
        self.objective = TranslationObjective(pad, training.smoothing)
        self.plain = TranslationObjective(pad)

    def build(self) -> nn.Module:
        model: Any = Translator(self.config.model)
        if self.config.training.recompute:
            recompute(model)
        if self.config.machine.compile:  # the halves that training calls; shapes change each batch
            model.encode = torch.compile(model.encode, dynamic=True)
            model.decode = torch.compile(model.decode, dynamic=True)
        return model  # type: ignore[no-any-return]

    def stream(self, epoch: int, position: int) -> Stream:
        prepared = self.prepared
        batches = Batches(prepared.train, self.buckets, prepared.tokenizers, self.machine.device)
        return batches.stream(epoch, position)

    def evaluate(
        self, model: Any, emit: Callable[..., None], go_on: Callable[..., None]
    ) -> dict[str, float]:
        """Perplexity of all validation pairs; BLEU and chrF of the first few hundred, translated.

        `emit` shows a few of them.
        """
        settings = self.config.evaluation
        bundle = TranslatorBundle(model, self.prepared.tokenizers)
        pairs = self._translatable(bundle, emit)
        nats = self._nats(model, go_on)
        found = bundle.search(
            [pair.source for pair in pairs],
            beam=settings.beam,
            length_penalty=settings.length_penalty,
            progress=go_on,
        )
        outputs = [best[0].text for best in found]
        scores = score_translations(outputs, [pair.target for pair in pairs])
        # Spread over the file: neighbours are often alike.
        for i in range(settings.samples):
            place = (2 * i + 1) * len(pairs) // (2 * settings.samples)
            pair, output = pairs[place], outputs[place]
            emit("sample", source=pair.source, reference=pair.target, output=output)
        return {
            "nats": nats,
            "negative_nats": -nats,
            "bleu": scores.bleu,
            "chrf": scores.chrf,
        }

    def _translatable(self, bundle: TranslatorBundle, emit: Callable[..., None]) -> list[Pair]:
        """The first validation pairs, without those whose source is too long for the model."""
        pairs = translatable(self.prepared.valid_pairs, self.config, bundle)
        too_long = min(len(self.prepared.valid_pairs), self.config.evaluation.sentences)
        if too_long := too_long - len(pairs):
            text = (
                f"{too_long:,} validation sentences of more than {bundle.longest:,} tokens are not "
                "translated"
            )
            emit("note", text=text)
        return pairs

    def _nats(self, model: Any, go_on: Callable[..., None]) -> float:
        """Mean surprise of a target token of the validation pairs."""
        corpus = self.prepared.valid
        buckets = Buckets(corpus.source_lengths, corpus.target_lengths, 10**6, 0)
        buckets.tokens = max(self.config.training.tokens, int(buckets.longest.max()))

        def loss(batch: TranslationBatch) -> tuple[float, int]:
            go_on()
            with self.machine.precision():
                found = self.plain(model, batch)
            return found.nats.item(), found.count

        batches = (
            collate(corpus, chosen, self.prepared.tokenizers).to(self.machine.device)
            for chosen in buckets.epoch(0)
        )
        return mean_nats(loss, batches)

    def example(self) -> Example | None:
        short = (p for p in self.prepared.valid_pairs if 4 <= len(p.source.split()) <= 20)
        pair = next(short, None)
        return None if pair is None else Example(pair.source, target=pair.target)

    def bundle(self, model: Any) -> TranslatorBundle:
        return TranslatorBundle(model, self.prepared.tokenizers)

    def plan(self) -> dict[str, Any]:
        first = self.buckets.epoch(0)
        padding, training = self.buckets.padding(first), self.config.training
        tokens = training.tokens * training.accumulate
        return {
            "model": _shape(self.config),
            "batches": f"{tokens:,} tokens, {padding:.1%} padding",
            "batches_an_epoch": len(first),
            "unit": "tok",
        }


def translatable(pairs: Sequence[Pair], config: RunConfig, bundle: TranslatorBundle) -> list[Pair]:
    """Those of the validation pairs that are translated: the first `evaluation.sentences`, without
    those whose source is too long for the model. DataError if there is none."""
    chosen = pairs[: config.evaluation.sentences]
    sources = bundle.tokenizer.source.encode_batch([pair.source for pair in chosen])
    short = [p for p, ids in zip(chosen, sources, strict=True) if len(ids) <= bundle.longest]
    if not short:
        raise DataError(
            f"no validation sentence has at most {bundle.longest:,} tokens",
            config.data.valid or config.data.train,
            "--data.valid FILE with shorter ones",
        )
    return short


def _fitted(config: RunConfig, prepared: Prepared) -> RunConfig:
    """The vocabulary sizes are what the tokenizer came out with."""
    tokenizers = prepared.tokenizers
    changes: dict[str, Any] = {
        "model.source_vocabulary": tokenizers.source.size,
        "model.target_vocabulary": tokenizers.target.size,
    }
    if not tokenizers.joint:
        changes["model.share_embeddings"] = False
    return override(config, changes, "the tokenizer")


def _shape(config: RunConfig) -> str:
    """The model in a few words."""
    model = config.model
    kinds = {
        "transformer": "Transformer",
        "rnn": model.cell.upper(),
        "feed-forward": "feed-forward",
    }
    reads, writes = kinds[model.encoder], kinds[model.decoder]
    facts = [
        f"{reads if reads == writes else f'{reads} to {writes}'} "
        f"{model.encoder_layers}+{model.decoder_layers} layers",
        f"d={model.model_dim}",
        "no attention" if model.attention == "none" else f"{model.attention} attention",
        f"{model.num_heads} heads" if model.num_heads > 1 else "1 head",
    ]
    if (model.encoder, model.decoder) != ("rnn", "rnn"):
        facts += [f"{model.norm}-norm", f"{model.positions} positions"]
    return ", ".join([*facts, "tied" if model.tie_output else "untied"])


def _prepared(config: RunConfig, folder: Path, machine: Machine, emit: Emit) -> TranslationJob:
    return TranslationJob(config, prepare_data(config.data, folder, emit), machine)


def check(config: RunConfig) -> None:
    """UsageError or DataError for what cannot work, before anything is made."""
    splits_of(config.data)
    model, longest = config.model, config.data.max_length
    if model.positions == "learned" and model.max_length <= longest:
        raise UsageError(
            f"model.max_length={model.max_length} learned positions do not hold pairs of up to "
            f"data.max_length={longest} pieces and their </s>",
            hint=f"--model.max-length {longest + 1} or --data.max-length {model.max_length - 1}",
        )


TRANSLATION = Family(check=check, prepare=_prepared)
