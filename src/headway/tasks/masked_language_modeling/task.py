"""The task of masked language modelling: job, output, and the record that names them.

Devlin et al. 2019 (BERT), Liu et al. 2019 (RoBERTa), Gururangan et al. 2020 (domain adaptation).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from headway.base.devices import Machine
from headway.base.errors import DataError
from headway.base.settings import override
from headway.base.shapes import Tensor
from headway.base.sharing import Share
from headway.bundle import EncoderBundle, FilledText, FillInput, FillOptions, WordPrediction
from headway.data.padding import IGNORED
from headway.data.stream import Batches
from headway.evaluation.scores import Scores
from headway.models import Bert, start_from
from headway.models.bert_heads import remove_heads
from headway.tasks.finetuning import view_of
from headway.tasks.job import Emit, Example, Job, Summary, prepare_blocks, update_size
from headway.tasks.masked_language_modeling.config import (
    EncoderRunConfig,
    EncoderScoring,
    SmoothedTextConfig,
    StudentEvaluationConfig,
    bert,
    bert_domain,
    bert_tiny,
    roberta,
    settings_of_student,
)
from headway.tasks.masked_language_modeling.data import (
    PreparedSentences,
    check_encoder,
    check_successors,
    prepare_encoder,
)
from headway.tasks.masked_language_modeling.evaluation import (
    HeldOutText,
    entropy,
    evaluate,
    evenly,
    held_out_of,
    held_out_text,
    read_text,
    reads_text,
    sources_of,
)
from headway.tasks.masked_language_modeling.masked_batches import (
    MaskedBatch,
    MaskedSequences,
    evaluation_batches,
    predictions_per_sequence,
)
from headway.tasks.masked_language_modeling.model import (
    MaskedLanguageModelingObjective,
    from_hugging_face,
    to_hugging_face,
)
from headway.tasks.masked_language_modeling.pseudo_perplexity import pseudo_perplexity
from headway.tasks.masked_language_modeling.sentence_pairs import CorpusMixture
from headway.tasks.sections import TextStudentTrainingConfig
from headway.tasks.task import BundleSpec, Pipeline, Predicts, Styled, Task, Teaches
from headway.tasks.text_data import check_max_length, described, fitted_model, opened, sides_of_text
from headway.training import LayersConfig, View

BAR = 30
"""Width in characters of the bar of probability 1."""

PretrainingJob = Job[MaskedBatch, HeldOutText, EncoderScoring]


def pretraining_job(
    config: EncoderRunConfig,
    prepared: PreparedSentences,
    start: EncoderBundle | None,
    machine: Machine,
) -> PretrainingJob:
    """Return the job that pre-trains a BERT on text. start: the pre-trained encoder, or None."""
    config = _fitted(config, prepared, start)
    check_successors(prepared, config)
    model, training, tokenizer = config.model, config.training, prepared.tokenizer
    train = sources_of(config, prepared.train, tokenizer, 0)
    masked = MaskedSequences(train)
    batches = Batches(masked, masked.batch, machine.device)
    held_out = held_out_of(config, prepared.valid, tokenizer)
    evaluation = EncoderScoring(
        sequences=-(-config.evaluation.sequences // len(held_out.sources)),
        sentences=0 if start is None else config.evaluation.sentences,
        sample=config.evaluation.sample,
    )

    def build() -> Bert:
        bert = Bert(model)
        if start is not None:
            start_from(bert, start.model, prepared.new, start.tokenizer.size)
        return prepare_blocks(bert, training, config.machine)

    settings = () if start is None else (start.pooling, start.length)
    kind = "pairs" if model.next_sentence else "sequences"
    size = f"{update_size(training, batches.examples_per_epoch):,} {kind}"
    return Job(
        config=config,
        build=build,
        batches=batches,
        objective=MaskedLanguageModelingObjective(predictions_per_sequence(train[0])),
        held_out=held_out,
        evaluation=evaluation,
        bundle=lambda bert: EncoderBundle(bert, tokenizer, *settings),
        summary=Summary(
            model=described(model),
            batches=f"{size} of up to {training.length} tokens",
            unit="words",
        ),
        views=hidden_states_of,
        example=_example(prepared, config.evaluation.sentences),
        baseline=None if start is None else _baseline(start, held_out, evaluation, machine),
    )


def hidden_states_of(batch: MaskedBatch) -> Sequence[View]:
    """Return the view of the sequences, of whose models hidden states are compared only."""
    texts = batch.framed

    def hidden(model: Bert) -> Tensor:
        return model.encode(texts.tokens, texts.keys, texts.types)

    return [replace(view_of(texts), logits=hidden)]


def held_out_batches(job: PretrainingJob, machine: Machine) -> Iterator[MaskedBatch]:
    """Yield the held-out batches; every call yields the same sequences and masked words."""
    text, most = job.held_out, job.evaluation.sequences
    for source in text.sources.values():
        yield from evaluation_batches(source, text.batch_size, most, machine.device)


def unigram_baselines(
    job: PretrainingJob, prepared: PreparedSentences, machine: Machine
) -> tuple[float, float]:
    """Compute two unigram baselines of the masked words in held-out sequences, in nats per word.

    The first is their entropy, which no unigram model can beat. The second is their cross-entropy
    by the word frequencies of the training text. Raises DataError if no word is masked.
    """
    targets = [batch.targets[batch.targets != IGNORED] for batch in held_out_batches(job, machine)]
    size = prepared.tokenizer.size
    masked = np.bincount(torch.cat(targets).cpu().numpy(), minlength=size)
    if not masked.any():
        data = job.config.data
        raise DataError(
            "the held-out text has no word to mask",
            ", ".join(data.valid or data.train),
            "a longer text, or --data.valid FILE",
        )
    counts = np.ones(size)
    for corpus in prepared.train:
        counts += corpus.counts(size)
    counts[list(prepared.tokenizer.special_ids)] = 0
    occurs = masked > 0
    fractions = masked[occurs] / masked.sum()
    cross_entropy = -float((fractions * np.log(counts[occurs] / counts.sum())).sum())
    return entropy(masked), cross_entropy


def _baseline(
    start: EncoderBundle, held_out: HeldOutText, evaluation: EncoderScoring, machine: Machine
) -> Callable[[Callable[[int], None]], str]:
    """Return the function that computes the pseudo-perplexity of the pre-trained model."""

    def baseline(progress: Callable[[int], None]) -> str:
        if start.model.masked_lm_head is None:
            return "the pre-trained model has no head for masked words: a new one is initialised"
        start.model.to(machine.device)
        sentences = evenly(held_out.sentences, evaluation.sentences)
        with machine.precision():
            before = pseudo_perplexity(
                start, sentences, lambda work: Share(progress).in_examples(len(sentences), work)
            )
        return (
            f"before: pseudo-perplexity {before.per_word:,.1f} per word "
            f"({math.log(before.per_word):.3f} nats), {before.fertility:.3f} tokens per word"
        )

    return baseline


def _example(prepared: PreparedSentences, most: int) -> Example | None:
    """Return the first short one of some held-out sentences, decoded by the tokenizer."""
    corpus = prepared.valid[0]
    chosen = np.unique(np.linspace(0, len(corpus) - 1, most).round().astype(int))
    texts = (prepared.tokenizer.decode(corpus.sentence(int(i))) for i in chosen)
    return next((Example(text) for text in texts if 5 <= len(text.split()) <= 30), None)


def _fitted(
    config: EncoderRunConfig, prepared: PreparedSentences, start: EncoderBundle | None
) -> EncoderRunConfig:
    """Set the shape of the model, with a head for masked words and room for new tokens."""
    vocabulary = prepared.tokenizer.size
    config = fitted_model(config, start, vocabulary, config.training.length)
    if start is None:
        return config
    vocabulary = max(start.config.vocabulary, vocabulary)
    decided = {"model.masked_lm_head": True, "model.vocabulary": vocabulary}
    return override(config, decided, "the pre-trained model")


def prepare(config: EncoderRunConfig, folder: Path, machine: Machine, emit: Emit) -> PretrainingJob:
    """Prepare the sentences, and load the pre-trained encoder if any."""
    training = config.training
    start = opened(EncoderBundle, training.start, training.length)
    prepared = prepare_encoder(config, start, folder, emit)
    job = pretraining_job(config, prepared, start, machine)

    def note(text: str) -> None:
        emit({"kind": "note", "text": text})

    unigram_entropy, cross_entropy = unigram_baselines(job, prepared, machine)
    note(
        f"the held-out masked words have a unigram entropy of {unigram_entropy:.3f} nats, and a "
        f"cross-entropy of {cross_entropy:.3f} nats by the frequencies of the training text"
    )
    if job.config.model.next_sentence:
        for corpus in prepared.train:
            if len(corpus.documents) == 2:
                note(
                    f"{corpus.folder.name} is one document: the random second texts of "
                    "next-sentence prediction are distant parts of it; --data.split splits it into "
                    "documents"
                )
    if len(prepared.train) > 1:
        mixture = CorpusMixture.among(prepared.train, config.data.smoothing)
        weights = ", ".join(f"{fraction:.1%}" for fraction in mixture.probabilities)
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


def student_job(
    config: EncoderRunConfig, teacher: EncoderBundle, folder: Path, machine: Machine, emit: Emit
) -> PretrainingJob:
    """Return the job with the sentences encoded by the tokenizer of an encoder.

    Heads are removed: no outputs are compared, so none would be trained.
    """
    check_max_length(teacher, str(config.training.start), config.training.length)
    remove_heads(teacher.model, "none")
    prepared = prepare_encoder(config, teacher, folder, emit)
    job = pretraining_job(config, prepared, teacher, machine)
    return replace(
        job, bundle=lambda model: EncoderBundle(remove_heads(model, "none"), teacher.tokenizer)
    )


def prediction_lines(
    bundle: EncoderBundle, prediction: FilledText, options: FillOptions
) -> list[Styled]:
    """Format the text; then for each [MASK] one line per word with its probability and a bar."""
    lines: list[Styled] = [[(prediction.text, "")]]
    for words in prediction.predictions:
        lines += [*_bars(words), []]
    return lines


def pipeline_form(bundle: EncoderBundle, prediction: FilledText, options: FillOptions) -> object:
    """Return the words for the only [MASK] with their scores, or a list of such lists."""
    masks = [
        [
            {
                "sequence": bundle.filled(prediction.text, number, word),
                "score": word.probability,
                "token": word.token,
                "token_str": word.word,
            }
            for word in words
        ]
        for number, words in enumerate(prediction.predictions)
    ]
    return masks[0] if len(masks) == 1 else masks


def _bars(words: Sequence[WordPrediction]) -> list[Styled]:
    width = max(len(prediction.word) for prediction in words)
    return [
        [
            (f"  {prediction.word:<{width}}", "bold"),
            (f"  {prediction.probability:.3f}  ", ""),
            ("█" * round(BAR * prediction.probability), "cyan"),
        ]
        for prediction in words
    ]


def score_lines(scores: Scores) -> list[str]:
    """Format the pseudo-perplexity, then the scores of the held-out sequences of each text."""
    lines = []
    if perplexity := scores.details.get("pseudo_perplexity"):
        lines.append(
            f"pseudo-perplexity {perplexity['per_token']:.2f} per token, "
            f"{perplexity['per_word']:.2f} per word   "
            f"{perplexity['fertility']:.3f} tokens per word, "
            f"{scores.counts['sentences']:,} sentences"
        )
    for text, numbers in scores.details["held_out_sequences"].items():
        lines.append(f"{text}: {_of_text(numbers)}")
    return lines


def _of_text(numbers: Mapping[str, float]) -> str:
    masked = (
        f"{numbers['mlm_nats']:.3f} nats per masked token, accuracy {numbers['mlm_accuracy']:.1%}"
    )
    if "nsp_accuracy" not in numbers:
        return masked
    return f"{masked}; next-sentence prediction {numbers['nsp_accuracy']:.1%}"


MASKED_LANGUAGE_MODELING = Task(
    name="masked_language_modeling",
    config=EncoderRunConfig,
    recipes={"bert": bert, "bert-tiny": bert_tiny, "bert-domain": bert_domain, "roberta": roberta},
    check=check_encoder,
    prepare=prepare,
    evaluation=EncoderScoring,
    score=evaluate,
    read=read_text,
    held_out=held_out_text,
    sides=sides_of_text,
    reads=reads_text,
    show_scores=score_lines,
    bundles={"bert": BundleSpec(EncoderBundle, from_hugging_face, to_hugging_face)},
    predicts=Predicts(
        input=FillInput,
        options=FillOptions,
        show=prediction_lines,
        pipeline=Pipeline(form=pipeline_form, option_names={"top_k": "top"}),
    ),
    teaches=Teaches(
        data=SmoothedTextConfig(),
        evaluation=StudentEvaluationConfig(),
        training=TextStudentTrainingConfig(),
        distillation=LayersConfig(),
        unit="sequences",
        job=student_job,
        settings=settings_of_student,
        compared=held_out_batches,
        next_commands=(
            "train classify TEXTS --from {run}",
            "embed {run} TEXTS --output vectors.npz",
        ),
    ),
    next_commands=('fill {run} "... [MASK] ..."', "eval {run}"),
)
