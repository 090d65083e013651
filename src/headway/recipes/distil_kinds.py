"""Whose students can be made: for each kind of teacher how it reads, is scored and saved.

The task's own job prepares the data, judges the student and says how it is saved; what the student
learns from is its teacher alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from headway.attention import Documents
from headway.bundle import Bundle, EncoderBundle, TextBundle
from headway.data.augmented import AugmentedTexts, Neighbours
from headway.data.by_length import ByLength
from headway.data.corruption import MaskingConfig
from headway.data.formats import check_unlabelled, read_unlabelled
from headway.data.framed import FramedBatch
from headway.data.masked_rows import MaskedBatch
from headway.data.packing import IGNORED, TextBatch
from headway.data.word_rows import WordBatch
from headway.errors import UsageError
from headway.machine import Machine
from headway.models import body_of
from headway.models.bert_tasks import drop_heads
from headway.recipes.distil_config import (
    DistilAnswerRunConfig,
    DistilEncoderRunConfig,
    DistilLanguageRunConfig,
    DistilRunConfig,
    DistilTagRunConfig,
    StudentRunConfig,
)
from headway.tasks import classification, language_modeling, question_answering, tagging
from headway.tasks.classification.bundle import ClassifierBundle
from headway.tasks.classification.config import METRICS
from headway.tasks.classification.data import (
    PreparedTexts,
    check_files,
    check_metric,
    prepare_as,
)
from headway.tasks.evaluating import HeldOut, Scored, evaluated_by
from headway.tasks.job import Emit
from headway.tasks.language_modeling.config import (
    LanguageDataConfig,
    LanguageRunConfig,
    LanguageTrainingConfig,
)
from headway.tasks.language_modeling.data import check_sources, prepare_language
from headway.tasks.language_modeling.job import LanguageJob
from headway.tasks.masked_language_modeling.config import (
    EncoderDataConfig,
    EncoderEvaluationConfig,
    EncoderRunConfig,
    EncoderTrainingConfig,
)
from headway.tasks.masked_language_modeling.data import prepare_encoder
from headway.tasks.masked_language_modeling.job import PretrainingJob
from headway.tasks.question_answering.bundle import AnswererBundle
from headway.tasks.question_answering.config import AnswerRunConfig, AnswerTrainingConfig
from headway.tasks.question_answering.data import check_answers, prepare_answers_as
from headway.tasks.question_answering.job import AnswerJob
from headway.tasks.question_answering.windows import AnswerBatch
from headway.tasks.tagging.bundle import TaggerBundle
from headway.tasks.tagging.config import TagRunConfig, TagTrainingConfig
from headway.tasks.tagging.data import check_tags, prepare_tags_as
from headway.tasks.tagging.job import TagJob
from headway.tasks.text_data import check_room, check_text
from headway.text import MarkedTokenizer
from headway.training import Stream, View


@runtime_checkable
class Rows(Protocol):
    """What a student reads, batch by batch."""

    @property
    def batches_an_epoch(self) -> int: ...

    def stream(self, epoch: int, position: int) -> Stream: ...


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a student of one kind learns by.

    views(batch): how models of this kind read it. evaluate: a student's scores, None where only the
    difference from its teacher can be told, on the batches of held_out. bundle: of a student, to be
    saved. unit: of the batches. decided: settings that follow from the data or the teacher.
    """

    rows: Rows
    views: Callable[[Any], Sequence[View]]
    bundle: Callable[[Any], Bundle]
    unit: str
    evaluate: Scored | None = None
    held_out: Callable[[], Iterable[Any]] = tuple
    decided: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """teacher: what `--from` must hold. check: refuses data and settings that cannot work.
    prepare(config, teacher, folder, machine, emit): the data, and all else that is its own."""

    teacher: type[Any]
    check: Callable[[Any], None]
    prepare: Callable[[Any, Any, Path, Machine, Emit], Course]


def _view(texts: FramedBatch) -> View:
    """As models with a head on an encoder read framed texts."""

    def logits(model: Any) -> Any:
        return model(texts.tokens, texts.keys, texts.types)

    return View(logits=logits, keys=texts.keys, count=len(texts.keys))


def _check_classes(config: DistilRunConfig) -> None:
    check_files(config.data, config.recipe)
    check_metric(config.evaluation.metric, config.data)
    for name in config.data.extra:
        check_unlabelled(Path(name))


