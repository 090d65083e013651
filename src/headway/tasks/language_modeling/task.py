"""The task of language modelling: job, evaluation, output, and the record that names them."""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from headway import interop
from headway.attention import Documents
from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.settings import override
from headway.base.shapes import Tensor
from headway.base.sharing import Share
from headway.bundle import TextBundle
from headway.data.padding import IGNORED
from headway.data.stream import Batches
from headway.evaluation import bits_per_byte, nats_of
from headway.evaluation.scores import Metric, Scores
from headway.interop import NO_SETTINGS
from headway.models import GPT
from headway.tasks.finetuning import adapt, without_adapters
from headway.tasks.job import Emit, Example, Job, Summary, prepare_blocks
from headway.tasks.language_modeling.config import (
    LanguageEvaluationConfig,
    LanguageRunConfig,
    LanguageScoring,
    WeightedTextConfig,
    batch_on,
    gpt,
    gpt_shakespeare,
    gpt_tiny,
)
from headway.tasks.language_modeling.data import (
    PreparedLanguage,
    ScoredText,
    Windows,
    check_sources,
    held_out_text,
    prepare_language,
    read_text,
    windows_of_run,
)
from headway.tasks.language_modeling.packing import PackedSequences, TextBatch, in_order
from headway.tasks.sections import TextStudentTrainingConfig
from headway.tasks.task import BundleSpec, Task, Teaches
from headway.tasks.text_data import check_max_length, described, fitted_model, opened, sides_of_text
from headway.training import TextObjective, View, for_start

WATCHED = 40
"""Number of tokens of the example whose attention is recorded during training."""

LENGTH_LIMIT = 2**17
"""Maximum window length of a model without a maximum context length."""


LanguageJob = Job[TextBatch, ScoredText, LanguageScoring]


def language_job(
    config: LanguageRunConfig,
    prepared: PreparedLanguage,
    start: TextBundle | None,
    machine: Machine,
) -> LanguageJob:
    """Return the job that trains a GPT on text. start: the pre-trained model, or None.

    Raises UsageError for a prompt of the samples that is too long.
    """
    config = _fitted(config, prepared, start)
    model, training, evaluation = config.model, config.training, config.evaluation
    windows = windows_of_run(config)
    length = len(prepared.tokenizer.begin(evaluation.prompt))
    if length > model.max_length:
        raise UsageError(
            f"evaluation.prompt has {length} tokens, but the model's maximum length is "
            f"{model.max_length}",
            hint="shorten --evaluation.prompt",
        )
    packed = PackedSequences(
        prepared.train,
        windows.batch_size,
        windows.length,
        weights=prepared.weights,
        names=prepared.names,
        seed=training.seed,
    )
    batches = Batches(packed, packed.batch, machine.device)

    def build() -> GPT:
        gpt = GPT(model)
        if start is not None:
            gpt.load_state_dict(start.model.state_dict())
        adapt(gpt, config.lora)
        return prepare_blocks(gpt, training, config.machine)

    settings = NO_SETTINGS if start is None else start.settings
    sequences = min(windows.batch_size, batches.examples_per_epoch) * training.accumulate
    return Job(
        config=config,
        build=build,
        batches=batches,
        objective=TextObjective(),
        held_out=ScoredText(corpus=prepared.valid, windows=windows),
        evaluation=LanguageScoring(sample=evaluation.sample, prompt=evaluation.prompt),
        bundle=lambda trained: TextBundle(
            without_adapters(trained, config.lora), prepared.tokenizer, settings
        ),
        summary=Summary(
            model=described(model),
            batches=f"{sequences * windows.length:,} tokens",
            unit="tok",
        ),
        views=documents_of,
        example=Example(prepared.tokenizer.decode(prepared.valid.ids[:WATCHED].tolist())),
    )


def _fitted(
    config: LanguageRunConfig, prepared: PreparedLanguage, start: TextBundle | None
) -> LanguageRunConfig:
    """Set the shape of the model, and the optimizer that suits training from scratch or
    fine-tuning."""
    decided = for_start(config.optimizer, is_fine_tuned=start is not None)
    config = override(config, decided, "the kind of training")
    length = windows_of_run(config).length
    return fitted_model(config, start, prepared.tokenizer.size, length)


def prepare(config: LanguageRunConfig, folder: Path, machine: Machine, emit: Emit) -> LanguageJob:
    """Prepare tokenizer and shards in the run folder, and load the pre-trained model if any."""
    config = override(config, batch_on(machine.device, config), "the size of the model")
    training = config.training
    start = opened(TextBundle, training.start, windows_of_run(config).length)
    prepared = prepare_language(config, start, folder, emit)
    job = language_job(config, prepared, start, machine)
    epochs = training.steps * training.accumulate / job.batches.batches_per_epoch
    if epochs > 20:
        text = f"{math.floor(epochs)} epochs: the model will overfit the text; "
        emit({"kind": "note", "text": text + "use fewer --steps, or --model.dropout 0.2"})
    return job


def student_job(
    config: LanguageRunConfig, teacher: TextBundle, folder: Path, machine: Machine, emit: Emit
) -> LanguageJob:
    """Return the job with the text encoded by the tokenizer of a language model."""
    check_max_length(teacher, str(config.training.start), windows_of_run(config).length)
    prepared = prepare_language(config, teacher, folder, emit)
    job = language_job(config, prepared, teacher, machine)
    return replace(job, bundle=lambda model: TextBundle(model, teacher.tokenizer))


