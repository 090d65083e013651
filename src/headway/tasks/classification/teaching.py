"""Students of classifiers, which are trained on unlabelled and augmented texts too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.base.errors import UsageError
from headway.base.settings import COPIES, setting
from headway.data.stream import Batches, ByLength
from headway.models import backbone_of
from headway.tasks.classification.bundle import ClassifierBundle
from headway.tasks.classification.config import (
    METRICS,
    ClassifyDataConfig,
    ClassifyEvaluationConfig,
)
from headway.tasks.classification.data import (
    PreparedTexts,
    check_files,
    check_metric,
    prepare_for_reader,
)
from headway.tasks.classification.label_files import check_unlabelled, read_unlabelled
from headway.tasks.classification.word_replacement import AugmentedTexts, Neighbours
from headway.tasks.job import Emit
from headway.tasks.sections import unset_settings
from headway.tasks.teaching import StudentData, Students, view_of
from headway.text import EncoderTokenizer


@dataclass(frozen=True, kw_only=True)
class StudentDataConfig(ClassifyDataConfig):
    """The texts of a student's run. Labels are used for the evaluation only."""

    extra: tuple[str, ...] = setting(
        (),
        "additional texts without labels: lines of .txt files, or the text column of tables; plain "
        "or .gz",
    )
    augment: int = setting(
        0,
        "data augmentation: number of copies of every text in which words are replaced by words "
        "with similar vectors",
        ge=0,
        le=COPIES,
    )
    replaced: float = setting(0.4, "fraction of the words of a copy that are replaced", gt=0, le=1)


def _check(config: Any) -> None:
    check_files(config.data, config.recipe)
    check_metric(config.evaluation.metric, config.data)
    for name in config.data.extra:
        check_unlabelled(Path(name))


def _prepare(
    config: Any, teacher: ClassifierBundle, folder: Path, machine: Machine, emit: Emit
) -> StudentData:
    """Encode the texts with the reader of the teacher."""
    data, rows, seed = config.data, config.training.batch_size, config.training.seed
    extra = list(read_unlabelled([Path(name) for name in data.extra], data.columns))
    prepared = prepare_for_reader(data, teacher.reader, extra, folder, emit)
    texts, pad = _augmented(config, prepared, teacher), teacher.reader.pad
    return StudentData(
        train_batches=Batches(
            ByLength(texts.lengths, rows, seed),
            lambda chosen, epoch: texts.batch(chosen, pad),
            machine.device,
        ),
        views=lambda batch: [view_of(batch)],
        held_out=prepared.held_out,
        bundle=lambda model: ClassifierBundle(model, prepared.reader),
        unit="texts",
        decided={
            "data.max_length": teacher.reader.max_length,
            "evaluation.metric": config.evaluation.metric or METRICS[data.kind][0],
        },
    )


def _augmented(config: Any, prepared: PreparedTexts, teacher: ClassifierBundle) -> AugmentedTexts:
    """Return the training texts, then the texts without labels, then augmented copies of all."""
    data, tokenizer = config.data, teacher.reader.tokenizer
    rows = [*prepared.train.rows, *prepared.extra[0]]
    types = None
    if prepared.train.types is not None:
        types = [*prepared.train.types, *prepared.extra[1]]
    if not data.augment:
        return AugmentedTexts(rows=rows, types=types)
    if not isinstance(tokenizer, EncoderTokenizer):
        raise UsageError(
            "data.augment needs a teacher with a WordPiece tokenizer, whose tokens are words; this "
            "teacher is a language model",
            hint="leave out --data.augment; --data.extra FILE adds texts to the training",
        )
    words, special = tokenizer.words(range(tokenizer.size)), tokenizer.special_ids
    whole = [word.isalpha() and i not in special for i, word in enumerate(words)]
    used = sorted({i for row in rows for i in row})
    embeddings = backbone_of(teacher.model).tokens.weight[: tokenizer.size].detach()
    return AugmentedTexts(
        rows=rows,
        types=types,
        neighbours=Neighbours.of(embeddings, whole, tokenizer.continues(), used),
        copies=data.augment,
        probability=data.replaced,
        seed=config.training.seed,
    )


STUDENTS = Students(
    data=StudentDataConfig(),
    evaluation=ClassifyEvaluationConfig(),
    check=_check,
    prepare=_prepare,
    decided=lambda config: unset_settings(config, "evaluation.metric") | {"data.max_length"},
)