def _classes(
    config: DistilRunConfig,
    teacher: ClassifierBundle,
    folder: Path,
    machine: Machine,
    emit: Emit,
) -> Course:
    data, rows, seed = config.data, config.training.rows, config.training.seed
    extra = list(read_unlabelled([Path(name) for name in data.extra], data.columns))
    prepared = prepare_as(data, teacher.reader, extra, folder, emit)
    texts, pad = _augmented(config, prepared, teacher), teacher.reader.pad
    judged = HeldOut(
        held_out=prepared.held_out,
        bundle=lambda model: ClassifierBundle(model, prepared.reader),
    )
    return Course(
        rows=ByLength(
            texts.lengths,
            lambda chosen: texts.batch(chosen, pad).to(machine.device),
            rows,
            seed,
        ),
        views=lambda batch: [_view(batch)],
        evaluate=evaluated_by(classification.TASK, judged, machine),
        bundle=judged.bundle,
        unit="texts",
        decided={
            "data.max_length": teacher.reader.max_length,
            "evaluation.metric": config.evaluation.metric or METRICS[data.kind][0],
        },
    )


def _augmented(
    config: DistilRunConfig, prepared: PreparedTexts, teacher: ClassifierBundle
) -> AugmentedTexts:
    """The texts, those without labels behind them, and copies of all."""
    data, tokenizer = config.data, teacher.reader.tokenizer
    rows = [*prepared.train.rows, *prepared.extra[0]]
    types = None
    if prepared.train.types is not None:
        types = [*prepared.train.types, *prepared.extra[1]]
    if not data.augment:
        return AugmentedTexts(rows=rows, types=types)
    if not isinstance(tokenizer, MarkedTokenizer):
        raise UsageError(
            "data.augment replaces words of one piece, and this teacher's pieces are no words",
            hint="leave out --data.augment; --data.extra FILE gives the student more texts",
        )
    spelled, special = tokenizer.words(range(tokenizer.size)), tokenizer.special_ids
    whole = [word.isalpha() and i not in special for i, word in enumerate(spelled)]
    seen = sorted({i for row in rows for i in row})
    table = body_of(teacher.model).tokens.weight[: tokenizer.size].detach()
    return AugmentedTexts(
        rows=rows,
        types=types,
        neighbours=Neighbours.of(table, whole, tokenizer.continues(), seen),
        copies=data.augment,
        share=data.replaced,
        seed=config.training.seed,
    )


def _tag_config(config: DistilTagRunConfig) -> TagRunConfig:
    asked = config.training
    return TagRunConfig(
        recipe=config.recipe,
        data=config.data,
        training=TagTrainingConfig(rows=asked.rows, seed=asked.seed, start=asked.start),
        evaluation=config.evaluation,
    )


def _tags(
    config: DistilTagRunConfig,
    teacher: TaggerBundle,
    folder: Path,
    machine: Machine,
    emit: Emit,
) -> Course:
    reader = teacher.reader
    prepared = prepare_tags_as(config.data, reader, folder, emit)
    encoder = EncoderBundle(teacher.model.bert, reader.tokenizer)
    job = TagJob(_tag_config(config), prepared, encoder, machine)

    def views(batch: WordBatch) -> list[View]:
        return [replace(_view(batch.texts), asked=batch.words)]

    return Course(
        rows=job.rows,
        views=views,
        evaluate=evaluated_by(tagging.TASK, job, machine),
        bundle=lambda model: TaggerBundle(model, reader),
        unit="sentences",
        decided={
            "data.max_length": reader.max_length,
            "evaluation.metric": job.config.evaluation.metric,
        },
    )


def _answer_config(config: DistilAnswerRunConfig) -> AnswerRunConfig:
    asked = config.training
    return AnswerRunConfig(
        recipe=config.recipe,
        data=config.data,
        training=AnswerTrainingConfig(rows=asked.rows, seed=asked.seed, start=asked.start),
        evaluation=config.evaluation,
    )


def _answers(
    config: DistilAnswerRunConfig,
    teacher: AnswererBundle,
    folder: Path,
    machine: Machine,
    emit: Emit,
) -> Course:
    own, reader = _answer_config(config), teacher.reader
    typed = teacher.model.config.bert.token_types > 1
    prepared = prepare_answers_as(config.data, reader, typed, folder, emit)
    encoder = EncoderBundle(teacher.model.bert, reader.tokenizer)
    job = AnswerJob(own, prepared, encoder, machine)

    def views(batch: AnswerBatch) -> list[View]:
        return [replace(_view(batch.texts), over_places=True)]

    return Course(
        rows=job.rows,
        views=views,
        evaluate=evaluated_by(question_answering.TASK, job, machine),
        bundle=lambda model: AnswererBundle(model, reader),
        unit="windows",
        decided={"data.window": reader.window, "data.stride": reader.stride},
    )


