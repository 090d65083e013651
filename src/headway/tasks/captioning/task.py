"""The task of captioning: objective, job, output, and the record that names them.

Show, Attend and Tell (Xu et al. 2015) with Transformers; from scratch, or from a pre-trained image
encoder and language model (Rothe et al. 2020).
"""

from dataclasses import dataclass
from pathlib import Path

from headway.base.devices import Machine
from headway.base.errors import DataError, UsageError, index_from_one
from headway.base.settings import override
from headway.base.transfers import positions_where
from headway.bundle import TextBundle
from headway.data.image_corpus import examples_of_corpus
from headway.data.overlap import Sides
from headway.data.stream import Batches, Shuffled
from headway.evaluation.scores import Scores
from headway.inspection.ablation import layers_of
from headway.inspection.image_attention import look
from headway.inspection.image_overlays import overlays
from headway.models import Captioner, initialise_decoder, initialise_vit
from headway.tasks.captioning.config import (
    WRITES,
    CaptionDataConfig,
    CaptionEvaluation,
    CaptionRunConfig,
    caption,
    caption_emoji,
    transcribe,
)
from headway.tasks.captioning.data import (
    CaptionBatch,
    CaptionCorpus,
    CaptionedImages,
    CaptionExamples,
    PreparedCaptions,
    Starts,
    caption_tokens,
    captioned_images,
    check_captions,
    held_out_examples,
    prepare_captions,
    read_examples,
)
from headway.tasks.captioning.evaluation import evaluate
from headway.tasks.captioning.model import (
    CaptionedFile,
    CaptionerBundle,
    CaptionInput,
    CaptionOptions,
    from_hugging_face,
    to_hugging_face,
)
from headway.tasks.image_data import (
    decided_settings,
    digest,
    load_image_encoder,
    settings_of_pretrained,
)
from headway.tasks.job import Emit, Example, Job, Summary, update_size
from headway.tasks.opening import load_as
from headway.tasks.task import BundleSpec, Draws, Pipeline, Predicts, Styled, Task
from headway.training.objectives.contract import Loss
from headway.training.objectives.cross_entropy import cross_entropy_of
from headway.transforms import compile, recompute


@dataclass(frozen=True)
class CaptionObjective:
    """Label-smoothed cross-entropy of all tokens of the captions, without padding.

    Vinyals et al. 2015, equation 13; smoothing as Vaswani et al. 2017, section 5.4.
    """

    smoothing: float = 0.0

    def __call__(self, model: Captioner, batch: CaptionBatch) -> Loss:
        memory = model.encode(batch.images)[batch.of]
        hidden = model.decode(batch.read, memory)
        real = positions_where(batch.real, batch.count)
        targets = batch.targets.flatten()[real]
        total, nats = cross_entropy_of(model)(
            hidden.flatten(0, 1).index_select(0, real), model.output.weight, targets, self.smoothing
        )
        return Loss(total, nats, len(targets))


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
    valid = prepared.valid
    held_out = CaptionExamples(
        examples_of_corpus(valid.images), valid.captions, config.data.text, "valid"
    )

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
    decided = decided_settings(
        requested.vit,
        prepared.reader.images,
        starts.encoder,
        key="model.vit",
        defaults=defaults.vit,
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
    return captioning_job(config, prepare_captions(config, starts, folder, emit), starts, machine)


def prediction_lines(
    bundle: CaptionerBundle, prediction: CaptionedFile, options: CaptionOptions
) -> list[Styled]:
    """Format one line per caption: file, language, score and text, separated by tabs.

    The language is shown if several languages were requested, the score if there are several
    captions.
    """
    several = len(prediction.captions) > len(options.languages)
    lines: list[Styled] = []
    for output in prediction.captions:
        cells = [prediction.file]
        if len(options.languages) > 1:
            cells.append(str(output.language))
        if several:
            cells.append(f"{output.score:.4f}")
        # line breaks in a generated text become spaces, so that a caption is one line
        lines.append([("\t".join([*cells, " ".join(output.text.split())]), "")])
    return lines


def pipeline_form(
    bundle: CaptionerBundle, prediction: CaptionedFile, options: CaptionOptions
) -> dict[str, str]:
    """Return the best caption."""
    return {"generated_text": prediction.captions[0].text}


def draw_words(
    bundle: CaptionerBundle, prediction: CaptionedFile, options: CaptionOptions, path: Path
) -> None:
    """Plot where in the image the model attends for each word of the first caption.

    Raises UsageError if several languages were requested.
    """
    if len(options.languages) > 1:
        raise UsageError(
            f"--plot takes one language, and --language names {len(options.languages)}",
            hint=f"--language {options.languages[0]}",
        )
    (language,), text = options.languages, prediction.captions[0].text
    layer = options.layer
    if layer is not None:
        layer = index_from_one("--layer", layer, len(layers_of(bundle.model)["cross"]))
    maps = look(bundle, prediction.file, text, language=language, layer=layer)
    overlays(path, maps, title=text, one_scale=True)


TITLES = {"cider": "CIDEr-D", "bleu": "BLEU", "chrf": "chrF"}


def score_lines(scores: Scores) -> list[str]:
    """Format the scores of each language, and their means if there are several languages."""
    values = scores.as_dict()
    languages = values.get("languages") or [values]
    lines = []
    for row in languages:
        lines += [
            f"{row['language']}: {row['images']:,} images ({values['split']}), beam "
            f"{values['beam']}",
            f"CIDEr-D {row['cider']:.2f}",
            f"BLEU {row['bleu']:.2f}   {row['bleu_signature']}",
            f"chrF {row['chrf']:.2f}   {row['chrf_signature']}",
            f"nats {row['nats']:.3f}   per token of the reference captions",
        ]
        for failure in row.get("worst", ()):
            lines += [
                f"{failure['cider']:.2f}  {failure['image']}",
                f"      output      {failure['output']}",
                f"      references  {' | '.join(failure['references'])}",
            ]
    if len(languages) > 1:
        means = "   ".join(f"{title} {values[name]:.2f}" for name, title in TITLES.items())
        lines.append(f"mean of {len(languages)} languages: {means}   nats {values['nats']:.3f}")
    return lines


def sides(data: CaptionDataConfig) -> Sides:
    """Read the images of a run; only equal images are found."""
    found = captioned_images(data)
    return Sides(
        train=(digest(one.image) for one in found["train"]),
        held_out=(digest(one.image) for one in found["valid"]),
        are_texts=False,
    )


CAPTIONING = Task(
    name="captioning",
    config=CaptionRunConfig,
    recipes={"caption": caption, "caption-emoji": caption_emoji, "transcribe": transcribe},
    check=check_captions,
    prepare=prepare,
    evaluation=CaptionEvaluation,
    score=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    sides=sides,
    show_scores=score_lines,
    bundles={"captioner": BundleSpec(CaptionerBundle, from_hugging_face, to_hugging_face)},
    predicts=Predicts[CaptionerBundle, CaptionInput, CaptionOptions, CaptionedFile](
        input=CaptionInput,
        options=CaptionOptions,
        show=prediction_lines,
        model_options=lambda bundle: bundle.default_options,
        pipeline=Pipeline(form=pipeline_form, lists_one=True),
    ),
    draws=Draws(shown="where in the image the model attends for each word", draw=draw_words),
    next_commands=("caption {run} IMAGES", "caption {run} IMAGE --plot words.png", "eval {run}"),
)
