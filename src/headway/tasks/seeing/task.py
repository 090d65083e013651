"""The task of seeing: objective, job, evaluation, output, and the record that names them.

A GPT reads images in its prompt and answers questions about them: the loss is on the answers only.
Liu et al. 2023 (LLaVA, visual instruction tuning).
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import torch

from headway.base.chunks import chunks
from headway.base.devices import Machine
from headway.base.settings import override
from headway.base.sharing import Share
from headway.bundle import TextBundle
from headway.data.split import evenly_spaced
from headway.data.stream import Batches, ByLength
from headway.decoding import GenerationConfig, generate_from_tokens
from headway.evaluation import nats_of
from headway.evaluation.by_kind import KINDS, by_kind, kind_lines
from headway.evaluation.scores import Metric, Scores
from headway.models import MultimodalGPT, WithImages, initialise_vit
from headway.tasks.dialogue_questions import question_of
from headway.tasks.dialogue_store import fitted_length, with_vocabulary
from headway.tasks.finetuning import Sides
from headway.tasks.image_data import decided_settings, load_image_encoder, settings_of_pretrained
from headway.tasks.job import Emit, Job, Summary, prepare_blocks, update_size
from headway.tasks.opening import load_as
from headway.tasks.seeing.config import LONGEST, WRITES, SeeRunConfig, SeeScoring, see
from headway.tasks.seeing.data import (
    SeeingData,
    SeenBatch,
    SeenDialogues,
    Starts,
    check_seeing,
    held_out_seeing,
    read_seeing,
    seen_batch,
)
from headway.tasks.seeing.model import CHAT, MultimodalBundle, MultimodalReader
from headway.tasks.target_mask import IMAGE_TOKEN
from headway.tasks.task import BundleSpec, Task
from headway.training import TextObjective
from headway.training.objectives.contract import Loss

ROWS = 32
"""Number of conversations that are computed at once in an evaluation."""
SPARE = 8
"""Number of tokens that are generated beyond the length of the longest reference answer."""

SeeingJob = Job[SeenBatch, SeenDialogues, SeeScoring]


def seen_loss(model: MultimodalGPT, batch: SeenBatch) -> Loss:
    """Return the next-token loss of the answers, given their questions and images."""
    return TextObjective()(WithImages(model, batch.images), batch)


def seeing_job(
    config: SeeRunConfig,
    data: SeeingData,
    conversations: Sides[SeenDialogues],
    starts: Starts,
    machine: Machine,
) -> SeeingJob:
    """Return the job that trains a multimodal GPT on conversations with images."""
    training, evaluation = config.training, config.evaluation
    reader = MultimodalReader(data.images.reader, data.tokenizer)
    train = conversations.train
    batches = Batches(
        ByLength(train.lengths, training.batch_size, training.seed),
        lambda chosen, epoch: seen_batch(train, chosen, reader.images),
        machine.device,
    )

    def build() -> MultimodalGPT:
        model = MultimodalGPT(config.model.architecture)
        if starts.language is not None:
            start = with_vocabulary(starts.language.model, config.model.vocabulary)
            model.load_state_dict(start.state_dict(), strict=False)
        if starts.encoder is not None:
            model.vit = initialise_vit(starts.encoder.vit, model.config.vit)
            model.vit.requires_grad_(not training.frozen)
        return prepare_blocks(model, training, config.machine)

    model = config.model
    (y, x), (height, width) = model.vit.vit.image, model.vit.patch
    return Job(
        config=config,
        build=build,
        batches=batches,
        objective=seen_loss,
        held_out=conversations.held_out,
        evaluation=SeeScoring(conversations=evaluation.conversations, sample=evaluation.sample),
        bundle=lambda trained: MultimodalBundle(trained, reader, CHAT),
        summary=Summary(
            model=f"images of {y} x {x} x {model.vit.channels} in patches of {height} x {width}, "
            f"{model.vit.num_layers}+{model.num_layers} layers, "
            f"d={model.vit.model_dim}+{model.model_dim}",
            batches=f"{update_size(training, len(train)):,} conversations",
            unit="tok",
        ),
    )


def prepare(config: SeeRunConfig, folder: Path, machine: Machine, emit: Emit) -> SeeingJob:
    """Load the pre-trained models, and prepare images, tokenizer and conversations."""
    training = config.training
    encoder = load_image_encoder(training.encoder, "a multimodal GPT")
    language = None if training.start is None else load_as(TextBundle, training.start)
    starts = Starts(language, encoder)
    data = SeeingData(config, starts, folder, emit)
    config = _fitted(config, data, starts)
    assert config.training.length is not None
    conversations = data.conversations(config.model.architecture.patches, config.training.length)
    return seeing_job(config, data, conversations, starts, machine)


def _fitted(config: SeeRunConfig, data: SeeingData, starts: Starts) -> SeeRunConfig:
    """Set the settings that the data and the pre-trained models decide."""
    requested, defaults, tokenizer = config.model, see().model, data.tokenizer
    decided = decided_settings(
        requested.vit,
        data.images.reader,
        starts.encoder,
        key="model.vit",
        defaults=defaults.vit,
    )
    vocabulary = tokenizer.size
    limit = requested.max_length if requested.positions == "learned" else None
    if starts.language is not None:
        gpt = starts.language.model.config
        decided |= settings_of_pretrained("model", requested, defaults, gpt, WRITES)
        vocabulary, limit = max(vocabulary, gpt.vocabulary), starts.language.model.max_length
    decided["model.vocabulary"] = vocabulary
    decided["model.image_token"] = tokenizer.encode_with_special_tokens(IMAGE_TOKEN)[0]
    decided["training.length"] = fitted_length(config.training.length, LONGEST, limit)
    return override(config, decided, "the data and the pre-trained models")


@torch.inference_mode()
def evaluate(
    bundle: MultimodalBundle, dialogues: SeenDialogues, options: SeeScoring, share: Share
) -> Scores:
    """Score conversations: the fraction of exact answers, by kind of question, and the loss.

    exact is the fraction of conversations whose last answer the model, asked the last question,
    writes without a difference: greedy decoding, whitespace around the answer aside. nats is the
    mean negative log-likelihood of the tokens of all answers.
    """
    chosen = evenly_spaced(len(dialogues), options.conversations)
    share = share.in_examples(len(dialogues), 2 * len(chosen))

    def loss(part: Sequence[int]) -> tuple[float, int]:
        batch = seen_batch(dialogues, part, bundle.reader.images).to(str(bundle.device))
        computed = seen_loss(bundle.model, batch)
        return computed.nats.item(), computed.count

    def answers(part: Sequence[int]) -> list[list[str]]:
        return [list(pair) for pair in answers_of(bundle, dialogues, part)]

    nats = nats_of(loss, chunks(chosen, ROWS), share, len)
    answered = share.after(len(chosen)).each(chunks(chosen, ROWS), answers, len)
    pairs = list(chain.from_iterable(answered))
    is_exact = [float(output == reference) for output, reference in pairs]
    metrics = (
        Metric("exact", sum(is_exact) / len(is_exact)),
        Metric("nats", nats.mean, higher_is_better=False),
    )
    kinds = [dialogues.kinds[i] for i in chosen] if dialogues.kinds else [""] * len(chosen)
    table = by_kind(kinds, is_exact)
    samples: Sequence[Mapping[str, str]] = [
        {
            "prompt": _question_text(bundle, dialogues, chosen[i]),
            "output": pairs[i][0],
            "reference": pairs[i][1],
        }
        for i in range(min(options.sample, len(chosen)))
    ]
    counts = {"conversations": len(chosen), "targets": nats.count}
    return Scores(metrics, counts, samples, details={KINDS: table} if table else {})


def answers_of(
    bundle: MultimodalBundle, dialogues: SeenDialogues, indices: Sequence[int]
) -> list[tuple[str, str]]:
    """Return the model's answer to the last question of each conversation, and the reference."""
    questions = [question_of(dialogues, index) for index in indices]
    longest = max(len(question.answer) for question in questions)
    config = GenerationConfig(temperature=0.0, max_tokens=longest + SPARE)
    images = seen_batch(dialogues, indices, bundle.reader.images).images
    model = bundle.model
    if images is not None:
        model = WithImages(model, images.to(bundle.device)).eval()
    prompts = [question.prompt for question in questions]
    outputs = generate_from_tokens(model, bundle.tokenizer, prompts, config)
    decode = bundle.tokenizer.decode
    return [
        (output[0].text.strip(), decode(question.answer).strip())
        for output, question in zip(outputs, questions, strict=True)
    ]