def _language_config(config: DistilLanguageRunConfig) -> LanguageRunConfig:
    asked = config.training
    return LanguageRunConfig(
        recipe=config.recipe,
        data=LanguageDataConfig(**asdict(config.data)),
        training=LanguageTrainingConfig(
            rows=asked.rows, length=asked.length, seed=asked.seed, start=asked.start
        ),
        evaluation=config.evaluation,
    )


def _language(
    config: DistilLanguageRunConfig,
    teacher: TextBundle,
    folder: Path,
    machine: Machine,
    emit: Emit,
) -> Course:
    own = _language_config(config)
    check_room(teacher, str(config.training.start), config.training.length)
    job = LanguageJob(own, prepare_language(own, teacher, folder, emit), teacher, machine)
    return Course(
        rows=job.rows,
        views=_documents,
        evaluate=evaluated_by(language_modeling.TASK, job, machine),
        bundle=lambda model: TextBundle(model, teacher.tokenizer),
        unit="rows",
    )


def _documents(batch: TextBatch) -> list[View]:
    """The documents of packed rows, each read as it would be alone, those of like length together.

    What counts is the token: a document as much as it is long.
    """
    lengths = batch.lengths or [(batch.tokens.shape[1],)] * len(batch.tokens)
    tokens, asked = batch.tokens.flatten(), batch.targets.flatten() != IGNORED
    found = []
    for group in Documents(lengths, batch.tokens.device).groups:
        rows, sizes = tokens[group.tokens], group.lengths  # N L
        keys = torch.arange(rows.shape[1], device=rows.device) < sizes[:, None]

        def logits(model: Any, rows: Any = rows) -> Any:
            return model(rows)

        found.append(
            View(
                logits=logits,
                keys=keys,
                asked=asked[group.tokens] & keys,
                weights=sizes.float(),
                count=int(sizes.sum()),
            )
        )
    return found


def _encoder_config(config: DistilEncoderRunConfig) -> EncoderRunConfig:
    asked = config.training
    return EncoderRunConfig(
        recipe=config.recipe,
        data=EncoderDataConfig(**asdict(config.data)),
        masking=MaskingConfig(hidden=0.0, random=0.0),  # every word is seen
        training=EncoderTrainingConfig(
            rows=asked.rows, length=asked.length, seed=asked.seed, start=asked.start
        ),
        evaluation=EncoderEvaluationConfig(rows=config.evaluation.rows),
    )


def _encoder(
    config: DistilEncoderRunConfig,
    teacher: EncoderBundle,
    folder: Path,
    machine: Machine,
    emit: Emit,
) -> Course:
    own = _encoder_config(config)
    check_room(teacher, str(config.training.start), config.training.length)
    drop_heads(teacher.model, "none")  # nothing is said, so nobody would learn them
    job = PretrainingJob(own, prepare_encoder(own, teacher, folder, emit), teacher, machine)

    def views(batch: MaskedBatch) -> list[View]:
        texts = batch.framed

        def hidden(model: Any) -> Any:
            return model.encode(texts.tokens, texts.keys, texts.types)

        return [replace(_view(texts), logits=hidden)]

    return Course(
        rows=job.rows,
        views=views,
        held_out=job.held_out_batches,
        bundle=lambda model: EncoderBundle(drop_heads(model, "none"), teacher.tokenizer),
        unit="rows",
    )


KINDS: dict[type[StudentRunConfig], Kind] = {
    DistilRunConfig: Kind(teacher=ClassifierBundle, check=_check_classes, prepare=_classes),
    DistilTagRunConfig: Kind(
        teacher=TaggerBundle, check=lambda config: check_tags(_tag_config(config)), prepare=_tags
    ),
    DistilAnswerRunConfig: Kind(
        teacher=AnswererBundle,
        check=lambda config: check_answers(_answer_config(config)),
        prepare=_answers,
    ),
    DistilLanguageRunConfig: Kind(
        teacher=TextBundle,
        check=lambda config: check_sources(_language_config(config)),
        prepare=_language,
    ),
    DistilEncoderRunConfig: Kind(
        teacher=EncoderBundle,
        check=lambda config: check_text(config.data, config.recipe),
        prepare=_encoder,
    ),
}
"""The class of a run's configuration -> what its kind brings."""
