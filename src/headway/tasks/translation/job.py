"""The job of a translation run."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.memory import free_memory
from headway.base.settings import override
from headway.data.mixing import Mixture, quotas_of
from headway.data.stream import Batches, ByTokens
from headway.interop import NO_SETTINGS
from headway.models import Translator, shapes_only
from headway.tasks.job import Emit, Example, Job, Summary
from headway.tasks.opening import load_as
from headway.tasks.translation.batches import (
    FittedBatch,
    TranslationBatch,
    collate,
    fitted_batch,
    longest_batch,
    max_source_tokens,
    recorded_tokens,
)
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import TranslationRunConfig, TranslationScoring
from headway.tasks.translation.data import Prepared, check_settings, prepare_data
from headway.tasks.translation.directions import corpora_of, languages_of
from headway.tasks.translation.examples import TranslationExamples, validation_examples
from headway.tasks.translation.noise import SourceNoise
from headway.tasks.translation.objective import (
    GuidedAlignmentObjective,
    RDropObjective,
    TranslationObjective,
)
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.parallel_corpus import Corpus
from headway.tasks.translation.random_splits import random_splits
from headway.tasks.translation.span_corruption import corruption_of
from headway.tasks.translation.target_languages import check_chosen
from headway.text import SentenceTokenizer, TokenizerPair
from headway.training import Objective, WeightAverage, for_start, optimizer, peak_memory
from headway.transforms import compile, fast, float8, recompute

CANDIDATES = 200
"""Number of held-out pairs among which the example of a run is chosen."""

TranslationJob = Job[TranslationBatch, TranslationExamples, TranslationScoring]


def translation_job(
    config: TranslationRunConfig,
    prepared: Prepared,
    start: TranslatorBundle | None,
    machine: Machine,
) -> TranslationJob:
    """Return the job that trains a translator on pairs. start: the pre-trained model, or None."""
    config = _fitted(config, prepared, start)
    training, corpus, tokenizers = config.training, prepared.train, prepared.tokenizers
    corruption = corruption_of(config.data, tokenizers, training.seed)
    order = ByTokens(
        corpus.source.lengths,
        corpus.target.lengths,
        training.batch_tokens,
        training.seed,
        mixture=_mixture(config, corpus),
    )
    splits = corruption or random_splits(tokenizers, config.data, training.seed)
    noise = _noise(config, tokenizers.source)

    def build() -> Translator:
        model = Translator(config.model)
        if start is not None:
            model.load_state_dict(start.model.state_dict())
        if training.recompute:
            recompute(model)
        if config.machine.compile:
            compile(model, dynamic=True)  # sentences of another length in each batch
        return model

    settings = NO_SETTINGS if start is None else start.settings
    evaluation, longest = _scoring(config), longest_source(config)
    held_out = validation_examples(
        config, evaluation, tokenizers, longest, prepared.valid_pairs, prepared.valid
    )
    _, padding = order.first_epoch
    tokens = training.batch_tokens * training.accumulate
    return Job(
        config=config,
        build=build,
        batches=Batches(
            order,
            lambda chosen, epoch: collate(corpus, chosen, tokenizers, splits, epoch, noise),
            machine.device,
        ),
        objective=_objective(config, tokenizers.target.pad),
        held_out=held_out,
        evaluation=evaluation,
        bundle=lambda model: TranslatorBundle(model, tokenizers, settings=settings),
        summary=Summary(
            model=_shape(config),
            batches=f"{tokens:,} tokens, {padding:.1%} padding",
            unit="tok",
        ),
        example=_example(prepared.valid_pairs[:CANDIDATES], tokenizers),
    )


def _example(pairs: Sequence[Pair], tokenizers: TokenizerPair) -> Example | None:
    """Return the held-out pair with the fewest tokens per word, among those of 4 to 12 words: its
    words are frequent, so that the model learns them early."""

    def tokens_per_word(pair: Pair) -> float:
        tokens = (
            len(tokenizers.source.encode(pair.source)),
            len(tokenizers.target.encode(pair.target)),
        )
        return sum(tokens) / len(f"{pair.source} {pair.target}".split())

    short = [pair for pair in pairs if 4 <= len(pair.source.split()) <= 12]
    best = min(short, key=tokens_per_word, default=None)
    return None if best is None else Example(best.source, target=best.target)


def _scoring(config: TranslationRunConfig) -> TranslationScoring:
    """Return the options of the evaluations during training."""
    evaluation = config.evaluation
    return TranslationScoring(
        beam=evaluation.beam,
        length_penalty=evaluation.length_penalty,
        split="valid",
        sentences=evaluation.sentences,
        samples=evaluation.samples,
        repair=False,
        float32=True,
    )


def longest_source(config: TranslationRunConfig) -> int:
    """Return the maximum number of tokens of a source that the model of a run can translate."""
    with shapes_only():
        return max_source_tokens(Translator(config.model))


def _noise(config: TranslationRunConfig, tokenizer: SentenceTokenizer) -> SourceNoise | None:
    """Return the noise of source sentences; None if there is none."""
    data = config.data
    if not (data.noise_drop or data.noise_mask or data.noise_shuffle):
        return None
    return SourceNoise(
        drop=data.noise_drop,
        mask=data.noise_mask,
        shuffle=data.noise_shuffle,
        blank=tokenizer.bos,  # which no source has
        seed=config.training.seed,
        kept=frozenset(tokenizer.special_ids.values()),
    )


def _objective(config: TranslationRunConfig, pad: int) -> Objective:
    """Return the objective of a run. pad: id of the padding of targets."""
    training = config.training
    objective: Objective = TranslationObjective(pad, training.smoothing)
    if training.r_drop:
        objective = RDropObjective(pad, training.smoothing, training.r_drop)
    layer = config.model.alignment_layer
    if not training.guided_alignment or layer is None:
        return objective
    name = "readout" if config.model.decoder == "rnn" else f"blocks.{layer}"
    return GuidedAlignmentObjective(objective, f"decoder.{name}.cross", training.guided_alignment)


def _mixture(config: TranslationRunConfig, corpus: Corpus) -> Mixture | None:
    """Return how several corpora are mixed; None for one corpus."""
    sizes = corpus.source.sizes
    if len(sizes) == 1:
        return None
    data = config.data
    quotas = quotas_of(sizes, data.weights, data.temperature)
    return Mixture(sizes=sizes, quotas=tuple(quotas.tolist()), seed=config.training.seed)


def _fitted(
    config: TranslationRunConfig, prepared: Prepared, start: TranslatorBundle | None
) -> TranslationRunConfig:
    """Set the shape of the pre-trained model, or the vocabulary sizes, which the tokenizers decide;
    and the layer of guided alignment."""
    tokenizers, model = prepared.tokenizers, config.model
    changes = for_start(
        config.optimizer,
        is_fine_tuned=start is not None,
        has_matrices="transformer" in (model.encoder, model.decoder),
    )
    if start is not None:
        model = replace(start.model.config, dropout=model.dropout)
        changes |= {f"model.{name}": value for name, value in asdict(model).items()}
    else:
        changes["model.source_vocabulary"] = tokenizers.source.size
        changes["model.target_vocabulary"] = tokenizers.target.size
        if not tokenizers.joint:
            changes["model.share_embeddings"] = False
    if config.training.guided_alignment and model.alignment_layer is None:
        # the layer before the last one aligns best without guidance, too (Garg et al. 2019)
        changes["model.alignment_layer"] = max(0, model.cross_attention_layers - 2)
    if prepared.directions:
        changes["data.directions"] = prepared.directions
    return override(config, changes, "the tokenizer" if start is None else "the pre-trained model")


def _shape(config: TranslationRunConfig) -> str:
    """Describe the model for the terminal."""
    model = config.model
    kinds = {
        "transformer": "Transformer",
        "rnn": model.cell.upper(),
        "feed-forward": "feed-forward",
    }
    encoder, decoder = kinds[model.encoder], kinds[model.decoder]
    parts = [
        f"{encoder if encoder == decoder else f'{encoder} to {decoder}'} "
        f"{model.encoder_layers}+{model.decoder_layers} layers",
        f"d={model.model_dim}",
        "no attention" if model.attention == "none" else f"{model.attention} attention",
        f"{model.num_heads} heads" if model.num_heads > 1 else "1 head",
    ]
    if (model.encoder, model.decoder) != ("rnn", "rnn"):
        parts += [f"{model.norm}-norm", f"{model.positions} positions"]
    return ", ".join([*parts, "tied" if model.tie_output else "untied"])


def prepare(
    config: TranslationRunConfig, folder: Path, machine: Machine, emit: Emit
) -> TranslationJob:
    """Prepare tokenizers and shards in the run folder.

    Emits a note with the number of validation sentences that are too long to be translated.
    """
    start = _start(config)
    prepared = prepare_data(config.data, folder, emit, start)
    if config.training.tokens == "auto":
        tokens = recorded_tokens(folder)
        if tokens is None:
            batch = _largest_batch(config, prepared, start, machine)
            emit({"kind": "note", "text": batch.describe()})
            tokens = batch.tokens
        config = override(config, {"training.tokens": tokens}, "the free memory")
    job = translation_job(config, prepared, start, machine)
    sentences = prepared.valid_pairs[: config.evaluation.sentences]
    if too_long := len(sentences) - len(job.held_out):
        text = (
            f"{too_long:,} validation sentences have more than {longest_source(job.config):,} "
            "tokens and are not translated"
        )
        emit({"kind": "note", "text": text})
    return job


def _largest_batch(
    config: TranslationRunConfig,
    prepared: Prepared,
    start: TranslatorBundle | None,
    machine: Machine,
) -> FittedBatch:
    """Measure two steps of a run, and return the largest batch that fits into memory."""
    corpus = prepared.train
    lengths = int(corpus.source.lengths.max()) + 1, int(corpus.target.lengths.max()) + 1
    measured = override(config, {"training.tokens": max(lengths)}, "the free memory")
    job = translation_job(measured, prepared, start, machine)
    free = free_memory(machine.device)

    def step(pairs: int) -> None:
        model = job.build().to(machine.device)
        if config.machine.fast:
            fast(model)
        if machine.dtype == "float8":
            float8(model)
        decay = config.training.average
        average = WeightAverage(model, decay) if decay else None
        updates = optimizer(model, job.config.optimizer)
        batch = longest_batch(
            pairs, *lengths, prepared.tokenizers, aligned=corpus.links is not None
        )
        with machine.precision():
            loss = job.objective(model, batch.to(machine.device))
        torch.autograd.backward(loss.total)
        updates.step()
        if average is not None:
            average.update(model, step=1)

    return fitted_batch(
        lambda pairs: peak_memory(lambda: step(pairs), machine.device),
        max(lengths),
        int((1 + np.maximum(corpus.source.lengths, corpus.target.lengths)).sum()),
        free,
    )


def _start(config: TranslationRunConfig) -> TranslatorBundle | None:
    """Load the model that is fine-tuned, if any.

    Raises UsageError if it is another kind of model, or cannot be trained on these data.
    """
    if config.training.start is None:
        return None
    data = config.data
    start = load_as(TranslatorBundle, config.training.start)
    if known := start.tokenizer.languages:
        sides = (data.target, data.source)
        start = start.into(*(name if name in known.ids else None for name in sides))
        check_chosen(start.tokenizer)
    limits = [limit for limit in (start.model.max_source, start.model.max_target) if limit]
    if limits and data.max_length >= min(limits):
        raise UsageError(
            f"data.max_length={data.max_length}: the model has learned positions for at most "
            f"{min(limits)} tokens, </s> included",
            hint=f"--data.max-length {min(limits) - 1}",
        )
    languages = languages_of(corpora_of(data))
    if (start.languages and not languages) or not set(languages) <= set(start.languages):
        raise UsageError(
            f"the target languages of the data are {', '.join(languages) or 'not named'}, but "
            f"those of {config.training.start} are {', '.join(start.languages) or 'not named'}",
            hint="fine-tune on the same target languages, with --data.directions, or train without "
            "--from",
        )
    corruption_of(data, start.tokenizer, config.training.seed)
    random_splits(start.tokenizer, data, config.training.seed)
    return start


def check(config: TranslationRunConfig) -> None:
    """Raise UsageError or DataError for data and settings that cannot work."""
    check_settings(config)
    corpora_of(config.data)
    _start(config)
