"""The peer of `bench.finetuning`: transformers' model for a task, and the usual training loop.

Examples are shuffled in each epoch and padded to the longest of the batch, as in transformers'
examples. The tag of a word is that of its first token. A long context is split into overlapping
windows, and the most probable start and end over all windows are the answer.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.base.files import write_file
from headway.evaluation import class_scores, number_scores
from headway.evaluation.squad import score_answers
from headway.tasks.classification.label_files import Columns, read_labelled
from headway.tasks.question_answering.question_files import Question, read_questions
from headway.tasks.tagging.spans import score_spans
from headway.tasks.tagging.tag_files import read_tagged

WEIGHT_DECAY, CLIP = 0.01, 1.0
LONGEST_ANSWER = 30  # tokens
IGNORED = -100
Row = dict[str, Any]
Scores = dict[str, float]


@dataclass(frozen=True)
class Learner:
    """A model and its task. rows: encoded examples with labels. score: evaluates a model."""

    model: Any
    tokenizer: Any
    rows: list[Row]
    loss: Callable[[Any, Row], Tensor]
    score: Callable[[Any], Scores]


def main(settings: dict[str, Any]) -> None:
    """Train, evaluate, and write the scores to the path settings["output"]."""
    torch.set_num_threads(settings["threads"])
    torch.set_flush_denormal(True)
    torch.manual_seed(settings["seed"])
    task = settings["task"]
    learner = KINDS[task["recipe"]](settings["folder"], task)

    def precision() -> AbstractContextManager[Any]:
        return torch.autocast("cpu", torch.bfloat16, enabled=settings["dtype"] == "bfloat16")

    _train(learner, task, settings["seed"], precision)
    learner.model.eval()
    with torch.inference_mode(), precision():
        scores = learner.score(learner.model)
    write_file(Path(settings["output"]), json.dumps(scores).encode())


def _train(
    learner: Learner,
    task: dict[str, Any],
    seed: int,
    precision: Callable[[], AbstractContextManager[Any]],
) -> None:
    model, steps, warmup = learner.model.train(), task["steps"], task["warmup"]
    parameters = list(model.parameters())
    update = torch.optim.AdamW(parameters, lr=task["lr"], weight_decay=WEIGHT_DECAY)
    shape = torch.optim.lr_scheduler.LambdaLR(
        update, lambda step: min((step + 1) / warmup, (steps - step) / (steps - warmup))
    )
    for number, rows in enumerate(_batches(learner.rows, task["batch_size"], steps, seed), start=1):
        update.zero_grad(set_to_none=True)
        with precision():  # entered in each step: it caches 16-bit copies of the weights
            loss = learner.loss(model, padded(learner.tokenizer, rows))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        update.step()
        shape.step()
        if number % 50 == 0:
            print(f"step {number} of {steps}, loss {loss.item():.4f}", flush=True)


def _batches(rows: list[Row], size: int, steps: int, seed: int) -> Iterator[list[Row]]:
    order: list[int] = []
    generator = random.Random(seed)
    for _ in range(steps):
        if len(order) < size:
            order = generator.sample(range(len(rows)), len(rows))
        chosen, order = order[:size], order[size:]
        yield [rows[i] for i in chosen]


def padded(tokenizer: Any, rows: Sequence[Row]) -> Row:
    """Return a batch of tensors; labels that are sequences are padded with -100."""
    names = [name for name in tokenizer.model_input_names if name in rows[0]]
    batch: Row = dict(
        tokenizer.pad({name: [row[name] for row in rows] for name in names}, return_tensors="pt")
    )
    for name in rows[0].keys() - set(names):
        values = [row[name] for row in rows]
        if isinstance(values[0], list):
            length = batch["input_ids"].shape[1]
            values = [value + [IGNORED] * (length - len(value)) for value in values]
        batch[name] = torch.tensor(values)
    return batch


def _logits(model: Any, tokenizer: Any, rows: list[Row], size: int) -> list[Tensor]:
    """Return the logits of each example, in order. The shortest are computed first."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]["input_ids"]))
    logits: dict[int, Tensor] = {}
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        batch = padded(tokenizer, [rows[i] for i in chosen])
        batch.pop("labels", None)
        logits |= zip(chosen, model(**batch).logits.float(), strict=True)
    return [logits[i] for i in range(len(rows))]


def _classifier(folder: str, task: dict[str, Any]) -> Learner:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    columns = Columns(task["text"], task["label"], task["second"])
    train, valid = ([*read_labelled([Path(task[side])], columns)] for side in ("train", "valid"))
    numbers = task["recipe"] == "regress"
    names = [] if numbers else sorted({example.label for example in train})
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)

    def encoded(side: list[Any]) -> list[Row]:
        texts = [example.text for example in side], [example.second for example in side]
        encodings = tokenizer(
            *texts[: 1 + bool(task["second"])], truncation=True, max_length=task["length"]
        )
        targets = [example.number if numbers else names.index(example.label) for example in side]
        return [
            {**{name: encodings[name][i] for name in encodings}, "labels": target}
            for i, target in enumerate(targets)
        ]

    rows, held = encoded(train), encoded(valid)
    true = [row["labels"] for row in held]

    def score(model: Any) -> Scores:
        logits = torch.stack(_logits(model, tokenizer, held, task["batch_size"]))
        if numbers:
            return number_scores(logits[:, 0].tolist(), true)
        return class_scores(logits.argmax(-1).tolist(), true)

    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=1 if numbers else len(names)
    )
    return Learner(model, tokenizer, rows, lambda m, batch: m(**batch).loss, score)


