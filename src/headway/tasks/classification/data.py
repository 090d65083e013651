"""From a person's labelled texts to examples in memory, and a note in the run folder of which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.data.formats import LabelledText, check_table, read_labelled, read_rows
from headway.data.labelled_texts import LabelledTexts
from headway.errors import DataError, UsageError
from headway.tasks.classification.bundle import ClassifierBundle
from headway.tasks.classification.config import (
    METRICS,
    ClassifyDataConfig,
    ClassifyRunConfig,
    classify,
    pairs,
    regress,
)
from headway.tasks.classification.reader import ClassReader, Numbers
from headway.tasks.finetuning import check_unchanged
from headway.tasks.job import Emit
from headway.tasks.splits import check_known, check_sides, hold_out
from headway.text import MarkedTokenizer, TextTokenizer

FILE = "texts.json"


@dataclass(frozen=True)
class PreparedTexts:
    """What a classifier is trained on, encoded, and the held-out texts. extra: rows and types of
    texts without labels."""

    reader: ClassReader
    train: LabelledTexts
    held_out: list[LabelledText]
    extra: tuple[list[list[int]], list[list[int]]] = ([], [])


def check_texts(config: ClassifyRunConfig) -> None:
    """UsageError unless there are texts, and a model to start from, and the settings agree."""
    data = config.data
    check_files(data, config.recipe)
    check_metric(config.evaluation.metric, data)
    if config.training.balance and data.kind == "number":
        raise UsageError("training.balance weighs classes, and data.kind=number has none")
    if config.lora.rank and (config.training.frozen is not None or config.optimizer.kind == "muon"):
        raise UsageError(
            "adapters (lora.rank) leave every block as it is, and are no matrices for Muon",
            hint="leave out --training.frozen, and --optimizer.kind adamw",
        )
    if config.training.start is None:
        raise UsageError(
            "a classifier is made from a language model or an encoder, and none is named",
            hint="--from RUN; headway train gpt-tiny TEXT makes one",
        )


def check_metric(metric: str | None, data: ClassifyDataConfig) -> None:
    """UsageError for a metric that labels of this kind do not have."""
    if metric is not None and metric not in METRICS[data.kind]:
        raise UsageError(
            f"evaluation.metric={metric} is none of labels of data.kind={data.kind}",
            hint=f"one of {', '.join(METRICS[data.kind])}",
        )


def check_files(data: ClassifyDataConfig, recipe: str) -> None:
    """UsageError unless there are texts, of a kind that is read, and columns of different names."""
    if not data.train:
        raise UsageError(
            "there are no texts to learn from",
            hint=f"headway train {recipe} FILE --from RUN, where FILE is .tsv, .csv or .jsonl",
        )
    for name in (*data.train, *data.valid):
        check_table(Path(name))
    if len(set(data.columns.named.values())) < len(data.columns.named):
        named = ", ".join(f"data.{what}={name}" for what, name in data.columns.named.items())
        raise UsageError(f"{named}: one column holds one thing")


def labelled_texts(
    data: ClassifyDataConfig, emit: Emit = lambda event: None
) -> tuple[list[LabelledText], list[LabelledText]]:
    """The texts to train on and those that are held out: data.valid, or some of data.train.

    Which of them follows from the (first) text alone (`hold_out`), so that a text that occurs twice
    is not on both sides. The first text of a class that no training text has is not held out.
    DataError where a side is empty, where there is one label only, for a label in data.valid that
    data.train does not have, and for one that is no number where it must be.
    """
    given = list(read_labelled([Path(name) for name in data.train], data.columns))
    sources = ", ".join(data.train)
    _check_labels(given, data, sources)
    if data.valid:
        valid = list(read_labelled([Path(name) for name in data.valid], data.columns))
        if data.kind == "number":
            _ = [text.number for text in valid]  # DataError for one that is no number
        else:
            labels = {text.label for text in given}
            check_known(labels_of(valid), labels, "label", "the training texts")
        train, sources = given, ", ".join(data.valid)
    else:
        classes = data.kind == "class"
        train, valid = hold_out(
            given,
            lambda text: text.text,
            data.held_out,
            labels=lambda text: (text.label,) if classes else (),
            emit=emit,
            unit="texts" if data.second is None else "pairs",
        )
    check_sides(train, valid, f"{len(given):,} texts", sources)
    return train, valid


def labels_of(texts: Sequence[LabelledText]) -> Iterator[tuple[str, str]]:
    """Each label, and where it is."""
    return ((text.label, text.where) for text in texts)


def _check_labels(given: Sequence[LabelledText], data: ClassifyDataConfig, sources: str) -> None:
    """DataError unless there are two different ones, and numbers where they must be."""
    numbers = data.kind == "number"
    labels = {each.number if numbers else each.label for each in given}
    if len(labels) < 2:
        found = f"all have the label {labels.pop()!r}" if labels else "there are none"
        what = "different numbers" if numbers else "two classes"
        raise DataError(f"texts of {what} are needed: {found}", sources)


def prepare_texts(
    config: ClassifyRunConfig,
    tokenizer: TextTokenizer | MarkedTokenizer,
    room: int | None,
    folder: Path,
    emit: Emit,
) -> PreparedTexts:
    """The examples, encoded. DataError if the run began with others.

    room: the most tokens that the model to start from has places for, None for any number.
    """
    data = config.data
    sides = labelled_texts(data, emit)
    length = data.max_length if room is None else min(data.max_length, room)
    return _prepared(sides, _reader(data, tokenizer, sides, length), folder, emit)


def prepare_as(
    data: ClassifyDataConfig,
    reader: ClassReader,
    extra: Sequence[LabelledText],
    folder: Path,
    emit: Emit,
) -> PreparedTexts:
    """The same for a model that has its labels already. DataError for a label that it has not.

    extra: texts whose labels nobody asks for. Those that are held out are left out of them.
    """
    kind = "number" if reader.numbers else "class"
    if kind != data.kind or reader.pairs not in (None, data.second is not None):
        reads = "pairs of texts" if reader.pairs else "single texts"
        gives = "numbers" if reader.numbers else "classes"
        raise UsageError(
            f"the model reads {reads} and gives {gives}, and the data is told otherwise",
            hint="--data.second COLUMN for pairs, --data.kind number for numbers",
        )
    sides = labelled_texts(data, emit)
    if reader.numbers is None:
        check_known(labels_of([*sides[0], *sides[1]]), reader.labels, "label")
    held_out = {each.texts for each in sides[1]}
    fresh = [each for each in extra if each.texts not in held_out]
    if len(fresh) < len(extra):
        text = f"{len(extra) - len(fresh):,} of data.extra are held out as well: left out"
        emit({"kind": "note", "text": text})
    return _prepared(sides, reader, folder, emit, fresh)


def _prepared(
    given: tuple[list[LabelledText], list[LabelledText]],
    reader: ClassReader,
    folder: Path,
    emit: Emit,
    extra: Sequence[LabelledText] = (),
) -> PreparedTexts:
    """Encoded, noted in the run folder and told."""
    sides = [_encoded(side, reader) for side in given]
    others = _rows(extra, reader)
    seen: list[Any] = [[side.rows, side.targets] for side in sides]
    check_unchanged(folder / FILE, reader.fingerprint, [*seen, others[0]] if extra else seen)
    length = reader.max_length
    unit = "pairs" if reader.pairs else "texts"
    for name, side in zip(("train", "valid"), sides, strict=True):
        emit({"kind": "prepared", "what": name, "count": len(side.rows), "unit": unit})
        full = sum(len(row) == length for row in side.rows)
        if full:
            text = f"{full:,} {unit} of {name} fill {length} tokens; what is longer was cut"
            emit({"kind": "note", "text": text})
    emit({"kind": "note", "text": _baseline(reader, given[1])})
    if extra:
        emit({"kind": "prepared", "what": "extra", "count": len(extra), "unit": unit})
    return PreparedTexts(reader, sides[0], given[1], others)


def _reader(
    data: ClassifyDataConfig,
    tokenizer: TextTokenizer | MarkedTokenizer,
    sides: tuple[list[LabelledText], list[LabelledText]],
    length: int,
) -> ClassReader:
    """Labels are those of all texts; numbers are scaled by those that are trained on."""
    labels: tuple[str, ...] = ()
    numbers = None
    if data.kind == "class":
        labels = tuple(sorted({each.label for side in sides for each in side}))
    else:
        numbers = Numbers.of([each.number for each in sides[0]])
    if numbers is not None and not numbers.deviation > 0:
        raise DataError("all numbers that are left to train on are equal", ", ".join(data.train))
    return ClassReader(tokenizer, labels, length, numbers, data.second is not None)


def _baseline(reader: ClassReader, valid: Sequence[LabelledText]) -> str:
    """How good it is to say always the same."""
    if reader.numbers is not None:
        mean, found = reader.numbers.mean, [each.number for each in valid]
        error = sum((y - mean) ** 2 for y in found) / len(found)
        lowest, highest = reader.numbers.lowest, reader.numbers.highest
        known = lowest is not None and highest is not None
        told = f"numbers from {lowest:g} to {highest:g}; " if known else ""
        return f"{told}to say {mean:.3g} always has a mean squared error of {error:.3g}"
    common, count = Counter(each.label for each in valid).most_common(1)[0]
    share = count / len(valid)
    return f"{len(reader.labels)} classes; to say {common!r} always is right for {share:.1%}"


def _rows(
    texts: Sequence[LabelledText], reader: ClassReader
) -> tuple[list[list[int]], list[list[int]]]:
    """Their ids and types."""
    rows: list[list[int]] = []
    types: list[list[int]] = []
    for each in texts:
        try:
            ids, kinds = reader.encode([each.texts])
        except UsageError as error:  # an alphabet of characters knows no others
            raise DataError(error.what, each.where, error.hint) from error
        rows += ids
        types += kinds
    return rows, types


def _encoded(texts: Sequence[LabelledText], reader: ClassReader) -> LabelledTexts:
    rows, types = _rows(texts, reader)
    second = types if reader.pairs is not False else None
    if reader.numbers is not None:
        return LabelledTexts(rows, [reader.numbers.scaled(each.number) for each in texts], second)
    numbers = {label: i for i, label in enumerate(reader.labels)}
    return LabelledTexts(rows, [numbers[each.label] for each in texts], second)


def columns_of(bundle: ClassifierBundle, path: Path, config: object) -> ClassifyDataConfig:
    """What the columns of a table are called: as in the configuration of the model's run, or else
    as the recipes expect them. Of a model that does not say whether it reads pairs, as those of
    pairs if the table has them."""
    data = getattr(config, "data", None)
    if isinstance(data, ClassifyDataConfig):
        return data
    reads_pairs = bundle.reader.pairs
    if reads_pairs is None:
        _, first = next(read_rows(path, {}), (0, {}))
        reads_pairs = pairs().data.second in first
    names = pairs().data if reads_pairs else classify().data
    if bundle.reader.numbers is None:
        return names
    return replace(names, kind="number", label=regress().data.label)