def documents_of(batch: TextBatch) -> list[View]:
    """Split packed sequences into documents, and return one view per group of equal lengths.

    A document is computed as it would be alone. Its weight is its number of tokens.
    """
    lengths = batch.lengths or [(batch.tokens.shape[1],)] * len(batch.tokens)
    tokens, is_target = batch.tokens.flatten(), batch.targets.flatten() != IGNORED
    views = []
    for group in Documents(lengths, batch.tokens.device).apart.groups:
        rows, sizes = tokens[group.tokens], group.lengths  # N L
        keys = torch.arange(rows.shape[1], device=rows.device) < sizes[:, None]

        def logits(model: GPT, rows: Tensor = rows) -> Tensor:
            computed: Tensor = model(rows)
            return computed

        views.append(
            View(
                logits=logits,
                keys=keys,
                target_mask=is_target[group.tokens] & keys,
                weights=sizes.float(),
                count=group.num_tokens,
            )
        )
    return views


@torch.inference_mode()
def evaluate(
    bundle: TextBundle, text: ScoredText, options: LanguageScoring, share: Share
) -> Scores:
    """Score a text in consecutive windows without overlap.

    Every token but the first of the text is a target once, predicted from the earlier tokens of its
    window and its document. If documents end in <eos>, <bos> is no target. Raises UsageError if the
    window length is above the model's context length.

    The scores are nats, the mean negative log-likelihood per token; bits_per_byte, extrapolated to
    the whole text; and perplexity = exp(nats), infinite if that overflows.
    """
    windows, corpus = _chosen(bundle, text.windows, options), text.corpus
    objective, limit = TextObjective(), None
    if windows.tokens is not None:
        limit = -(-windows.tokens // (windows.batch_size * windows.length))

    def loss(batch: TextBatch) -> tuple[float, int]:
        batch_loss = objective(bundle.model, batch)
        return batch_loss.nats.item(), batch_loss.count

    all_batches = in_order(corpus, windows.batch_size, windows.length, str(bundle.device))
    scored = nats_of(loss, islice(all_batches, limit), share, lambda batch: batch.tokens.numel())
    nats = scored.mean
    not_predicted = len(corpus.offsets) if corpus.has_separate_ends else 1
    bits = bits_per_byte(nats * (len(corpus) - not_predicted), corpus.num_bytes)
    metrics = {"nats": nats, "bits_per_byte": bits, "perplexity": perplexity(nats)}
    return Scores(
        tuple(Metric(name, value, higher_is_better=False) for name, value in metrics.items()),
        {"tokens": scored.count, "bytes": corpus.num_bytes, "window": windows.length},
        _samples(bundle, options),
    )


def perplexity(nats: float) -> float:
    """Return exp(nats), or infinity if that overflows."""
    return math.exp(nats) if nats < 700 else math.inf


def _chosen(bundle: TextBundle, windows: Windows, options: LanguageScoring) -> Windows:
    """Return the windows of the text, with the length and tokens of the options if they are set."""
    longest, reason = bundle.model.max_length, "the model's context length"
    if longest is None:
        longest, reason = LENGTH_LIMIT, "because the memory of attention is quadratic in the length"
    length, tokens = options.length, options.tokens
    if length is not None and not 1 <= length <= longest:
        raise UsageError(f"length={length}: must be from 1 to {longest:,}, {reason}")
    return replace(
        windows,
        length=windows.length if length is None else length,
        tokens=windows.tokens if tokens is None else tokens,
    )


def _samples(bundle: TextBundle, options: LanguageScoring) -> list[Mapping[str, str]]:
    """Generate a text from the prompt, as an illustration of the scores."""
    if not options.sample:
        return []
    ((text,),) = bundle.generate([options.prompt], max_tokens=options.sample)
    return [{"prompt": options.prompt, "output": text.text}]


def from_hugging_face(model: GPT, folder: Path, model_type: str) -> TextBundle:
    """Make a bundle of the model with the tokenizer and the settings of the folder."""
    settings = interop.read_folder_settings(folder, "language model")
    return TextBundle(model, interop.read_tokenizer(folder), settings)


def to_hugging_face(bundle: TextBundle, folder: Path, family: str | None) -> str:
    """Write a Hugging Face folder with the language model and its tokenizer."""
    return interop.write_text_model(
        bundle.model, bundle.tokenizer, folder, family, settings=bundle.settings
    )


def score_lines(scores: Scores) -> list[str]:
    """Format perplexity, nats and bits, the number of tokens, and the generated sample if any."""
    counts = scores.counts
    lines = [
        f"perplexity {scores['perplexity']:.2f}   {scores['nats']:.4f} nats per token, "
        f"{scores['bits_per_byte']:.4f} bits per byte",
        f"{counts['tokens']:,} tokens scored in windows of {counts['window']}; the text has "
        f"{counts['bytes']:,} bytes",
    ]
    return [*lines, *(f"{sample['prompt']}{sample['output']}" for sample in scores.samples)]


LANGUAGE_MODELING = Task(
    name="language_modeling",
    config=LanguageRunConfig,
    recipes={"gpt": gpt, "gpt-tiny": gpt_tiny, "gpt-shakespeare": gpt_shakespeare},
    check=check_sources,
    prepare=prepare,
    evaluation=LanguageScoring,
    score=evaluate,
    read=read_text,
    held_out=held_out_text,
    sides=sides_of_text,
    show_scores=score_lines,
    bundles={"gpt": BundleSpec(TextBundle, from_hugging_face, to_hugging_face)},
    teaches=Teaches(
        data=WeightedTextConfig(),
        evaluation=LanguageEvaluationConfig(),
        training=TextStudentTrainingConfig(),
        unit="sequences",
        job=student_job,
    ),
    next_commands=(
        'generate {run} "..."',
        "chat {run}",
        "eval {run}",
        "export {run} --to hf",
    ),
)
