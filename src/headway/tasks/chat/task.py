"""The task of following instructions: job, evaluation, output, and the record that names them.

Supervised fine-tuning: the loss of a language model on the answers only. Ouyang et al. 2022
(InstructGPT), section 3.5.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from headway.base.chunks import chunks
from headway.base.devices import Machine
from headway.base.settings import override
from headway.base.sharing import WHOLE, Share
from headway.bundle import TextBundle
from headway.data.dialogues import has_dialogues
from headway.data.split import evenly_spaced
from headway.data.stream import Batches
from headway.decoding import GenerationConfig, generate_from_tokens
from headway.evaluation import nats_of
from headway.evaluation.by_kind import KINDS, by_kind, kind_lines
from headway.evaluation.scores import Metric, Scores
from headway.tasks.chat.config import LONGEST, ChatRunConfig, ChatScoring, chat
from headway.tasks.chat.data import CONVERSATIONS, held_out_chat, prepare_chat, read_chat
from headway.tasks.dialogue_packing import DialogueBatch, PackedDialogues, packed, rows_of
from headway.tasks.dialogue_questions import Question, questions_of
from headway.tasks.dialogue_store import (
    EncodedDialogues,
    bundle_of,
    fitted_length,
    load_chat_start,
    tuned,
)
from headway.tasks.finetuning import Sides, describe_shape
from headway.tasks.job import Emit, Job, Summary, planned_steps
from headway.tasks.task import Task
from headway.training import TextObjective

ROWS = 16
"""Number of sequences, and of questions, that are computed at once in an evaluation."""
SPARE = 8
"""Number of tokens that an answer may have more than the longest reference."""

ChatJob = Job[DialogueBatch, EncodedDialogues, ChatScoring]


def chat_job(
    config: ChatRunConfig, prepared: Sides[EncodedDialogues], start: TextBundle, machine: Machine
) -> ChatJob:
    """Return the job that fine-tunes a language model on conversations."""
    training, evaluation = config.training, config.evaluation
    assert training.length is not None
    order = PackedDialogues(
        prepared.train.lengths, training.batch_size, training.length, training.seed
    )
    batches = Batches(order, lambda rows, epoch: packed(prepared.train, rows), machine.device)
    steps = planned_steps(training, batches.batches_per_epoch, least=300, passes=3.0)
    config = override(config, steps, "the conversations")

    tokens = training.batch_size * training.length * training.accumulate
    return Job(
        config=config,
        build=tuned(start, config),
        batches=batches,
        objective=TextObjective(),
        held_out=prepared.held_out,
        evaluation=ChatScoring(
            conversations=evaluation.conversations,
            answers=evaluation.answers,
            sample=evaluation.sample,
        ),
        bundle=lambda trained: bundle_of(trained, start, config),
        summary=Summary(
            model=describe_shape(start),
            batches=f"at most {tokens:,} tokens, {order.padding:.1%} padding",
            unit="tok",
        ),
    )


def prepare(config: ChatRunConfig, folder: Path, machine: Machine, emit: Emit) -> ChatJob:
    """Load the pre-trained model, and encode the conversations."""
    start = load_chat_start(config.training.start)
    length = fitted_length(config.training.length, LONGEST, start.model.max_length)
    config = override(config, {"training.length": length}, "the pre-trained model")
    return chat_job(config, prepare_chat(config, start, length, folder, emit), start, machine)


@torch.inference_mode()
def evaluate(
    bundle: TextBundle, dialogues: EncodedDialogues, options: ChatScoring, share: Share
) -> Scores:
    """Score conversations: the loss on their answers, and the fraction of exact answers.

    nats is the mean negative log-likelihood of the tokens of all answers. exact is the fraction of
    conversations whose last answer the model, asked the last question, writes without a difference:
    greedy decoding, whitespace around the answer aside; also for each kind of conversation, if they
    have kinds.
    """
    chosen = evenly_spaced(len(dialogues), options.conversations)
    rows = rows_of(chosen, dialogues.lengths, int(dialogues.lengths[chosen].max()))
    questions = questions_of(dialogues, bundle.tokenizer.ends, options.answers)
    share = share.in_examples(len(dialogues), len(rows) + len(questions))
    objective = TextObjective()

    def loss(chosen: Sequence[Sequence[int]]) -> tuple[float, int]:
        computed = objective(bundle.model, packed(dialogues, chosen).to(str(bundle.device)))
        return computed.nats.item(), computed.count

    nats = nats_of(loss, chunks(rows, ROWS), share, len)
    metrics = [Metric("nats", nats.mean, higher_is_better=False)]
    outputs = answers_to(bundle, questions, share.after(len(rows)))
    decode = bundle.tokenizer.decode
    references = [decode(question.answer).strip() for question in questions]
    is_exact = [float(one == other) for one, other in zip(outputs, references, strict=True)]
    if questions:
        metrics.append(Metric("exact", sum(is_exact) / len(questions)))
    table = by_kind([question.kind for question in questions], is_exact)
    counts = {"conversations": len(chosen), "targets": nats.count, "answers": len(questions)}
    shown = range(min(options.sample, len(questions)))
    samples: Sequence[Mapping[str, str]] = [
        {
            "prompt": decode(questions[i].prompt),
            "output": outputs[i],
            "reference": references[i],
        }
        for i in shown
    ]
    return Scores(tuple(metrics), counts, samples, details={KINDS: table} if table else {})


def answers_to(
    bundle: TextBundle,
    questions: Sequence[Question],
    share: Share = WHOLE,
) -> list[str]:
    """Return the model's answers to questions, by greedy decoding, stripped."""
    longest = max((len(question.answer) for question in questions), default=0)
    config = GenerationConfig(temperature=0.0, max_tokens=longest + SPARE)

    def compute(batch: Sequence[Question]) -> list[str]:
        prompts = [question.prompt for question in batch]
        outputs = generate_from_tokens(bundle.model, bundle.tokenizer, prompts, config)
        return [output[0].text.strip() for output in outputs]

    answers = share.each(chunks(questions, ROWS), compute, len)
    return [text for texts in answers for text in texts]


def score_lines(scores: Scores) -> list[str]:
    """Format the loss and the exact answers, those of each kind, and the samples if any."""
    counts = scores.counts
    exact = f"   exact answers {scores['exact']:.3f}" if "exact" in scores else ""
    lines = [
        f"{scores['nats']:.4f} nats per token of an answer{exact}",
        f"{counts['conversations']:,} conversations, {counts['targets']:,} target tokens, "
        f"{counts['answers']:,} questions",
        *kind_lines(scores.details.get(KINDS, {})),
    ]
    return [*lines, *(f"{sample['prompt']} -> {sample['output']}" for sample in scores.samples)]


CHAT = Task(
    name="chat",
    config=ChatRunConfig,
    recipes={"chat": chat},
    check=CONVERSATIONS.check,
    prepare=prepare,
    evaluation=ChatScoring,
    score=evaluate,
    read=read_chat,
    held_out=held_out_chat,
    reads=has_dialogues,
    show_scores=score_lines,
    next_commands=(
        "chat {run}",
        "serve {run}",
        "eval {run}",
        "train prefer PAIRS --from {run}",
        "train reward TASK --from {run}",
        "export {run} --to hf",
    ),
)