def _question_text(bundle: MultimodalBundle, dialogues: SeenDialogues, index: int) -> str:
    """Return the conversation before the last answer, without the places of its images."""
    prompt = question_of(dialogues, index).prompt
    places = set(bundle.places(prompt))
    return bundle.tokenizer.decode(t for i, t in enumerate(prompt) if i not in places)


def score_lines(scores: Scores) -> list[str]:
    """Format the exact answers, in all and by kind of question, the loss, and the samples."""
    counts = scores.counts
    lines = [
        f"exact answers {scores['exact']:.3f}   {scores['nats']:.4f} nats per token of an answer",
        f"{counts['conversations']:,} conversations, {counts['targets']:,} target tokens",
        *kind_lines(scores.details.get(KINDS, {})),
    ]
    return [*lines, *(f"{sample['prompt']} -> {sample['output']}" for sample in scores.samples)]


SEEING = Task(
    name="seeing",
    config=SeeRunConfig,
    recipes={"see": see},
    check=check_seeing,
    prepare=prepare,
    evaluation=SeeScoring,
    score=evaluate,
    read=read_seeing,
    held_out=held_out_seeing,
    show_scores=score_lines,
    bundles={"multimodal-gpt": BundleSpec(MultimodalBundle)},
    next_commands=("chat {run} --image IMAGE", "serve {run}", "eval {run}"),
)
