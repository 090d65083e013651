"""Training a translator from a configuration: from files to the best model on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headway.bundle import TranslatorBundle
from headway.data.batches import Batches, TranslationBatch, collate
from headway.data.bucketing import Buckets
from headway.evaluation import mean_nats, score_translations
from headway.files import lock, write_file
from headway.machine import Machine
from headway.machine import prepare as prepare_machine
from headway.models import Translator, parameter_count
from headway.recipes.config import RunConfig, parse_time
from headway.recipes.prepare import Prepared, prepare_data, splits_of
from headway.settings import override, write_yaml
from headway.training import (
    Averaging,
    Checkpointing,
    Evaluation,
    Event,
    Interrupted,
    MetricsLog,
    Observer,
    StepLog,
    StopRequest,
    TimeLimit,
    TrainingState,
    TranslationObjective,
    WeightAverage,
    adamw,
    fit,
    graceful_stop,
    learning_rate,
)

LOGGED = {"train", "valid", "saved", "resumed", "finished"}


@dataclass(frozen=True)
class Outcome:
    """How a run ended. stop: done, time, early stop, interrupted."""

    folder: Path
    stop: str
    step: int
    best: float | None
    best_step: int
    seconds: float


def train_translator(
    config: RunConfig,
    folder: Path,
    *,
    listeners: Sequence[Callable[[Event], None]] = (),
    observers: Sequence[Observer] = (),
    history: Sequence[str] = (),
) -> Outcome:
    """Train in `folder`, or go on where a run there stopped. Bit-exact on one machine's CPU.

    The folder is locked while training. `history` is written above the configuration in run.yaml.
    """
    splits_of(config.data)  # what cannot work is said before anything is made
    machine = prepare_machine(config.machine)
    with lock(folder), graceful_stop() as request:

        def emit(event: Event) -> None:
            for listener in listeners:
                listener(event)
            if request:
                raise Interrupted

        try:
            prepared = prepare_data(config.data, folder, emit)
        except Interrupted:
            return Outcome(folder, "interrupted", 0, None, 0, 0.0)
        config = _fitted(config, prepared)
        write_file(folder / "run.yaml", write_yaml(config, history).encode())
        run, save = _state(config, prepared, machine, folder)
        log = MetricsLog(folder / "metrics.jsonl")
        resumed, skipped = save.resume(run)
        log.rewind(run.step)
        run.listeners = [*listeners, lambda e: log(e) if e["kind"] in LOGGED else None]
        _announce(run, prepared, config, machine)
        if resumed is not None:
            run.emit("resumed", path=str(resumed), skipped=skipped)
        return _train(config, prepared, machine, (run, save), observers, request, folder)


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


def _state(
    config: RunConfig, prepared: Prepared, machine: Machine, folder: Path
) -> tuple[TrainingState, Checkpointing]:
    torch.manual_seed(config.training.seed)
    model = Translator(config.model).to(machine.device)
    average = None
    if config.training.average:
        average = WeightAverage(model, config.training.average)
    run = TrainingState(model, adamw(model, config.optimizer), average)
    save = Checkpointing(folder / "checkpoints", config.checkpoint.every, config.checkpoint.keep)
    return run, save


def _announce(run: TrainingState, prepared: Prepared, config: RunConfig, machine: Machine) -> None:
    buckets = _buckets(config, prepared)
    first = buckets.epoch(0)
    run.emit(
        "plan",
        parameters=parameter_count(run.model),
        model=_shape(config),
        machine=str(machine),
        steps=config.training.steps,
        time=config.training.time,
        batches_an_epoch=len(first),
        padding=buckets.padding(first),
        tokens=config.training.tokens * config.training.accumulate,
        seed=config.training.seed,
    )


def _shape(config: RunConfig) -> str:
    model = config.model
    layers = f"{model.encoder_layers}+{model.decoder_layers} layers"
    tied = "tied" if model.tie_output else "untied"
    return f"{layers}, d={model.model_dim}, {model.num_heads} heads, {model.norm}-norm, {tied}"


def _buckets(config: RunConfig, prepared: Prepared) -> Buckets:
    corpus = prepared.train
    return Buckets(
        corpus.source_lengths,
        corpus.target_lengths,
        config.training.tokens,
        config.training.seed,
    )


def _train(
    config: RunConfig,
    prepared: Prepared,
    machine: Machine,
    run_and_save: tuple[TrainingState, Checkpointing],
    observers: Sequence[Observer],
    request: StopRequest,
    folder: Path,
) -> Outcome:
    run, save = run_and_save
    training = config.training
    best = folder / "model"
    model: Any = run.model
    bundle = TranslatorBundle(model, prepared.tokenizers)
    objective = TranslationObjective(prepared.tokenizers.target.pad, training.smoothing)
    evaluation = Evaluation(
        _evaluator(config, prepared, machine, bundle, run, request),
        config.evaluation.metric,
        config.evaluation.every,
        lambda: bundle.save(best, overwrite=True),
        config.evaluation.patience,
    )
    limit = [TimeLimit(parse_time(training.time))] if training.time else []
    if config.machine.compile:  # the two halves that training calls; shapes change each batch
        model.encode = torch.compile(model.encode, dynamic=True)
        model.decode = torch.compile(model.decode, dynamic=True)
    evaluation.catch_up(run)
    batches = Batches(
        prepared.train, _buckets(config, prepared), prepared.tokenizers, machine.device
    )
    fit(
        run,
        batches.stream(run.epoch, run.position),
        objective,
        [Averaging(), StepLog(), *limit, *observers, evaluation, save],
        steps=training.steps,
        learning_rate=lambda step: learning_rate(
            config.schedule, config.optimizer.lr, step, training.steps
        ),
        accumulate=training.accumulate,
        clip=training.clip,
        precision=machine.precision,
        request=request,
    )
    if run.stop != "interrupted":
        evaluation.evaluate(run)
    save.save(run)
    stop = run.stop or "done"
    outcome = Outcome(folder, stop, run.step, run.best, run.best_step, run.seconds)
    run.emit("finished", stop=stop, best=run.best, best_step=run.best_step, seconds=run.seconds)
    return outcome


def _evaluator(
    config: RunConfig,
    prepared: Prepared,
    machine: Machine,
    bundle: TranslatorBundle,
    run: TrainingState,
    request: StopRequest,
) -> Callable[[Any], dict[str, float]]:
    """Perplexity of all validation pairs; BLEU and chrF of the first few hundred, translated."""
    settings = config.evaluation
    plain = TranslationObjective(prepared.tokenizers.target.pad)
    pairs = prepared.valid_pairs[: settings.sentences]
    corpus = prepared.valid
    buckets = Buckets(corpus.source_lengths, corpus.target_lengths, 10**6, 0)
    buckets.tokens = max(config.training.tokens, int(buckets.longest.max()))

    def go_on(done: int = 0) -> None:
        if request:
            raise Interrupted

    def loss(batch: TranslationBatch) -> tuple[float, int]:
        go_on()
        with machine.precision():
            found = plain(bundle.model, batch)
        return found.nats.item(), found.count

    def evaluate(model: Any) -> dict[str, float]:
        batches = (
            collate(corpus, chosen, prepared.tokenizers).to(machine.device)
            for chosen in buckets.epoch(0)
        )
        nats = mean_nats(loss, batches)
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
            run.emit("sample", source=pair.source, reference=pair.target, output=output)
        return {
            "nats": nats,
            "negative_nats": -nats,
            "bleu": scores.bleu,
            "chrf": scores.chrf,
        }

    return evaluate
