"""Labelled texts: checks, splits and encodes them, writes their fingerprint, and makes batches of
them; and the inputs of a classifier."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from headway.base.errors import DataError, UsageError
from headway.base.settings import setting
from headway.base.shapes import Float, Int, Tensor
from headway.data.bad_rows import BadRows
from headway.data.padding import EncoderBatch, collate_encoder_batch
from headway.data.rows import ENDINGS, ROWS, read_rows
from headway.data.split import check_known, majority_baseline
from headway.data.stream import Indices
from headway.tasks.classification.config import (
    METRICS,
    ClassifyDataConfig,
    ClassifyRunConfig,
    classify,
    pairs,
    regress,
)
from headway.tasks.classification.label_files import (
    Columns,
    LabelledText,
    check_unlabelled,
    read_labelled,
)
from headway.tasks.classification.model import ClassifierBundle, ClassInput
from headway.tasks.classification.reader import ClassReader, Numbers
from headway.tasks.finetuning import ExampleFiles, check_unchanged
from headway.tasks.job import Emit
from headway.tasks.sections import RunSettings
from headway.text import EncoderTokenizer, TextTokenizer

FILE = "texts.json"
TEXTS = ExampleFiles(
    examples="texts",
    kinds=".tsv, .csv, .jsonl or .parquet",
    endings=ENDINGS,
    content=ROWS,
    trains="a classifier",
    start="a language model or an encoder",
)
Targets = Sequence[int] | Sequence[float]
"""Targets of texts: class numbers, or values for regression."""


@dataclass(frozen=True)
class LabelledBatch(EncoderBatch):
    """Framed texts and their targets: class numbers, or values for regression. indices: indices of
    the texts in the data. num_tokens: the number of tokens of all texts; None if they are to be
    counted."""

    examples = "texts"
    targets: Int[Tensor, " B"] | Float[Tensor, " B"]
    indices: tuple[int, ...] = ()
    num_tokens: int | None = None


@dataclass(frozen=True)
class LabelledTexts:
    """Tokenized texts with targets.

    rows: token ids of each text, none empty. targets: one per text. types: segment ids of each
    text, 1 for tokens of the second text of a pair; None if there are no pairs.
    """

    rows: Sequence[Sequence[int]]
    targets: Targets
    types: Sequence[Sequence[int]] | None = None

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each text."""
        return [len(sequence) for sequence in self.rows]

    def batch(self, indices: Indices, pad: int) -> LabelledBatch:
        """Return the texts with these indices as a batch."""
        chosen = [int(i) for i in indices]
        types = None if self.types is None else [self.types[i] for i in chosen]
        targets = [self.targets[i] for i in chosen]
        return collate_labelled([self.rows[i] for i in chosen], targets, pad, chosen, types)


def collate_labelled(
    sequences: Sequence[Sequence[int]],
    targets: Targets,
    pad: int,
    indices: Sequence[int] = (),
    types: Sequence[Sequence[int]] | None = None,
) -> LabelledBatch:
    """Return texts of any lengths, none empty, with their targets as one batch."""
    if len(sequences) != len(targets) or not all(sequences):
        raise ValueError("every text must have a label and at least one token")
    framed = collate_encoder_batch(sequences, types, pad)
    return LabelledBatch(
        framed.tokens,
        framed.keys,
        framed.types,
        torch.tensor(targets),
        tuple(indices),
        sum(map(len, sequences)),
    )


@dataclass(frozen=True)
class PreparedTexts:
    """The encoded training texts of a classifier, and the held-out texts.

    extra: ids and token types of texts without labels.
    """

    reader: ClassReader
    train: LabelledTexts
    held_out: list[LabelledText]
    extra: tuple[list[list[int]], list[list[int]]] = ([], [])


def check_texts(config: ClassifyRunConfig) -> None:
    """Raise UsageError if texts or the pre-trained model are missing, or if settings conflict."""
    data = config.data
    TEXTS.check(config)
    if len(set(data.columns.named.values())) < len(data.columns.named):
        names = ", ".join(f"data.{field}={name}" for field, name in data.columns.named.items())
        raise UsageError(f"{names}: the columns must be different")
    metric = config.evaluation.metric
    if metric is not None and metric not in METRICS[data.kind]:
        raise UsageError(
            f"evaluation.metric={metric} does not exist for data.kind={data.kind}",
            hint=f"one of {', '.join(METRICS[data.kind])}",
        )
    if config.training.balance and data.kind == "number":
        raise UsageError(
            "training.balance weights classes, and data.kind=number has none",
            hint="leave out --training.balance",
        )


def check_extra(config: RunSettings) -> None:
    """Raise UsageError for texts without labels, of a student's run, that are missing."""
    for name in config.data.extra:
        check_unlabelled(Path(name))


