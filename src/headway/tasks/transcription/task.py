"""The task of transcription: objective, job, evaluation, output, and the record that names them.

Speech becomes text by a Whisper model (Radford et al. 2023), which can be fine-tuned.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from headway.base.chunks import chunks
from headway.base.devices import Machine
from headway.base.errors import DataError
from headway.base.settings import override
from headway.base.sharing import Share
from headway.base.transfers import positions_where
from headway.data.split import evenly_spaced
from headway.data.stream import Batches, Shuffled
from headway.evaluation import nats_of
from headway.evaluation.scores import Metric, Scores
from headway.evaluation.text_overlap import edit_distance
from headway.models import Transcriber
from headway.tasks.finetuning import Sides
from headway.tasks.job import Emit, Job, Summary, planned_steps, prepare_blocks, update_size
from headway.tasks.opening import load_as
from headway.tasks.task import BundleSpec, Pipeline, Predicts, Styled, Task
from headway.tasks.transcription.config import (
    SpeechDataConfig,
    SpeechRunConfig,
    SpeechScoring,
    speech,
)
from headway.tasks.transcription.data import (
    RECORDINGS,
    SpeechBatch,
    SpokenText,
    check_language,
    prepare_spoken,
    read_spoken,
    speech_batch,
    spoken_sides,
)
from headway.tasks.transcription.model import TranscriberBundle, from_hugging_face, to_hugging_face
from headway.tasks.transcription.options import RecordingInput, Transcript, TranscriptOptions
from headway.tasks.transcription.subtitles import clock, srt_lines, vtt_lines
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import cross_entropy_of

ROWS = 8
"""Number of recordings that are computed at once in an evaluation."""

SpeechJob = Job[SpeechBatch, Sequence[SpokenText], SpeechScoring]


def speech_loss(model: Transcriber, batch: SpeechBatch) -> Loss:
    """Return the next-token loss of prompts and transcripts, without padding."""
    hidden = model.decode(batch.read, model.encode(batch.frames))
    real = positions_where(batch.targets >= 0, batch.count)
    targets = batch.targets.flatten()[real]
    total, nats = cross_entropy_of(model)(
        hidden.flatten(0, 1).index_select(0, real), model.output.weight, targets
    )
    return Loss(total, nats, len(targets))


def speech_job(
    config: SpeechRunConfig,
    start: TranscriberBundle,
    spoken: Sides[list[SpokenText]],
    machine: Machine,
) -> SpeechJob:
    """Return the job that fine-tunes a transcriber on recordings with transcripts."""
    training, evaluation = config.training, config.evaluation
    train = spoken.train
    batches = Batches(
        Shuffled(len(train), training.batch_size, training.seed),
        lambda chosen, epoch: speech_batch(train, chosen, start),
        machine.device,
    )
    steps = planned_steps(training, batches.batches_per_epoch, least=500, passes=3.0)

    def build() -> Transcriber:
        model = Transcriber(replace(start.model.config, dropout=config.model.dropout))
        model.load_state_dict(start.model.state_dict())
        model.source_embedding.positions.requires_grad_(False)
        return prepare_blocks(model, training, config.machine)

    shape = start.model.config
    return Job(
        config=override(config, steps, "the recordings"),
        build=build,
        batches=batches,
        objective=speech_loss,
        held_out=spoken.held_out,
        evaluation=SpeechScoring(recordings=evaluation.recordings, sample=evaluation.sample),
        bundle=lambda model: TranscriberBundle(model, start.reader, start.settings),
        summary=Summary(
            model=f"{shape.mels} mel bands, {shape.encoder_layers}+{shape.decoder_layers} layers, "
            f"d={shape.model_dim}, {shape.num_heads} heads",
            batches=f"{update_size(training, len(train)):,} recordings",
            unit="tok",
        ),
    )


def prepare(config: SpeechRunConfig, folder: Path, machine: Machine, emit: Emit) -> SpeechJob:
    """Load the pre-trained transcriber, and read the recordings."""
    start = load_as(TranscriberBundle, str(config.training.start))
    return speech_job(config, start, prepare_spoken(start, config, folder, emit), machine)


def read_examples(
    bundle: TranscriberBundle, paths: Sequence[Path], config: object, options: SpeechScoring
) -> Sequence[SpokenText]:
    """Read the recordings of tables. The columns and the language are those of the run; a model of
    several languages that has no run detects the language."""
    data = config.data if isinstance(config, SpeechRunConfig) else SpeechDataConfig()
    return list(read_spoken(paths, data))


def held_out_examples(
    bundle: TranscriberBundle, run: Path, config: SpeechRunConfig, options: SpeechScoring
) -> Sequence[SpokenText]:
    """Read the held-out recordings of a run."""
    return spoken_sides(config.data).held_out


@torch.inference_mode()
def evaluate(
    bundle: TranscriberBundle, spoken: Sequence[SpokenText], options: SpeechScoring, share: Share
) -> Scores:
    """Score transcripts: the word error rate, and the loss.

    wer = (insertions + deletions + substitutions) / words of the references, in lower case and
    without punctuation at the ends of words. nats: the mean negative log-likelihood of a token.
    Raises DataError if no reference has a word.
    """
    chosen = [spoken[i] for i in evenly_spaced(len(spoken), options.recordings)]
    for one in chosen[:1]:
        check_language(bundle, one.language)
    share = share.in_examples(len(spoken), 2 * len(chosen))

    def loss(part: Sequence[int]) -> tuple[float, int]:
        computed = speech_loss(
            bundle.model, speech_batch(chosen, part, bundle).to(str(bundle.device))
        )
        return computed.nats.item(), computed.count

    def transcripts(part: Sequence[int]) -> list[str]:
        return [
            bundle.transcribe([chosen[i].file], language=chosen[i].language)[0].text for i in part
        ]

    numbers = range(len(chosen))
    nats = nats_of(loss, chunks(numbers, ROWS), share, len)
    written = share.after(len(chosen)).each(chunks(numbers, ROWS), transcripts, len)
    outputs = [text for part in written for text in part]
    pairs = [
        (spoken_words(output), spoken_words(one.text))
        for output, one in zip(outputs, chosen, strict=True)
    ]
    words = sum(len(reference) for _, reference in pairs)
    if not words:
        raise DataError("no transcript has a word, so that there is no word error rate")
    errors = sum(edit_distance(output, reference) for output, reference in pairs)
    metrics = (
        Metric("wer", errors / words, higher_is_better=False),
        Metric("nats", nats.mean, higher_is_better=False),
    )
    samples = [
        {"sound": one.file.name, "output": output, "reference": one.text}
        for output, one in zip(outputs[: options.sample], chosen, strict=False)
    ]
    counts = {"recordings": len(chosen), "words": words, "errors": errors, "targets": nats.count}
    return Scores(metrics, counts, samples)


def spoken_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation at their ends."""
    words = (word.strip(PUNCTUATION) for word in text.casefold().split())
    return [word for word in words if word]