def _tagger(folder: str, task: dict[str, Any]) -> Learner:
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    train, valid = ([*read_tagged([Path(task[side])])] for side in ("train", "valid"))
    names = sorted({tag for sentence in train for tag in sentence.tags})
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)

    def encoded(side: list[Any]) -> list[Row]:
        encodings = tokenizer(
            [list(sentence.words) for sentence in side],
            is_split_into_words=True,
            truncation=True,
            max_length=task["length"],
        )
        rows = []
        for i, sentence in enumerate(side):
            words = encodings.word_ids(i)
            tags = [
                IGNORED if word is None or word == before else names.index(sentence.tags[word])
                for before, word in zip([None, *words], words, strict=False)
            ]
            rows.append({**{name: encodings[name][i] for name in encodings}, "labels": tags})
        return rows

    rows, held = encoded(train), encoded(valid)

    def score(model: Any) -> Scores:
        predicted = []
        logits = _logits(model, tokenizer, held, task["batch_size"])
        for row, scores, sentence in zip(held, logits, valid, strict=True):
            best = scores.argmax(-1).tolist()
            tags = [names[best[i]] for i, tag in enumerate(row["labels"]) if tag != IGNORED]
            predicted.append(tags + ["O"] * (len(sentence.words) - len(tags)))  # truncated words
        return {"f1": score_spans(predicted, [sentence.tags for sentence in valid]).f1}

    model = AutoModelForTokenClassification.from_pretrained(folder, num_labels=len(names))
    return Learner(model, tokenizer, rows, lambda m, batch: m(**batch).loss, score)


def _answerer(folder: str, task: dict[str, Any]) -> Learner:
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    train, valid = ([*read_questions([Path(task[side])])] for side in ("train", "valid"))
    rows, _, _ = _windows(tokenizer, train, task["length"], learned=True)
    held, owners, spans = _windows(tokenizer, valid, task["length"], learned=False)

    def loss(model: Any, batch: Row) -> Tensor:
        value: Tensor = model(**batch).loss
        return value

    def score(model: Any) -> Scores:
        best = [("", -torch.inf)] * len(valid)
        order = sorted(range(len(held)), key=lambda i: len(held[i]["input_ids"]))
        for start in range(0, len(order), 32):
            chosen = order[start : start + 32]
            output = model(**padded(tokenizer, [held[i] for i in chosen]))
            for i, first, last in zip(chosen, output.start_logits, output.end_logits, strict=True):
                a, b, value = _best_span(first.float(), last.float(), spans[i])
                if value > best[owners[i]][1]:
                    begin, end = spans[i][a], spans[i][b]
                    assert begin is not None and end is not None  # `_best_span` allows no others
                    best[owners[i]] = valid[owners[i]].context[begin[0] : end[1]], value
        true = [[answer.text for answer in question.answers] for question in valid]
        scores = score_answers([text for text, _ in best], true)
        return {"f1": scores.f1, "exact": scores.exact}

    model = AutoModelForQuestionAnswering.from_pretrained(folder)
    return Learner(model, tokenizer, rows, loss, score)


Span = tuple[int, int]


def _windows(
    tokenizer: Any, questions: list[Question], length: int, learned: bool
) -> tuple[list[Row], list[int], list[list[Span | None]]]:
    """Split contexts into windows.

    Returns the encoded windows, the index of each window's question, and for each of its tokens the
    span of characters in the context, or None outside of it.
    """
    encodings = tokenizer(
        [question.question for question in questions],
        [question.context for question in questions],
        truncation="only_second",
        max_length=length,
        stride=length // 2,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    owners = list(encodings.pop("overflow_to_sample_mapping"))
    offsets = encodings.pop("offset_mapping")
    rows, spans = [], []
    for i, owner in enumerate(owners):
        kinds = encodings.sequence_ids(i)
        context = [
            span if kind == 1 else None for span, kind in zip(offsets[i], kinds, strict=True)
        ]
        row = {name: encodings[name][i] for name in encodings}
        if learned:
            answer = questions[owner].answers[0]
            first, last = _positions(context, answer.start, answer.start + len(answer.text))
            row |= {"start_positions": first, "end_positions": last}
        rows.append(row)
        spans.append(context)
    return rows, owners, spans


def _positions(spans: list[Span | None], start: int, end: int) -> tuple[int, int]:
    """Return the first and last token of an answer; (0, 0), [CLS], unless it is in the window."""
    inside = [i for i, span in enumerate(spans) if span and span[0] < end and span[1] > start]
    real = [span for span in spans if span]
    if not inside or real[0][0] > start or real[-1][1] < end:
        return 0, 0
    return inside[0], inside[-1]


def _best_span(first: Tensor, last: Tensor, spans: list[Span | None]) -> tuple[int, int, float]:
    count = len(spans)
    scores = first[:count, None] + last[None, :count]
    allowed = torch.tensor([span is not None for span in spans])
    near = torch.ones(count, count, dtype=torch.bool).triu().tril(LONGEST_ANSWER - 1)
    scores = scores.masked_fill(~(near & allowed[:, None] & allowed[None]), -torch.inf)
    best = int(scores.argmax())
    return best // count, best % count, scores.flatten()[best].item()


KINDS: dict[str, Callable[[str, dict[str, Any]], Learner]] = {
    "classify": _classifier,
    "pairs": _classifier,
    "regress": _classifier,
    "tag": _tagger,
    "answer": _answerer,
}

if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