def labelled_texts(
    data: ClassifyDataConfig, emit: Emit = lambda event: None
) -> tuple[list[LabelledText], list[LabelledText]]:
    """Read the training texts and the validation texts.

    The (first) text decides whether an example is held out, so that duplicates are in the same
    split. Raises DataError if a split is empty, if there is only one label, for a label of
    data.valid that data.train does not have, and for a label that is no number if data.kind is
    number.
    """
    bad_rows, classes = BadRows.of(data.bad_rows), data.kind == "class"
    texts, valid = TEXTS.read(data, lambda files: read_labelled(files, data.columns, bad_rows))
    _check_labels(texts, data)
    if classes:
        labels = {text.label for text in texts}
        check_known(labels_of(valid or ()), labels, "label", "the training texts")
    else:
        _ = [text.number for text in valid or ()]  # DataError for a label that is no number
    bad_rows.announce(emit)
    examples = TEXTS if data.second is None else replace(TEXTS, examples="pairs")
    return examples.split(
        data,
        texts,
        valid,
        lambda text: text.text,
        labels=lambda text: (text.label,) if classes else (),
        emit=emit,
    )


def labels_of(texts: Sequence[LabelledText]) -> Iterator[tuple[str, str]]:
    """Return the labels of texts with their locations (file and line)."""
    return ((text.label, text.where) for text in texts)


def _check_labels(texts: Sequence[LabelledText], data: ClassifyDataConfig) -> None:
    """Raise DataError unless there are two different labels, which are numbers if they must be."""
    numbers = data.kind == "number"
    labels = {text.number if numbers else text.label for text in texts}
    if len(labels) < 2:
        actual = f"all have the label {labels.pop()!r}" if labels else "there are no texts"
        expected = "different numbers" if numbers else "at least two classes"
        raise DataError(f"expected texts of {expected}, but {actual}", ", ".join(data.train))


def prepare_texts(
    config: ClassifyRunConfig,
    tokenizer: TextTokenizer | EncoderTokenizer,
    room: int | None,
    folder: Path,
    emit: Emit,
) -> PreparedTexts:
    """Read and encode the texts.

    room: the maximum length of the pre-trained model in tokens; None: no maximum.
    """
    data = config.data
    sides = labelled_texts(data, emit)
    length = data.max_length if room is None else min(data.max_length, room)
    return _prepared(sides, _reader(data, tokenizer, sides, length), folder, emit)


def prepare_for_reader(
    data: ClassifyDataConfig,
    reader: ClassReader,
    extra: Sequence[LabelledText],
    folder: Path,
    emit: Emit,
) -> PreparedTexts:
    """Read and encode the texts with the reader of a trained model.

    extra: texts without labels; those that are among the held-out texts are left out. Raises
    UsageError if data.second or data.kind does not fit the model, and DataError for a label that
    the model does not have.
    """
    kind = "number" if reader.numbers else "class"
    if kind != data.kind or reader.pairs not in (None, data.second is not None):
        inputs = "pairs of texts" if reader.pairs else "single texts"
        outputs = "numbers" if reader.numbers else "classes"
        raise UsageError(
            f"the model predicts {outputs} for {inputs}, and data.second or data.kind does not fit",
            hint="--data.second COLUMN for pairs, --data.kind number for numbers",
        )
    sides = labelled_texts(data, emit)
    if reader.numbers is None:
        check_known(labels_of([*sides[0], *sides[1]]), reader.labels, "label")
    held_out = {text.texts for text in sides[1]}
    remaining = [text for text in extra if text.texts not in held_out]
    if len(remaining) < len(extra):
        count = len(extra) - len(remaining)
        note = f"{count:,} texts of data.extra are left out: they are held-out texts too"
        emit({"kind": "note", "text": note})
    return _prepared(sides, reader, folder, emit, remaining)


def _prepared(
    splits: tuple[list[LabelledText], list[LabelledText]],
    reader: ClassReader,
    folder: Path,
    emit: Emit,
    extra: Sequence[LabelledText] = (),
) -> PreparedTexts:
    """Encode the texts, check or write their fingerprint, and emit their numbers."""
    sides = [_encoded(side, reader) for side in splits]
    extra_rows = _rows(extra, reader)
    contents: list[object] = [[side.rows, side.targets] for side in sides]
    check_unchanged(
        folder / FILE, reader.fingerprint, [*contents, extra_rows[0]] if extra else contents
    )
    length = reader.max_length
    unit = "pairs" if reader.pairs else "texts"
    for name, side in zip(("train", "valid"), sides, strict=True):
        emit({"kind": "prepared", "what": name, "count": len(side.rows), "unit": unit})
        full = sum(len(row) == length for row in side.rows)
        if full:
            text = f"{full:,} {unit} of {name} have {length} tokens or are truncated to {length}"
            emit({"kind": "note", "text": text})
    emit({"kind": "note", "text": _baseline(reader, splits[1])})
    if extra:
        emit({"kind": "prepared", "what": "extra", "count": len(extra), "unit": unit})
    return PreparedTexts(reader, sides[0], splits[1], extra_rows)


