"""`headway classify`: texts in, what they are out; and how often that is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.cli.console import data, data_json
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags
from headway.cli.inputs import NAME, Truncated, chunks, standard_input
from headway.cli.pictures import classify_pictures
from headway.errors import DataError, UsageError

if TYPE_CHECKING:
    from headway.bundle import ClassifierBundle, Texts
    from headway.data.formats import LabelledText
    from headway.recipes.classify_config import ClassifyDataConfig


def classify(
    run: Path,
    /,
    *text: str,
    second: str | None = None,
    file: Path | None = None,
    text_column: Annotated[str | None, Parameter(name="--data.text")] = None,
    second_column: Annotated[str | None, Parameter(name="--data.second")] = None,
    top: int | None = None,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Say what texts are: those given, those of a table, or one a line from standard input. Of a
    classifier of pictures, what these show: headway classify RUN a.png folder/

    A line each: label and probability, as many as --top asks for, tabs between them; or the number,
    of a model that learned numbers. Of a model of pairs, a line of standard input is two texts with
    a tab between them. A picture's line begins with its file.

    Parameters
    ----------
    run
        A run folder or a model folder.
    text
        Texts; without any, and without --file, standard input is read line by line. Or pictures
        (.png .jpg .webp), or folders of them.
    second
        The second text, of a model of pairs.
    file
        A table of texts: .tsv or .csv with a header, or .jsonl, plain or .gz.
    text_column
        Its column of texts; the training's unless given.
    second_column
        Its column of second texts; the training's unless given.
    top
        So many labels of each text, the likeliest first: 1, of a picture 5, with --json all,
        unless given.
    json
        One JSON object a line, with the probabilities of the labels that --top asks for.
    """
    from headway.bundle import ClassifierBundle
    from headway.tasks.image_classification.bundle import ImageClassifierBundle
    from headway.tasks.opening import expect

    if top is not None and top < 1:
        raise UsageError(f"--top {top}: must be at least 1")
    if (text and file) or (second is not None and len(text) != 1):
        raise UsageError("give texts, or one text and --second, or --file")
    place = machine.prepare()
    bundle = place.load(run)
    with place.precision():
        if not isinstance(bundle, ImageClassifierBundle):
            reads = expect(ClassifierBundle, bundle, run)
            inputs = _inputs(reads, run, file, (text_column, second_column), (text, second))
            lists = chunks(inputs, from_input=not text and file is None)
            _classify(reads, lists, top or (None if json else 1), json)
        elif second is not None or file is not None:
            raise UsageError("this model looks at pictures", hint="name their files")
        else:
            classify_pictures(bundle, text, top, json)


def _inputs(
    bundle: ClassifierBundle,
    run: Path,
    file: Path | None,
    columns: tuple[str | None, str | None],
    words: tuple[Sequence[str], str | None],
) -> Iterator[Texts]:
    """The texts of a table, or those of the command line; without either standard input."""
    texts, second = words
    if file is not None:
        return _table(bundle, run, file, columns)
    if texts:
        return iter([(each, second) if second is not None else each for each in texts])
    return _lines(bundle.reader.pairs)


def _classify(
    bundle: ClassifierBundle, inputs: Iterator[list[Texts]], top: int | None, json: bool
) -> None:
    """Show the labels of all of them, `top` of each, or the numbers."""
    number = 0
    truncated = Truncated(bundle.reader.max_length)
    for chunk in inputs:
        for texts, each in zip(chunk, _found(bundle, chunk, top), strict=True):
            number += 1
            _show(number, texts, each, json)
        truncated.add(bundle.reader.lengths(chunk))
    truncated.report()


def _lines(pairs: bool | None) -> Iterator[Texts]:
    """Standard input, a line for each; where both may be, a tab makes a pair. DataError for a line
    that is no pair where it must be."""
    for number, line in enumerate(standard_input("text"), start=1):
        first, tab, second = line.partition("\t")
        if not (pairs or (pairs is None and tab)):
            yield line
            continue
        if not tab or "\t" in second:
            raise DataError("not two texts with a tab between them", f"{NAME}, line {number}")
        yield first, second