PUNCTUATION = ".,;:!?…\"'()[]«»„“”‘’–—-"


def score_lines(scores: Scores) -> list[str]:
    """Format the word error rate, the loss, and the samples."""
    counts = scores.counts
    return [
        f"WER {scores['wer']:.3f}   {counts['errors']:,} errors in {counts['words']:,} words of "
        f"{counts['recordings']:,} recordings",
        f"nats {scores['nats']:.4f}   per token of prompts and transcripts",
        *(f"{sample['reference']} -> {sample['output']}" for sample in scores.samples),
    ]


def prediction_lines(
    bundle: TranscriberBundle, prediction: Transcript, options: TranscriptOptions
) -> list[Styled]:
    """Format a transcript: file, language with its probability if it was detected, and text,
    separated by tabs; its segments with times, or subtitles, if they are requested."""
    if options.format != "text":
        form = srt_lines if options.format == "srt" else vtt_lines
        return [[(line, "")] for line in form(prediction.segments)]
    cells = [prediction.file]
    if prediction.language_probability is not None:
        cells.append(f"{prediction.language} {prediction.language_probability:.2f}")
    if not options.timestamps:
        return [[("\t".join([*cells, prediction.text]), "")]]
    lines: list[Styled] = [[("\t".join(cells), "")]]
    for segment in prediction.segments:
        lines.append(
            [(f"{clock(segment.start)} --> {clock(segment.end)}", "dim"), (f"\t{segment.text}", "")]
        )
    return lines


def pipeline_form(
    bundle: TranscriberBundle, prediction: Transcript, options: TranscriptOptions
) -> dict[str, object]:
    """Return the text, and its segments with times if they are requested."""
    if not options.has_times:
        return {"text": prediction.text}
    segments = [
        {"text": segment.text, "timestamp": [segment.start, segment.end]}
        for segment in prediction.segments
    ]
    return {"text": prediction.text, "chunks": segments}


TRANSCRIPTION = Task(
    name="transcription",
    config=SpeechRunConfig,
    recipes={"speech": speech},
    check=RECORDINGS.check,
    prepare=prepare,
    evaluation=SpeechScoring,
    score=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    show_scores=score_lines,
    bundles={"transcriber": BundleSpec(TranscriberBundle, from_hugging_face, to_hugging_face)},
    predicts=Predicts(
        input=RecordingInput,
        options=TranscriptOptions,
        show=prediction_lines,
        pipeline=Pipeline(form=pipeline_form),
    ),
    next_commands=("transcribe {run} talk.wav", "eval {run}"),
)