def _reader(
    data: ClassifyDataConfig,
    tokenizer: TextTokenizer | EncoderTokenizer,
    sides: tuple[list[LabelledText], list[LabelledText]],
    length: int,
) -> ClassReader:
    """Make the reader: with the labels of all texts, or with the scale of the training numbers."""
    labels: tuple[str, ...] = ()
    numbers = None
    if data.kind == "class":
        labels = tuple(sorted({text.label for side in sides for text in side}))
    else:
        numbers = Numbers.of([text.number for text in sides[0]])
    if numbers is not None and not numbers.deviation > 0:
        raise DataError("all training texts have the same number", ", ".join(data.train))
    return ClassReader(tokenizer, labels, length, numbers, data.second is not None)


def _baseline(reader: ClassReader, valid: Sequence[LabelledText]) -> str:
    """Describe the score of predicting always the mean, or the most frequent label."""
    if reader.numbers is not None:
        mean, numbers = reader.numbers.mean, [text.number for text in valid]
        error = sum((y - mean) ** 2 for y in numbers) / len(numbers)
        lowest, highest = reader.numbers.lowest, reader.numbers.highest
        known = lowest is not None and highest is not None
        scale = f"numbers from {lowest:g} to {highest:g}; " if known else ""
        return f"{scale}mean baseline ({mean:.3g}): mean squared error {error:.3g}"
    return f"{len(reader.labels)} classes; {majority_baseline(text.label for text in valid)}"


def _rows(
    texts: Sequence[LabelledText], reader: ClassReader
) -> tuple[list[list[int]], list[list[int]]]:
    """Return ids and token types of texts."""
    rows: list[list[int]] = []
    types: list[list[int]] = []
    for text in texts:
        try:
            ids, kinds = reader.encode([text.texts])
        except UsageError as error:  # a character that is not in a character vocabulary
            raise DataError(error.what, text.where, error.hint) from error
        rows += ids
        types += kinds
    return rows, types


def _encoded(texts: Sequence[LabelledText], reader: ClassReader) -> LabelledTexts:
    rows, types = _rows(texts, reader)
    second = types if reader.pairs is not False else None
    if reader.numbers is not None:
        return LabelledTexts(rows, [reader.numbers.scaled(text.number) for text in texts], second)
    numbers = {label: i for i, label in enumerate(reader.labels)}
    return LabelledTexts(rows, [numbers[text.label] for text in texts], second)


def columns_of(bundle: ClassifierBundle, path: Path, config: object) -> ClassifyDataConfig:
    """Return the names of the columns of a table.

    They are those of the configuration of the model's run, or else the defaults of the recipes. A
    model that does not declare whether it takes pairs takes them if the table has their columns.
    """
    data = getattr(config, "data", None)
    if isinstance(data, ClassifyDataConfig):
        return data
    reads_pairs = bundle.reader.pairs
    if reads_pairs is None:
        first = next(read_rows(path, {}), None)
        reads_pairs = first is not None and pairs().data.second in first.values
    names = pairs().data if reads_pairs else classify().data
    if bundle.reader.numbers is None:
        return names
    return replace(names, kind="number", label=regress().data.label)


@dataclass(frozen=True, kw_only=True)
class ClassColumns:
    """Names of the columns of a table of inputs."""

    text: str | None = setting(
        None, "Column of --file that holds the text; if unset, as in training."
    )
    second: str | None = setting(
        None, "Column of --file that holds the second text; if unset, as in training."
    )


def read_line(bundle: ClassifierBundle, line: str, where: str) -> ClassInput:
    """Parse a line of standard input.

    A model of text pairs reads two texts separated by a tab. A model that does not declare whether
    it reads pairs reads two texts if the line has a tab. Raises DataError for a line that has not
    exactly one tab where two texts are expected.
    """
    first, tab, second = line.partition("\t")
    reads_pairs = bundle.reader.pairs
    if not (reads_pairs or (reads_pairs is None and tab)):
        return ClassInput(text=line)
    if not tab or "\t" in second:
        raise DataError("expected two texts separated by one tab", where)
    return ClassInput(text=first, second=second)


def read_table(
    bundle: ClassifierBundle, path: Path, config: RunSettings | None, columns: ClassColumns
) -> Iterator[ClassInput]:
    """Read the inputs of a table, whose columns are named as in training where unset."""
    names = columns_of(bundle, path, config)
    second = columns.second or names.second
    for text in read_labelled([path], Columns(columns.text or names.text, None, second)):
        yield ClassInput(text=text.text, second=text.second)