def _table(
    bundle: ClassifierBundle, run: Path, file: Path, columns: tuple[str | None, str | None]
) -> Iterator[Texts]:
    from headway.data.formats import Columns, read_labelled

    names = _trained_on(run) or _usual(bundle, file)
    text, second = columns[0] or names.text, columns[1] or names.second
    for each in read_labelled([file], Columns(text, None, second)):
        yield each.texts


def _found(bundle: ClassifierBundle, texts: Sequence[Texts], top: int | None) -> list[Any]:
    """Of each text its number, or the probabilities of so many labels."""
    if bundle.reader.numbers is not None:
        return bundle.score(texts)
    return [dict(islice(each.probabilities.items(), top)) for each in bundle.classify(texts)]


def _show(number: int, texts: Texts, found: float | dict[str, float], json: bool) -> None:
    if json:
        named = zip(("text", "second"), (texts,) if isinstance(texts, str) else texts, strict=False)
        row: dict[str, Any] = {"line": number, **dict(named)}
        if isinstance(found, float):
            data_json({**row, "number": found})
        else:
            data_json({**row, "label": next(iter(found)), "probabilities": found})
    elif isinstance(found, float):
        data(f"{found:.3f}")
    else:
        data("\t".join(f"{label}\t{share:.3f}" for label, share in found.items()))


def evaluate_classifier(bundle: ClassifierBundle, run: Path, path: Path | None, json: bool) -> None:
    """`class_scores` or `number_scores` on labelled texts: a file's, or those that the run held
    out."""
    from headway.data.formats import read_labelled
    from headway.recipes.classify_data import labelled_texts

    names = _trained_on(run)
    if path is not None:
        texts = list(read_labelled([path], (names or _usual(bundle, path)).columns))
    elif names is not None:
        texts = labelled_texts(names)[1]
    else:
        raise UsageError(f"{run} does not say what it was trained on", hint="name a file of texts")
    if not texts:
        raise DataError("there is no text to evaluate on", str(path))
    scores = _scores(bundle, texts)
    unit = "texts" if isinstance(texts[0].texts, str) else "pairs"
    if json:
        data_json({**scores, unit: len(texts)})
        return
    right = f"{scores.pop('right'):,} of " if "right" in scores else ""
    numbers = (f"{name.replace('_', ' ')} {value:.3f}" for name, value in scores.items())
    data("   ".join([*numbers, f"{right}{len(texts):,} {unit}"]))


def _scores(bundle: ClassifierBundle, texts: Sequence[LabelledText]) -> dict[str, float]:
    """DataError with file and line for a label that the model does not know, or no number."""
    from headway.evaluation import class_scores, number_scores

    asked = [each.texts for each in texts]
    truncated = Truncated(bundle.reader.max_length)
    truncated.add(bundle.reader.lengths(asked))
    truncated.report()
    if bundle.reader.numbers is not None:
        true = [each.number for each in texts]
        return number_scores(bundle.score(asked), true)
    for each in texts:
        if each.label not in bundle.labels:
            raise DataError(f"the model does not know the label {each.label!r}", each.where)
    known = {label: i for i, label in enumerate(bundle.labels)}
    found = [known[each.label] for each in bundle.classify(asked)]
    classes = [known[each.label] for each in texts]
    right = sum(a == b for a, b in zip(found, classes, strict=True))
    return {**class_scores(found, classes), "right": right}


def _trained_on(run: Path) -> ClassifyDataConfig | None:
    """What the run was told of its data; None for a model without a run around it."""
    from headway.recipes import saved
    from headway.recipes.classify_config import ClassifyDataConfig

    config = saved(run) if (run / "run.yaml").is_file() else None
    return config.data if config and isinstance(config.data, ClassifyDataConfig) else None


def _usual(bundle: ClassifierBundle, file: Path) -> ClassifyDataConfig:
    """The columns that the recipes expect; of a model that does not say whether it reads pairs,
    those of pairs if the table has them."""
    from headway.data.formats import read_rows
    from headway.recipes.encoder_catalogue import classify, pairs, regress

    reads_pairs = bundle.reader.pairs
    if reads_pairs is None:
        _, first = next(read_rows(file, {}), (0, {}))
        reads_pairs = pairs().data.second in first
    names = pairs().data if reads_pairs else classify().data
    if bundle.reader.numbers is None:
        return names
    return replace(names, kind="number", label=regress().data.label)
