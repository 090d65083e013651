"""From a person's labelled texts to examples in memory, and a note in the run folder of which."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from headway.bundle import ClassReader
from headway.data.formats import LabelledText, check_labelled, read_labelled
from headway.data.labelled import LabelledTexts
from headway.errors import DataError, UsageError
from headway.files import read_json, write_file
from headway.recipes.classify_config import ClassifyDataConfig, ClassifyRunConfig
from headway.recipes.family import Emit
from headway.recipes.prepare import is_held_out
from headway.text import TextTokenizer

FILE = "texts.json"


@dataclass(frozen=True)
class PreparedTexts:
    """What a classifier learns from."""

    reader: ClassReader
    train: LabelledTexts
    valid: LabelledTexts


def check_texts(config: ClassifyRunConfig) -> None:
    """UsageError unless there are texts, and a model to start from."""
    if not config.data.train:
        raise UsageError(
            "there are no texts to learn from",
            hint="headway train classify FILE --from RUN, where FILE is .tsv, .csv or .jsonl",
        )
    for name in (*config.data.train, *config.data.valid):
        check_labelled(Path(name))
    if config.training.start is None:
        raise UsageError(
            "a classifier is made from a language model, and none is named",
            hint="--from RUN; headway train gpt-tiny TEXT makes one",
        )


def labelled_texts(data: ClassifyDataConfig) -> tuple[list[LabelledText], list[LabelledText]]:
    """What is trained on, and what is held out: data.valid, or some of data.train.

    Which of them follows from the text alone, so that a text that stands twice is not on both
    sides. DataError where a side is empty, where there is one label only, or for a label in
    data.valid that data.train does not have.
    """
    given = list(read_labelled([Path(name) for name in data.train], data.text, data.label))
    sources = ", ".join(data.train)
    labels = {each.label for each in given}
    if len(labels) < 2:
        found = f"all have the label {labels.pop()!r}" if labels else "there are none"
        raise DataError(f"texts of two classes are needed: {found}", sources)
    if data.valid:
        valid = list(read_labelled([Path(name) for name in data.valid], data.text, data.label))
        for each in valid:
            if each.label not in labels:
                raise DataError(
                    f"the label {each.label!r} does not stand in the training texts", each.where
                )
        train, sources = given, ", ".join(data.valid)
    else:
        valid = [each for each in given if is_held_out(each.text, data.held_out)]
        train = [each for each in given if not is_held_out(each.text, data.held_out)]
    if not train or not valid:
        side = "held out" if train else "left to train on"
        raise DataError(
            f"of {len(given):,} texts none is {side}",
            sources,
            "--data.valid FILE, or another --data.held-out",
        )
    return train, valid


def prepare_texts(
    config: ClassifyRunConfig, tokenizer: TextTokenizer, room: int | None, folder: Path, emit: Emit
) -> PreparedTexts:
    """The examples, encoded. DataError if the run began with others.

    room: the most tokens that the model to start from has places for, None for any number.
    """
    data = config.data
    given = labelled_texts(data)
    labels = tuple(sorted({each.label for side in given for each in side}))
    length = data.max_length if room is None else min(data.max_length, room)
    reader = ClassReader(tokenizer, labels, length)
    sides = [_encoded(side, reader) for side in given]
    _check_unchanged(folder / FILE, reader, sides)
    for name, side in zip(("train", "valid"), sides, strict=True):
        emit({"kind": "prepared", "what": name, "count": len(side.rows), "unit": "texts"})
        full = sum(len(row) == length for row in side.rows)
        if full:
            text = f"{full:,} texts of {name} fill {length} tokens; what is longer was cut"
            emit({"kind": "note", "text": text})
    common, count = Counter(sides[1].classes).most_common(1)[0]
    share = count / len(sides[1].classes)
    text = f"{len(labels)} classes; to say {labels[common]!r} always is right for {share:.1%}"
    emit({"kind": "note", "text": text})
    return PreparedTexts(reader, *sides)


def _encoded(texts: list[LabelledText], reader: ClassReader) -> LabelledTexts:
    numbers = {label: i for i, label in enumerate(reader.labels)}
    rows: list[list[int]] = []
    for each in texts:
        try:
            rows += reader.encode([each.text])
        except UsageError as error:  # an alphabet of characters knows no others
            raise DataError(error.what, each.where, error.hint) from error
    return LabelledTexts(rows, [numbers[each.label] for each in texts])


def _check_unchanged(path: Path, reader: ClassReader, sides: list[LabelledTexts]) -> None:
    """Examples are read anew each time that a run goes on; others would make it another run."""
    seen = json.dumps([[side.rows, side.classes] for side in sides]).encode()
    facts = {"format": 1, "reader": reader.fingerprint, "sha256": hashlib.sha256(seen).hexdigest()}
    if not path.exists():
        write_file(path, (json.dumps(facts, indent=1) + "\n").encode())
    elif read_json(path) != facts:
        raise DataError(
            "the texts, their labels or the model to start from are not those that the run began "
            "with",
            str(path),
            "put them back, or --run OTHERNAME for a new run",
        )
